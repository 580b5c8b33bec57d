package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// omittedPage lists the rules of the API server that muster omits.
const omittedPage = "../../docs/reference/api-server-rules.md"

const begin, end = "<!-- begin: omitted -->\n", "<!-- end: omitted -->\n"

// rule is a field that the API server refuses, and why.
type rule struct{ field, refused string }

// elsewhere matches what is not omitted: muster fills it in or check has a finding of its own, or it is a flag
// of the API server whether it is refused.
var elsewhere = regexp.MustCompile(`^(metadata\.(namespace|name|generateName)|spec\.(managedBy|successPolicy.*)): |disallowed by cluster policy`)

var (
	index = regexp.MustCompile(`\[[^\]]*\]`)
	// quoted matches the value in a reason of the API server: the rest, up to the last end of a string, list or
	// number that a colon follows.
	quoted = regexp.MustCompile(`^(Invalid value|Duplicate value|Unsupported value|Too long|Too many): (.*(["}\]\d>]|true|false|null|nil))?(: |$)`)
)

// ruleOf returns the rule of a reason, without the names and values of the Job that broke it.
func ruleOf(reason string) rule {
	_, reason, _ = strings.Cut(reason, ": ") // the kind and the name of the object
	field, why, found := strings.Cut(reason, ": ")
	field = strings.ReplaceAll(field, ", ", ",") // several fields
	if !found || strings.Contains(field, " ") {
		return rule{"", reason}
	}
	kind, detail, _ := strings.Cut(why, ": ")
	if m := quoted.FindString(why); m != "" {
		detail = why[len(m):]
	}
	for _, more := range []string{" (e.g.", ", regex used", "; regex used", ": supported values"} {
		detail, _, _ = strings.Cut(detail, more)
	}
	detail = strings.TrimSpace(strings.NewReplacer("|", " ", "\n", " ", "<", "", ">", "").Replace(detail)) // in Markdown
	if kind = strings.ToLower(kind); detail != "" && kind != "required value" {
		kind = detail
	}
	return rule{index.ReplaceAllString(field, "[]"), kind}
}

// checkOmitted compares the rules that muster alone accepts with the page.
func checkOmitted(t *testing.T, rules map[rule]bool) {
	page, err := os.ReadFile(omittedPage)
	must(t, err)
	before, rest, found := strings.Cut(string(page), begin)
	list, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no list", omittedPage)
	}
	byField := map[string][]string{}
	for r := range rules {
		byField[r.field] = append(byField[r.field], r.refused)
	}
	var table strings.Builder
	table.WriteString("| field | refused |\n|---|---|\n")
	for _, field := range slices.SortedFunc(maps.Keys(byField), cmp.Compare[string]) {
		slices.Sort(byField[field])
		row := fmt.Sprintf("| `%s` | %s |\n", field, strings.Join(byField[field], "; "))
		table.WriteString(row)
		for _, refused := range byField[field] {
			if listed := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(field) + "` \\| (.*; )?" + regexp.QuoteMeta(refused) + "(; .*)? \\|$"); !*all && !listed.MatchString(list) {
				t.Errorf("muster accepts what the API server refuses, and %s does not list it: %s: %s", omittedPage, field, refused)
			}
		}
	}
	switch {
	case !*all || list == table.String():
	case *update:
		must(t, os.WriteFile(omittedPage, []byte(before+begin+table.String()+end+after), 0o644))
	default:
		t.Errorf("%s is outdated: go -C testdata/apiserver test -run TestMusterAgrees -args -all -update\n%s", omittedPage, table.String())
	}
}

