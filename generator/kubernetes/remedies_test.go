package kubernetes

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// remedies has changes of the base's Job that Kubernetes refuses, with the changes that the remedy of the first
// problem asks for. Paths begin in the pod, and with job in the Job's spec. Without further changes, the
// remedy is a value of the problem's field, another field, or to remove it.
const remedies = `
- [{job.completionMode: Index}]
- [{job.completionMode: NonIndexed}]
- [{job.completions: null}, {job.completions: 1}]
- [{job.parallelism: -1}]
- [{job.ttlSecondsAfterFinished: x}, {job.ttlSecondsAfterFinished: 3600}]
- [{job.ttlSecondsAfterFinished: 3000000000}, {job.ttlSecondsAfterFinished: 3600}]
- [{job.podFailurePolicy.rules.0.action: FailIndex, job.backoffLimitPerIndex: null}]
- [{job.maxFailedIndexes: 0, job.backoffLimitPerIndex: null, job.podFailurePolicy: null}]
- [{job.maxFailedIndexes: 9}]
- [{job.podReplacementPolicy: TerminatingOrFailed}]
- [{resources: {requests: {cpu: 5}, limits: {cpu: 4}}}, {resources.requests.cpu: 4}]
- [{resources: {limits: {cpu: 500m}}}, {resources.limits.cpu: 4}]
- [{resourceClaims: [{name: a, resourceClaimName: A_b}]}, {resourceClaims.0.resourceClaimName: a-b}]
- [{containers.0.restartPolicy: Never, containers.0.restartPolicyRules: [{action: Restart}]}, {containers.0.restartPolicyRules.0.exitCodes: {operator: In, values: [1]}}]
- [{hostAliases: [{ip: 10.9.8.7, hostnames: [A_b]}]}, {hostAliases: [{ip: 10.9.8.7, hostnames: [a-b]}]}]
- [{containers.0.resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]}, {containers.0.resizePolicy.0.restartPolicy: NotRequired}]
- [{job.podFailurePolicy.rules: [RULES]}, {job.podFailurePolicy.rules: [{action: Ignore, onPodConditions: [{type: A, status: "True"}]}]}]
- [{job.podFailurePolicy.rules.0: {action: FailIndex, onExitCodes: {containerName: none, operator: In, values: [1]}}}, {job.podFailurePolicy.rules.0.onExitCodes.containerName: agent}]
- [{job.podFailurePolicy.rules.0: {action: FailIndex, onExitCodes: {operator: In, values: [0, 1]}}}]
- [{job.podFailurePolicy.rules.0: {action: FailIndex, onExitCodes: {operator: In, values: [1, 1]}}}]
- [{job.podFailurePolicy.rules.0: {action: FailIndex, onExitCodes: {operator: In, values: [2, 1]}}}, {job.podFailurePolicy.rules.0.onExitCodes.values: [1, 2]}]
- [{job.podFailurePolicy.rules.0: {action: Ignore}}, {job.podFailurePolicy.rules.0.onPodConditions: [{type: A, status: "True"}]}]
- [{job.podFailurePolicy.rules.0: {action: FailIndex, onExitCodes: {operator: In, values: [1]}, onPodConditions: [{type: A, status: "True"}]}}, {job.podFailurePolicy.rules.0.onExitCodes: null}]
- [{job.selector: {matchLabels: {a: b}}}, {job.selector: null}]
- [{job.template.metadata.labels.job-name: a}]
- [{job.template.metadata.labels.a: "b c"}, {job.template.metadata.labels.a: b-c}]
- [{job.template.metadata.labels: {"a b": c}}, {job.template.metadata.labels: {a-b: c}}]
- [{job.template.metadata.annotations.a: LONG}, {job.template.metadata.annotations.a: b}]
- [{metadata.namespace: A_B}, {metadata.namespace: a-b}]
- [{metadata.name: A_B}, {metadata.name: a-b}]
- [{restartPolicy: null}]
- [{restartPolicy: Always}]
- [{restartPolicy: OnFailure}]
- [{spec: null}, {spec: OLD}]
- [{resorces: {}}, {resorces: null}]
- [{contaners: []}, {contaners: null}]
- [{hostNetwork: "yes"}, {hostNetwork: true}]
- [{hostAliases: {a: b}}, {hostAliases: []}]
- [{securityContext: []}, {securityContext: {}}]
- [{tolerations: [{tolerationSeconds: 1.5, effect: NoExecute, key: a}]}, {tolerations.0.tolerationSeconds: 1}]
- [{containers.0.image: null}, {containers.0.image: a}]
- [{containers.0.image: " a"}, {containers.0.image: a}]
- [{containers.0.image: ""}, {containers.0.image: a}]
- [{containers.0.name: A_B}, {containers.0.name: a-b}]
- [{containers.0.imagePullPolicy: Sometimes}]
- [{containers.0.restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]}, {containers.0.restartPolicy: Never}]
- [{containers.0.livenessProbe: {exec: {command: [a]}, successThreshold: 2}}]
- [{containers.0.readinessProbe: {exec: {command: [a]}, terminationGracePeriodSeconds: 2}}]
- [{containers.0.readinessProbe: {}}, {containers.0.readinessProbe: {exec: {command: [a]}}}]
- [{containers.0.readinessProbe: {httpGet: {port: UPPER}}}, {containers.0.readinessProbe.httpGet.port: upper}]
- [{containers.0.readinessProbe: {httpGet: {port: 0}}}]
- [{containers.0.readinessProbe: {httpGet: {port: true}}}, {containers.0.readinessProbe.httpGet.port: 80}]
- [{containers.0.volumeMounts.0.mountPropagation: Bidirectional}]
- [{containers.0.volumeMounts.0.mountPropagation: Bidirectional}, {containers.0.securityContext: {privileged: true}}]
- [{containers.0.volumeMounts.1.mountPath: /home/ubuntu}, {containers.0.volumeMounts.1.mountPath: /other}]
- [{containers.0.volumeMounts.0.name: none}, {containers.0.volumeMounts.0.name: home}]
- [{containers.0.volumeMounts.0.name: none}, {volumes: [{name: none, emptyDir: {}}, {name: home, emptyDir: {}}, {name: tmp, emptyDir: {}}]}]
- [{containers.0.volumeMounts.0.subPath: /a}, {containers.0.volumeMounts.0.subPath: a}]
- [{containers.0.volumeMounts.0.subPath: a/../b}, {containers.0.volumeMounts.0.subPath: b}]
- [{containers.0.volumeMounts.0.subPath: a, containers.0.volumeMounts.0.subPathExpr: a}]
- [{containers.0.volumeDevices: [{name: home, devicePath: /dev/a}]}, {containers.0.volumeDevices: null}]
- [{containers.0.env.0: {name: A, value: a, valueFrom: {fieldRef: {fieldPath: metadata.name}}}}]
- [{containers.0.env.0: {name: "A=b"}}, {containers.0.env.0: {name: A, value: b}}]
- [{containers.0.env.0.valueFrom: {fieldRef: {fieldPath: metadata.nothing}}}, {containers.0.env.0.valueFrom.fieldRef.fieldPath: metadata.name}]
- [{containers.0.env.0.valueFrom: {fieldRef: {apiVersion: v2, fieldPath: metadata.name}}}]
- [{containers.0.env.0.valueFrom: {fieldRef: {fieldPath: "metadata.labels['a b']"}}}, {containers.0.env.0.valueFrom.fieldRef.fieldPath: "metadata.labels['a-b']"}]
- [{containers.0.env.0.valueFrom: {resourceFieldRef: {resource: limits.none}}}, {containers.0.env.0.valueFrom.resourceFieldRef.resource: limits.cpu}]
- [{containers.0.env.0.valueFrom: {fieldRef: {fieldPath: metadata.name}, secretKeyRef: {name: a, key: b}}}, {containers.0.env.0.valueFrom.fieldRef: null}]
- [{containers.0.resources: {limits: {cpu: 4 cores}}}, {containers.0.resources.limits.cpu: 4}]
- [{containers.0.resources: {limits: {cpu: true}}}, {containers.0.resources.limits.cpu: 4}]
- [{containers.0.resources: {limits: {cpus: 4}}}]
- [{containers.0.resources: {limits: {gpu: 4}}}, {containers.0.resources.limits: {nvidia.com/gpu: 4}}]
- [{containers.0.resources: {limits: {cpu: -1}}}, {containers.0.resources.limits.cpu: 1}]
- [{containers.0.resources: {limits: {a.b/c: 500m}}}, {containers.0.resources.limits: {a.b/c: 1}}]
- [{containers.0.resources: {requests: {a.b/c: 1}}}, {containers.0.resources.limits: {a.b/c: 1}}]
- [{containers.0.resources: {requests: {a.b/c: 1}, limits: {a.b/c: 2}}}]
- [{containers.0.resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]
- [{containers.0.resources: {limits: {hugepages-2Mi: 2Mi}}}, {containers.0.resources.limits: {hugepages-2Mi: 2Mi, cpu: 1}}]
- [{containers.0.resources: {claims: [{name: a}]}}, {resourceClaims: [{name: a, resourceClaimName: b}]}]
- [{resources: {claims: [{name: a}]}}, {resources: null}]
- [{resources: {limits: {ephemeral-storage: 1Gi}}}, {resources: null}]
- [{resources: {requests: {cpu: 1m}}}, {resources.requests.cpu: 8}]
- [{containers.0.securityContext: {privileged: true, allowPrivilegeEscalation: false}}]
- [{containers.0.lifecycle: {preStop: {sleep: {seconds: 99999}}}}]
- [{containers.0.lifecycle: {preStop: {sleep: {seconds: 5}}}, terminationGracePeriodSeconds: -1}]
- [{initContainers: [{name: i, image: i, lifecycle: {preStop: {sleep: {seconds: 1}}}}]}]
- [{initContainers: [{name: i, image: i, readinessProbe: {exec: {command: [a]}}}]}, {initContainers.0.restartPolicy: Always}]
- [{initContainers: [{name: agent, image: i}]}, {initContainers.0.name: other}]
- [{ephemeralContainers: [{name: i, image: i}]}]
- [{os: {name: windows}}, {os: null}]
- [{os: {name: plan9}}]
- [{hostAliases: [{ip: 10.0.0.300}]}, {hostAliases.0.ip: 10.0.0.3}]
- [{dnsConfig: {nameservers: [""]}}, {dnsConfig.nameservers.0: 10.0.0.3}]
- [{dnsConfig: {nameservers: [null]}}, {dnsConfig.nameservers.0: 10.0.0.3}]
- [{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, namespaces: [null]}]}}}, {affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution.0.namespaces: [a]}]
- [{tolerations: [{operator: Equal, value: a}]}, {tolerations.0.operator: Exists, tolerations.0.value: null}]
- [{tolerations: [{key: a, operator: Exists, value: b}]}]
- [{tolerations: [{key: a, value: "b c"}]}, {tolerations.0.value: b}]
- [{tolerations: [{key: a, tolerationSeconds: 5, effect: NoSchedule}]}, {tolerations.0.effect: NoExecute}]
- [{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}]}]}}}}, {affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.0.matchExpressions.0.values: [a]}]
- [{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists, values: [b]}]}]}}}}]
- [{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: ["1", "2"]}]}]}}}}, {affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.0.matchExpressions.0.values: ["1"]}]
- [{securityContext.seccompProfile: {type: Localhost}}, {securityContext.seccompProfile.localhostProfile: a}]
- [{securityContext.seccompProfile: {type: RuntimeDefault, localhostProfile: a}}]
- [{securityContext.appArmorProfile: {type: Localhost, localhostProfile: " a"}}, {securityContext.appArmorProfile.localhostProfile: a}]
- [{volumes.0: {name: home, emptyDir: {}, hostPath: {path: /a}}}, {volumes.0.hostPath: null}]
- [{volumes.0: {name: home, emptyDir: {sizeLimit: -1}}}, {volumes.0.emptyDir.sizeLimit: 1Gi}]
- [{volumes.0: {name: home, configMap: {name: a, items: [{key: k, path: ..a}]}}}, {volumes.0.configMap.items.0.path: a}]
- [{volumes.0: {name: home, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOncePod, ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}}, {volumes.0.ephemeral.volumeClaimTemplate.spec.accessModes: [ReadWriteOncePod]}]
- [{volumes.0: {name: home, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce]}}}}}, {volumes.0.ephemeral.volumeClaimTemplate.spec.resources: {requests: {storage: 10Gi}}}]
- [{volumes.0: {name: home, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 0}}}}}}}, {volumes.0.ephemeral.volumeClaimTemplate.spec.resources.requests.storage: 10Gi}]
- [{volumes.0: {name: home, projected: {sources: [{secret: {name: a}, configMap: {name: b}}]}}}, {volumes.0.projected.sources.0.secret: null}]
`

