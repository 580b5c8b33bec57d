package main

import (
	"fmt"
	"strings"
)

// number is a number that is hard on whoever reads it.
func (h *hostileTree) number() string {
	return h.one("0", "1", "7", "-1", "50", "100000", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "1e9", "1e999", "-0", ".inf", ".nan", "0x10", "0o17", "1_000", "'5'", "null", "~", "[]", "{}", "true", "1.5", "")
}

func (h *hostileTree) duration() string {
	return h.one("5m", "0s", "-5m", "1ns", "2540400h", "9223372036854775807ns", "9999999999h", "1e9h", "5", "PT5M", "", "null", "[5m]", "1h1h1h")
}

// word is text that is hard on whoever prints it.
func (h *hostileTree) word() string {
	return h.one("bad", "sound-a", "'*'", "\"\\x1b[31m\"", "\"\\u202e\"", "\"\\u0085\"", "\"a\\nb\"", "'queue=sound-a'", "\"a,b\"", "a=b", "''", "null", "7", "[a]", "{a: b}", "'"+strings.Repeat("q", 1+h.IntN(5000))+"'", "\"fixes acme/x#1 @torvalds\"", "'"+strings.Repeat("(a*)*", 500)+"'", "Größe")
}

// policy is a scaling.yaml of extremes.
func (h *hostileTree) policy() string {
	var b strings.Builder
	b.WriteString("apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec:\n")
	fmt.Fprintf(&b, "  queue: %s\n  max: %s\n", h.one("bad", "bad", "sound-a", h.word()), h.one("50", h.number()))
	for _, key := range []string{"min", "buffer", "lookahead", "priority", "maxPerHour", "paused", "max", "unknown"} {
		if h.IntN(4) == 0 {
			fmt.Fprintf(&b, "  %s: %s\n", key, h.number())
		}
	}
	for _, key := range []string{"lease", "idleTimeout", "warmIdleTimeout"} {
		if h.IntN(4) == 0 {
			fmt.Fprintf(&b, "  %s: %s\n", key, h.duration())
		}
	}
	if h.IntN(3) == 0 {
		fmt.Fprintf(&b, "  cluster: %s\n  tags: {%s: %s}\n", h.word(), h.one("a", "queue", "overlay", "dispatch", "\"\\x00\"", "''"), h.word())
	}
	if h.IntN(3) == 0 {
		b.WriteString("  schedules:\n")
		for i := range 1 + h.IntN(2000) {
			fmt.Fprintf(&b, "  - {name: %s, days: [%s], from: \"%s\", to: \"%s\", timeZone: %s, max: %s}\n", h.one(fmt.Sprint("s", i), h.word()), h.one("Mon", "Mon, Mon", "", "Xyz"), h.one("00:00", "24:00", "-1:00", "99:99"), h.one("23:59", "00:00", "x"),
				h.one("Europe/Berlin", "../../etc/passwd", "UTC", "''", "Local"), h.number())
		}
	}
	return b.String()
}

// job is an agent Job, valid or such as the Kubernetes API server refuses.
func (h *hostileTree) job() string {
	spec := h.one("", "", "      nodeSelector: {\"a b\": c}\n", "      terminationGracePeriodSeconds: -1\n", "      unknown: 1\n", "      volumes: [{name: x}, {name: x}]\n", "      tolerations: [{operator: Nope}]\n", "      hostNetwork: perhaps\n", "      securityContext: []\n")
	meta := h.one("", "", ", labels: {\"a/b/c\": x}", ", labels: {a: '"+strings.Repeat("x", 64)+"'}", ", annotations: {a: '"+strings.Repeat("x", 1+h.IntN(400_000))+"'}", ", labels: null", ", annotations: []", ", finalizers: [x]", ", ownerReferences: [{}]", ", generateName: x",
		", annotations: {config.kubernetes.io/local-config: \"true\"}", ", annotations: {internal.config.kubernetes.io/index: \"7\"}", ", annotations: {muster.dev/not-after: x}", ", labels: {muster.dev/overlay: sound-a}")
	container := h.one("image: x", "image: ''", "image: x, resources: {limits: {memory: 1Zi}}", "image: x, resources: {requests: {cpu: 2}, limits: {cpu: 1}}", "image: x, env: [{name: '', value: 5}]", "image: x, env: [{name: A, value: $(A)}]", "image: x, command: "+h.one("x", "[7]", "[{}]"), "image: x, volumeMounts: [{name: none, mountPath: /x}]", "image: \"\\x1b\"")
	return fmt.Sprintf("apiVersion: batch/v1\nkind: Job\nmetadata: {name: agent, namespace: buildkite%s}\nspec:\n  %s\n  template:\n    spec:\n      restartPolicy: %s\n%s      containers: [{name: agent, %s}]\n", meta, h.one("completionMode: Indexed", "completions: -1", "backoffLimit: 99999999999", "suspend: true", "parallelism: x", "podFailurePolicy: {rules: [{}]}", "ttlSecondsAfterFinished: 0"), h.one("Never", "Never", "Never", "Always", "''"), spec, container)
}