// broken are fields of a pod, and with job before them of the Job's spec, that the API server refuses together.
var broken = `
- {containers.0.ports: [{containerPort: 1, hostPort: 80}, {containerPort: 2, hostPort: 80}]}
- {hostNetwork: true, containers.0.ports: [{containerPort: 1, hostPort: 2}]}
- {dnsPolicy: None}
- {dnsPolicy: None, dnsConfig: {searches: [a]}}
- {dnsConfig: {searches: [` + searches + `]}}
- {dnsConfig: {searches: [` + longSearches + `]}}
- {dnsConfig: {options: [{value: x}]}}
- {schedulingGates: [{name: a}, {name: a}]}
- {containers.0.resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: cpu, restartPolicy: NotRequired}]}
- {initContainers: [{name: i, image: i, restartPolicy: Always, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]}]}
- {containers.0.volumeMounts.0.recursiveReadOnly: Enabled}
- {containers.0.volumeMounts.0.recursiveReadOnly: Enabled, containers.0.volumeMounts.0.readOnly: true, containers.0.volumeMounts.0.mountPropagation: HostToContainer}
- {containers.0.volumeMounts.0.subPath: a, containers.0.volumeMounts.0.subPathExpr: b}
- {containers.0.volumeMounts.0.mountPropagation: Bidirectional}
- {containers.0.volumeDevices: [{name: home, devicePath: /dev/a}]}
- {volumes.0: {name: home, persistentVolumeClaim: {claimName: a}}, containers.0.volumeMounts: [], containers.0.volumeDevices: [{name: home, devicePath: /dev/a}, {name: home, devicePath: /dev/a}]}
- {volumes.0: {name: home, persistentVolumeClaim: {claimName: a}}, containers.0.volumeMounts: [{name: home, mountPath: /dev/a}], containers.0.volumeDevices: [{name: home, devicePath: /dev/a}]}
- {hostPID: true, shareProcessNamespace: true}
- {hostUsers: false, hostNetwork: true}
- {hostUsers: false, hostPID: true}
- {hostUsers: false, hostIPC: true}
- {hostUsers: false, volumes.0: {name: home, persistentVolumeClaim: {claimName: a}}, containers.0.volumeMounts: [], containers.0.volumeDevices: [{name: home, devicePath: /dev/a}]}
- {setHostnameAsFQDN: true, hostnameOverride: a}
- {hostNetwork: true, hostnameOverride: a}
- {containers.0.securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [CAP_SYS_ADMIN]}}}
- {containers.0.securityContext: {procMount: Unmasked}}
- {securityContext.sysctls: [{name: kernel.shm_rmid_forced, value: "1"}, {name: kernel.shm_rmid_forced, value: "1"}]}
- {hostIPC: true, securityContext.sysctls: [{name: kernel.shm_rmid_forced, value: "1"}]}
- {hostNetwork: true, securityContext.sysctls: [{name: net.ipv4.tcp_syncookies, value: "1"}]}
- {securityContext.appArmorProfile: {type: Localhost, localhostProfile: " a"}}
- {securityContext.appArmorProfile: {type: Localhost, localhostProfile: ""}}
- {securityContext.appArmorProfile: {type: Localhost, localhostProfile: ` + longProfile + `}}
- {securityContext.appArmorProfile: {type: RuntimeDefault, localhostProfile: a}}
- {containers.0.lifecycle: {preStop: {sleep: {seconds: 99999}}}}
- {containers.0.lifecycle: {preStop: {sleep: {seconds: 1}, exec: {command: [a]}}}}
- {containers.0.readinessProbe: {exec: {command: [a]}, httpGet: {port: 1}}}
- {containers.0.restartPolicy: Never, containers.0.restartPolicyRules: [` + containerRules + `]}
- {containers.0.restartPolicy: Never, containers.0.restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [` + exitCodes + `]}}]}
- {initContainers: [{name: agent, image: i}]}
- {containers.0.env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 3m}}}]}
- {containers.0.env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 3}}}]}
- {containers.0.env: [{name: A, valueFrom: {fileKeyRef: {volumeName: home, path: a, key: "a=b"}}}]}
- {volumes.0: {name: home, configMap: {name: a}}, containers.0.env: [{name: A, valueFrom: {fileKeyRef: {volumeName: home, path: a, key: b}}}]}
- {containers.0.env: [{name: A, valueFrom: {fieldRef: {fieldPath: "metadata.name['a']"}}}]}
- {containers.0.envFrom: [{configMapRef: {name: a}, secretRef: {name: b}}]}
- {containers.0.envFrom: [{configMapRef: {name: A_B}}]}
- {containers.0.envFrom: [{secretRef: {name: A_B}}]}
- {containers.0.resources: {requests: {hugepages-2Mi: 2Mi}, limits: {hugepages-2Mi: 2Mi}}}
- {containers.0.resources: {limits: {hugepages-2Mi: 3, cpu: 1}}}
- {containers.0.resources: {requests: {example.com/a: 1}, limits: {example.com/a: 2}}}
- {containers.0.resources: {requests: {cpu: 1}, limits: {cpu: 1}, claims: [{name: a}]}}
- {resourceClaims: [{name: a, resourceClaimName: c}, {name: a, resourceClaimName: d}]}
- {resourceClaims: [{name: a, resourceClaimName: c, resourceClaimTemplateName: d}]}
- {resourceClaims: [{name: a, resourceClaimName: c}], containers.0.resources: {claims: [{name: a}, {name: a}]}}
- {resourceClaims: [{name: a, resourceClaimName: c}], containers.0.resources: {claims: [{name: a, request: x}, {name: a}]}}
- {resources: {requests: {cpu: 1m}}}
- {tolerations: [{key: a, operator: Exists, value: b}]}
- {tolerations: [{key: a, operator: Equal, value: "a b"}]}
- {tolerations: [{key: a, operator: Gt, value: b}]}
- {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: [b, c]}]}]}}}}
- {topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}]}
- {volumes.0: {name: home, flexVolume: {driver: a/b, options: {kubernetes.io/a: b}}}}
- {volumes.0: {name: home, iscsi: {targetPortal: a, iqn: iqn.x}}}
- {volumes.0: {name: home, iscsi: {targetPortal: a, iqn: eui.x}}}
- {volumes.0: {name: home, iscsi: {targetPortal: a, iqn: naa.x}}}
- {volumes.0: {name: home, iscsi: {targetPortal: a, iqn: eui.0123456789abcdef, initiatorName: iqn.x}}}
- {volumes.0: {name: home, configMap: {name: a, items: [{key: k, path: ..a}]}}}
- {volumes.0: {name: home, projected: {sources: [{serviceAccountToken: {path: a, expirationSeconds: 4294967297}}]}}}
- {volumes.0: {name: home, projected: {sources: [{secret: {name: a, items: [{key: k, path: a}]}}, {secret: {name: b, items: [{key: k, path: a}]}}]}}}
- {volumes.0: {name: home, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOncePod, ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}}
- {containers.0.securityContext: {windowsOptions: {hostProcess: true}}}
- {securityContext.windowsOptions: {hostProcess: true}, containers.0.securityContext: {windowsOptions: {hostProcess: false}}}
- {securityContext.windowsOptions: {hostProcess: true}, hostNetwork: true, initContainers: [{name: i, image: i, securityContext: {windowsOptions: {hostProcess: false}}}]}
- {initContainers: [{name: i, image: i, securityContext: {windowsOptions: {gmsaCredentialSpecName: A_B}}}]}
- {initContainers: [{name: i, image: i, securityContext: {windowsOptions: {gmsaCredentialSpec: ""}}}]}
- {initContainers: [{name: i, image: i, securityContext: {windowsOptions: {runAsUserName: ""}}}]}
- {initContainers: [{name: i, image: i, securityContext: {windowsOptions: {runAsUserName: 'a\b\c'}}}]}
- {initContainers: [{name: i, image: i, resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: cpu, restartPolicy: NotRequired}]}]}
- {containers.0.resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]}
- {initContainers: [{name: i, image: i, env: [{name: A, valueFrom: {resourceFieldRef: {containerName: i, resource: limits.cpu, divisor: 3m}}}]}]}
- {initContainers: [{name: i, image: i, env: [{name: A, valueFrom: {resourceFieldRef: {containerName: i, resource: limits.memory, divisor: 3}}}]}]}
- {containers.0.securityContext: {windowsOptions: {gmsaCredentialSpecName: A_B}}}
- {containers.0.securityContext: {windowsOptions: {gmsaCredentialSpec: ""}}}
- {containers.0.securityContext: {windowsOptions: {runAsUserName: ""}}}
- {containers.0.securityContext: {windowsOptions: {runAsUserName: 'a\b\c'}}}
- {job.parallelism: 200000, job.completions: 200000}
- {job.completions: 200000, job.backoffLimitPerIndex: 0}
- {job.completions: 200000, job.backoffLimitPerIndex: 0, job.parallelism: 20000, job.maxFailedIndexes: 100}
- {job.completions: 200000, job.backoffLimitPerIndex: 0, job.parallelism: 1, job.maxFailedIndexes: 100001}
- {job.podFailurePolicy: {rules: [` + failureRules + `]}}
- {job.podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [` + conditions + `]}]}}
- {job.podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [` + exitCodes + `]}}]}}
- {job.podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [0]}}]}}
- {job.podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [1, 1]}}]}}
- {job.podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [2, 1]}}]}}
- {job.template.metadata.annotations: {kubernetes.io/config.mirror: a}}
- {job.template.metadata.annotations: {seccomp.security.alpha.kubernetes.io/pod: a}}
- {job.template.metadata.annotations: {seccomp.security.alpha.kubernetes.io/pod: runtime/default}, securityContext.seccompProfile: {type: Unconfined}}
- {job.template.metadata.annotations: {container.seccomp.security.alpha.kubernetes.io/agent: a}}
- {job.template.metadata.annotations: {container.seccomp.security.alpha.kubernetes.io/agent: runtime/default}, containers.0.securityContext: {seccompProfile: {type: Unconfined}}}
- {job.template.metadata.annotations: {controller.kubernetes.io/pod-deletion-cost: a}}
- {job.template.metadata.annotations: {container.apparmor.security.beta.kubernetes.io/none: runtime/default}}
- {job.template.metadata.annotations: {container.apparmor.security.beta.kubernetes.io/agent: a}}
- {job.template.metadata.annotations: {container.apparmor.security.beta.kubernetes.io/agent: runtime/default}, containers.0.securityContext: {appArmorProfile: {type: Unconfined}}}
`

// Lists of [broken] that are too long.
var (
	searches       = strings.Repeat("a.b, ", 33)
	longSearches   = strings.Repeat(strings.Repeat("a.", 120)+"b, ", 9)
	longProfile    = strings.Repeat("a", 5000)
	containerRules = strings.Repeat("{action: Restart, exitCodes: {operator: In, values: [1]}}, ", 21)
	failureRules   = strings.Repeat("{action: Ignore, onPodConditions: [{type: A, status: \"True\"}]}, ", 21)
	conditions     = strings.Repeat("{type: A, status: \"True\"}, ", 21)
	exitCodes      = func() string {
		var b strings.Builder
		for n := 1; n <= 256; n++ {
			fmt.Fprintf(&b, "%d, ", n)
		}
		return b.String()
	}()
)