// place returns a path of remedies.
func place(text string) (path []any) {
	path = []any{"spec", "template", "spec"}
	switch {
	case strings.HasPrefix(text, "metadata.") || text == "spec":
		path = nil
	case strings.HasPrefix(text, "job."):
		text, path = strings.TrimPrefix(text, "job."), path[:1]
	}
	for key := range strings.SplitSeq(text, ".") {
		if n, err := strconv.Atoi(key); err == nil {
			path = append(path, n)
		} else {
			path = append(path, key)
		}
	}
	return path
}

// with returns a copy of a value, in which the value at the path is another, or is gone if that is nil.
func with(in any, path []any, value any) any {
	if len(path) == 0 {
		return value
	}
	switch key := path[0].(type) {
	case int:
		list := slices.Clone(in.([]any))
		if len(path) == 1 && value == nil {
			return slices.Delete(list, key, key+1)
		}
		list[key] = with(list[key], path[1:], value)
		return list
	default:
		fields, _ := in.(map[string]any)
		if fields = maps.Clone(fields); fields == nil {
			fields = map[string]any{}
		}
		if fields[key.(string)] = with(fields[key.(string)], path[1:], value); fields[key.(string)] == nil {
			delete(fields, key.(string))
		}
		return fields
	}
}

var (
	remedyField = regexp.MustCompile(`^write (\w+): (\S+?)(,.*)?$`)
	remedyRange = regexp.MustCompile(`^write (?:one from )?(-?\d+) (?:or more|to )`)
	remedyWord  = regexp.MustCompile(`^write (\w+)(,| or |$)`)
	remedyName  = regexp.MustCompile(`^nearest: (\S+)$`)
)