// dispatch is what may be a dispatch.
func (h *hostileTree) dispatch() string {
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata:
  name: %s
  labels: {muster.dev/dispatch: %s, muster.dev/overlay: %s}
  annotations: {muster.dev/agent-tags: "queue=%s,overlay=bad,dispatch=bad-00000001", muster.dev/idle-timeout: "%s", muster.dev/not-after: "%s", muster.dev/ordered-at: "%s", muster.dev/purpose: %s}
spec: {completions: %s, parallelism: %s, template: {spec: {restartPolicy: Never, containers: [{name: a, image: x}]}}}
`, h.one("bad-00000001", h.word()), h.one("bad-00000001", "x"), h.one("bad", "sound-a"), h.one("bad", "sound-a"), h.number(), h.one("2026-11-21T02:30:00Z", "9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z", "x"), h.one("2026-11-21T02:15:00Z", "1970-01-01T00:00:00Z", "9998-12-31T23:59:59Z"), h.one("demand", "warm-pool", "x"), h.number(), h.number())
}

func (h *hostileTree) state() string {
	return fmt.Sprintf("apiVersion: muster.dev/v1alpha1\nkind: OverlayState\nbreaker: {failures: %s, cause: %s, last: %s}\nordered: [{at: %s, agents: %s}]\n", h.number(), h.word(), h.one("2026-11-21T02:15:00Z", "9999-12-31T23:59:59Z", "x"), h.one("2026-11-21T02:15:00Z", "x"), h.number())
}

// bomb is YAML of a few lines that stands for a lot.
func (h *hostileTree) bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := range 1 + h.IntN(20) {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 8), i)
	}
	return h.one("", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "---\n", "x: |\n  y\n---\n", "{\n---\n", "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\n") + b.String()
}

// objects is many small objects.
func (h *hostileTree) many() string {
	var b strings.Builder
	for i := range h.IntN(6000) {
		fmt.Fprintf(&b, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\n---\n", i)
	}
	return b.String()
}

// content is a file of any kind.
func (h *hostileTree) content() string {
	switch h.IntN(18) {
	case 0, 1:
		return h.job()
	case 2, 3:
		return h.bomb()
	case 4:
		return h.many()
	case 5, 6: // what is short to write and long to parse
		n := 1 + h.IntN(1<<h.IntN(22))
		return h.one("", "&a *a\n", "a: ") + strings.Repeat(h.one("[", "{a: ", "- ", "  ", "\x00", "&a *a ", "%", "---\n", "? ", "a: b\n", "'", "- x\n", "[],", "{},", "!!a ", "|\n", "\t", "#", "- &a\n", "- *a\n", "\"\\x1b\"\n", "a: &a\n", "k: {"), n)
	case 7:
		return strings.Repeat("K=v\n", h.IntN(300_000))
	case 8:
		return strings.Repeat(h.one("x", "\x00", "x\n"), h.IntN(30<<20))
	case 9:
		job := h.job()
		return job[:h.IntN(len(job))]
	case 10:
		return "spec: &a {template: {spec: *a}}\n"
	case 11:
		return h.one("", "\n", "null\n", "[]\n", "- 7\n", "\xff\xfe", "\ufeff", "{}", "!!binary x\n", "!!python/object x\n", "<<: {a: b}\n", "a: 1\na: 2\n", "? [a]\n: b\n", "a: 0001-01-01\n", "\u2028", "a: .nan\n")
	case 12:
		return h.kustomization()
	case 13:
		return h.policy()
	case 14:
		return h.dispatch()
	case 15:
		return h.noise(8 << 20)
	}
	text := []byte(h.one(h.job(), h.policy(), h.kustomization(), h.dispatch()))
	for range 1 + h.IntN(8) {
		text[h.IntN(len(text))] = byte(h.IntN(256))
	}
	return string(text)
}

// noise is content that no compression makes smaller.
func (h *hostileTree) noise(most int) string {
	content := make([]byte, h.IntN(most))
	for i := range content {
		content[i] = byte(h.Uint32())
	}
	return string(content)
}

func (h *hostileTree) file() string {
	return h.one("job.yaml", "x.yaml", "bomb.txt", "x.patch", "configmap.yaml", "dispatches", "../../../base", "../base", ".", "..", "../bad", "dir", "a", "kustomization.yaml", "/etc/passwd",
		"https://127.0.0.1:1/x", "git::ssh://127.0.0.1:1/x", "github.com/acme/x", "file:///etc", "../../../../..", "missing.yaml", "state.yaml", "../sound-a/configmap.yaml", "../../sound-a", "../sound-a/dispatches", "template", "''", "\"\\x1b\"", "'"+strings.Repeat("../", 500)+"x'")
}

// kustomization is one of a few lines.
func (h *hostileTree) kustomization() string {
	var b strings.Builder
	for range 1 + h.IntN(5) {
		f := h.file()
		b.WriteString(h.one(
			"resources: ["+f+"]\n", "resources: ["+f+", "+h.file()+"]\n", "resources: [configmap.yaml, dispatches]\n", "resources: [../../../base]\n", "components: ["+f+"]\n", "crds: ["+f+"]\n", "configurations: ["+f+"]\n", "openapi: {path: "+f+"}\n",
			"patches: [{path: "+f+"}]\n", "patchesStrategicMerge: ["+f+"]\n", "patchesJson6902: [null]\n", "patchesJson6902: [{path: "+f+", target: {kind: Job, version: v1, name: agent}}]\n",
			"patches: [{patch: 'a: &a [*a]', target: {kind: Job}}]\n", "configMapGenerator: [{name: x, files: ["+f+"]}]\n", "configMapGenerator: [{name: x, envs: ["+f+"]}]\n", "secretGenerator: [{name: x, literals: [a=b]}]\n",
			"patches: [{target: {kind: Job, name: '(a*)*b', labelSelector: '"+strings.Repeat("(x+x+)+y", 200)+"'}, patch: '[]'}]\n", "patches: [{target: {name: '"+strings.Repeat("(a|aa)+", 300)+"$'}, patch: '{}'}]\n",
			"replacements: [{path: "+f+"}]\n", "replacements: [{source: {kind: Job}, targets: [{select: {kind: Job}, fieldPaths: [spec.a], options: {create: true}}]}]\n", h.doubling(), h.doubling(),
			"replacements: [{source: {kind: Job, fieldPath: metadata}, targets: [{select: {kind: Job}, fieldPaths: [metadata.annotations.x], options: {create: true}}]}]\n",
			"vars: [{name: A, objref: {kind: Job, name: agent}}]\n", "helmCharts: [{name: x, repo: \"https://127.0.0.1:1\"}]\n", "helmChartInflationGenerator: [{chartName: x}]\n", "generators: ["+f+"]\n", "transformers: ["+f+"]\n", "validators: ["+f+"]\n",
			"namePrefix: "+h.one("a-", "A", "../", "''", strings.Repeat("p", 300))+"\n", "namespace: x\n", "commonLabels: {muster.dev/overlay: sound-a}\n", "labels: [{pairs: {a: '"+strings.Repeat("l", 1+h.IntN(300_000))+"'}, includeSelectors: true}]\n", "commonAnnotations: {muster.dev/not-after: x}\n", "images: [{name: x, newTag: y}]\n",
			"buildMetadata: [originAnnotations, managedByLabel, transformerAnnotations]\n", "replicas: [{name: agent, count: 9}]\n", "sortOptions: {order: fifo}\n", "sortOptions: {order: legacy, legacySortOptions: {orderFirst: [Job]}}\n", "kind: Component\n", "bases: ["+f+"]\n", "nonsense: 1\n", "generatorOptions: {labels: {a: b}}\n", h.bomb(), "\x00", "\xff",
			"resources: ["+strings.Repeat("x.yaml, ", h.IntN(100_000))+"]\n",
		))
	}
	return b.String()
}

// doubling returns patches that each double the Job.
func (h *hostileTree) doubling() string {
	var b strings.Builder
	b.WriteString("patches:\n- target: {kind: Job}\n  patch: |-\n    - {op: add, path: /metadata/annotations, value: {a: b}}\n")
	for i := range h.IntN(40) {
		fmt.Fprintf(&b, "    - {op: copy, from: /metadata, path: /metadata/annotations/k%d}\n", i)
	}
	return b.String()
}