// followed returns the Job after a remedy that says itself what to write; nil for other remedies.
func followed(job any, p Problem) any {
	var path []any
	for _, key := range p.Path {
		if n, err := strconv.Atoi(strings.Trim(key, "[]")); err == nil && key[0] == '[' {
			path = append(path, n)
		} else {
			path = append(path, key)
		}
	}
	above := slices.Clone(path[:max(0, len(path)-1)])
	parse := func(text string) (value any) {
		if yaml.Unmarshal([]byte(text), &value) != nil {
			return text
		}
		return value
	}
	if m := remedyRange.FindStringSubmatch(p.Remedy); m != nil {
		return with(job, path, parse(m[1]))
	}
	if m := remedyField.FindStringSubmatch(p.Remedy); m != nil {
		switch m[1] {
		case "backoffLimitPerIndex":
			above = []any{"spec"}
		case "terminationGracePeriodSeconds":
			above = []any{"spec", "template", "spec"}
		}
		return with(job, append(above, m[1]), parse(m[2]))
	}
	if m := remedyName.FindStringSubmatch(p.Remedy); m != nil {
		return with(with(job, path, nil), append(above, m[1]), 1)
	}
	if m := remedyWord.FindStringSubmatch(p.Remedy); m != nil {
		return with(job, path, parse(m[1]))
	}
	if strings.HasPrefix(p.Remedy, "remove ") || strings.HasPrefix(p.Remedy, "keep one of the two") {
		return with(job, path, nil)
	}
	return nil
}

// TestRemedies follows the remedy of each problem in the source code of the package: the problem must be
// gone, and remedies must not lead back to an earlier Job.
func TestRemedies(t *testing.T) {
	text, err := os.ReadFile("../../base/job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var base any
	list := strings.NewReplacer("RULES", strings.Repeat(`{action: Ignore, onPodConditions: [{type: A, status: "True"}]}, `, 21), "LONG", strings.Repeat("x", 300<<10)).Replace(remedies)
	var rows [][]map[string]any
	for _, err := range []error{yaml.Unmarshal(text, &base), yaml.Unmarshal([]byte(list), &rows)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	change := func(job any, changes map[string]any) any {
		for _, at := range slices.Sorted(maps.Keys(changes)) {
			value := changes[at]
			if value == "OLD" {
				value = base.(map[string]any)["spec"]
			}
			job = with(job, place(at), value)
		}
		return job
	}
	problems := func(job any) []Problem {
		text, err := yaml.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		return Validate(parse(t, text))
	}
	sites := problemSites(t)
	for _, row := range rows {
		name := fmt.Sprintf("%.200v", row)
		job := change(base, row[0])
		seen := map[string]bool{}
		found := problems(job)
		if len(found) == 0 {
			t.Errorf("%s: no problem", name)
		}
		for step := 0; len(found) > 0; step++ {
			for _, p := range found {
				for at, pattern := range sites {
					if pattern.MatchString(p.Problem + "; " + p.Remedy) {
						delete(sites, at)
					}
				}
			}
			p, state := found[0], fmt.Sprint(job)
			if seen[state] || step > 9 {
				t.Errorf("%s: remedies lead back, or do not end: %+.300v", name, p)
				break
			}
			seen[state] = true
			next := followed(job, p)
			if step == 0 && len(row) > 1 {
				next = change(job, row[1])
			}
			if next == nil {
				t.Errorf("%s: no change for %+.300v", name, p)
				break
			}
			job = next
			if found = problems(job); slices.ContainsFunc(found, func(q Problem) bool {
				return slices.Equal(p.Path, q.Path) && p.Problem == q.Problem
			}) {
				t.Errorf("%s: the remedy does not solve %+.300v", name, p)
				break
			}
		}
	}
	for at, pattern := range sites {
		t.Errorf("%s: no row has this problem: %s", at, pattern)
	}
}

// problemSites returns the problems in the source code of the package, as patterns of their texts, by place.
func problemSites(t *testing.T) map[string]*regexp.Regexp {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	sites, set := map[string]*regexp.Regexp{}, token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 3 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			problem, remedy := pattern(call.Args[1]), pattern(call.Args[2])
			switch method.Sel.Name {
			case "bad":
			case "badf":
				problem, remedy = remedy, problem
				problem = regexp.MustCompile(`%[a-z]`).ReplaceAllString(problem, ".*")
			case "badValue":
				problem = ".* " + problem
			default:
				return true
			}
			if strings.Trim(problem, ".* ") != "" {
				sites[set.Position(call.Pos()).String()] = regexp.MustCompile("(?s)^" + problem + "; " + remedy + "$")
			}
			return true
		})
	}
	return sites
}

// pattern returns a regular expression for the value of a string expression.
func pattern(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return regexp.QuoteMeta(text)
	case *ast.BinaryExpr:
		return pattern(e.X) + pattern(e.Y)
	}
	return ".*"
}
