package fleet

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/generator/plan"
	"muster/gitops/unraced"
)

// TestRefused has every case that was met of a template which check took for
// valid and Kubernetes refuses: each with its file, its line and its remedy, and
// each suspends the overlay.
func TestRefused(t *testing.T) {
	const (
		job, patched, own = "base/job.yaml", "overlays/default/template/kustomization.yaml", "overlays/default/kustomization.yaml"
		image, resources  = "          image: buildkite/agent:3\n", "resources: [../../../base]"
		pod               = "spec.template.spec."
		agent             = pod + "containers[0]."
		no                = ": Kubernetes 1.36 refuses that; "
		amount            = `; write one as in 500m or "2" for CPU, 2Gi or 512Mi for memory and disk`
	)
	for _, c := range []struct{ file, old, new, want string }{
		{job, image, image + "          resorces: {}\n", "base/job.yaml:37: " + agent + "resorces: is not a field that Kubernetes 1.36 has here; nearest: resources"},
		{job, image, image + "          resources: {requests: {cpu: 4 cores}}\n", "base/job.yaml:37: " + agent + `resources.requests.cpu: "4 cores" is not a quantity: Kubernetes 1.36 refuses that` + amount},
		{job, image, image + "          resources: {limits: {memory: 8Gigs}}\n", "base/job.yaml:37: " + agent + `resources.limits.memory: "8Gigs" is not a quantity: Kubernetes 1.36 refuses that` + amount},
		{job, image, image + "          resources: {limits: {memory: 4Gib}}\n", "base/job.yaml:37: " + agent + `resources.limits.memory: "4Gib" is not a quantity: Kubernetes 1.36 refuses that` + amount},
		{job, image, image + "          resources: {limits: {cpus: 1}}\n", "base/job.yaml:37: " + agent + "resources.limits.cpus: is not a resource of Kubernetes; nearest: cpu"},
		{job, image, image + "          resources:\n            requests: {memory: 4Gi}\n            limits:\n              memory: 2Gi\n", "base/job.yaml:40: " + agent + "resources.limits.memory: the limit of 2Gi is below the request of 4Gi" + no + "write 4Gi or more"},
		{job, "image: buildkite/agent:3", `image: ""`, "base/job.yaml:36: " + agent + "image: is empty" + no + "write the image of the agent with its version"},
		{job, image, "", "base/job.yaml:35: " + agent + "image: is missing" + no + "write the image of the agent with its version"},
		{job, image, image + "          imagePullPolicy: Sometimes\n", "base/job.yaml:37: " + agent + `imagePullPolicy: is "Sometimes"` + no + "write Always, IfNotPresent or Never"},
		{job, "- name: agent\n", "- name: Agent\n", "base/job.yaml:35: " + agent + `name: "Agent" is not a valid name` + no + "use at most 63 lower case letters, digits and dashes, a letter or digit at both ends"},
		{job, "app.kubernetes.io/managed-by: muster", "app.kubernetes.io/managed-by: muster\n    team: buildkite agent!", "base/job.yaml:8: metadata.labels.team: \"buildkite agent!\" is not a valid value of a label" + no + "use at most 63 letters, digits and -_. with a letter or digit at both ends"},
		{job, "- {name: TAGS", "- {name: BUILD=PATH, value: x}\n            - {name: TAGS", "base/job.yaml:39: " + agent + `env[0].name: "BUILD=PATH" is not a valid name` + no + "a name has no = and prints: put what follows the = into value:"},
		{job, image, image + "          volumeMounts:\n            - {name: cache, mountPath: /cache}\n", "base/job.yaml:38: " + agent + `volumeMounts[0].name: there is no volume "cache" in the pod` + no + "add a volume of that name, or write one of those that are there"},
		{job, "ttlSecondsAfterFinished: 3600", `ttlSecondsAfterFinished: "3600"`, `base/job.yaml:25: spec.ttlSecondsAfterFinished: is the string "3600", not a whole number` + no + "write a whole number, without quotes or unit"},
		{job, "- {name: TAGS", "- {name: DEBUG, value: 1}\n            - {name: TAGS", "base/job.yaml:39: " + agent + "env[0].value: is the number 1, not a string" + no + "put it in quotes"},
		{job, "restartPolicy: Never", "restartPolicy: Always", `base/job.yaml:33: ` + pod + `restartPolicy: is "Always", which a Job must not have` + no + "write restartPolicy: Never"},
		{job, "- type: DisruptionTarget", "- tipe: DisruptionTarget", "base/job.yaml:23: spec.podFailurePolicy.rules[0].onPodConditions[0].tipe: is not a field that Kubernetes 1.36 has here; nearest: type"},
		{job, "  namespace: buildkite", "  namespace: Build_Kite", `base/job.yaml:5: metadata.namespace: "Build_Kite" is not a valid name of a namespace` + no + "use at most 63 lower case letters, digits and dashes, a letter or digit at both ends"},

		// The same, where they are brought in by a patch or by a kustomization.
		{patched, resources, resources + "\npatches:\n  - patch: |-\n      apiVersion: batch/v1\n      kind: Job\n      metadata: {name: agent, namespace: buildkite}\n      spec:\n        template:\n          spec:\n            containers:\n              - name: agent\n                imagePullPolicy: Sometimes\n",
			patched + ":14: " + agent + `imagePullPolicy: is "Sometimes"` + no + "write Always, IfNotPresent or Never"},
		{patched, resources, resources + "\npatches:\n  - target: {kind: Job}\n    patch: |-\n      - op: replace\n        path: /spec/template/spec/containers/0/image\n        value: ''\n      - op: add\n        path: /spec/template/spec/containers/0/resources\n        value:\n          requests:\n            cpu: 4 cores\n",
			patched + ":14: " + agent + `resources.requests.cpu: "4 cores" is not a quantity: Kubernetes 1.36 refuses that` + amount + "\n" + patched + ":3: " + agent + "image: is empty" + no + "write the image of the agent with its version"},
		{patched, resources, resources + "\nlabels: [{pairs: {team: a b}}]\n", patched + `:4: metadata.labels.team: "a b" is not a valid value of a label` + no + "use at most 63 letters, digits and -_. with a letter or digit at both ends"},
		{patched, resources, resources + "\nnamespace: A_B\n", patched + `:4: metadata.namespace: "A_B" is not a valid name of a namespace` + no + "use at most 63 lower case letters, digits and dashes, a letter or digit at both ends"},
		{own, "resources:", "namePrefix: Linux_\nresources:", own + `:3: metadata.name: "Linux_muster-proof" is not a valid name`},
	} {
		t.Run(c.new, func(t *testing.T) {
			tree := sound(t).edit(t, c.file, c.old, c.new)
			if text := strings.Join(checkErrors(tree.tree()), "\n"); text != c.want && !(c.file == own && strings.HasPrefix(text, own+":3: metadata.name: \"Linux_muster-proof")) {
				t.Error(cmp.Diff(c.want, text))
			}
			o := load(t, NewLoader("overlays"), tree.tree())[0]
			first, _, _ := strings.Cut(c.want, "\n")
			if o.Suspended.Active() || o.Refused.Code != plan.Invalid || !strings.HasPrefix(o.Refused.Finding, first[:20]) {
				t.Errorf("suspended %v, refused %v", o.Suspended, o.Refused)
			}
			if _, _, err := o.Add([]plan.Dispatch{dispatchOf(t)}); err == nil {
				t.Error("a dispatch of it can be added")
			}
		})
	}
}

func dispatchOf(t *testing.T) plan.Dispatch {
	t.Helper()
	d, err := ParseDispatch(stampedFile, []byte(stamped(t)))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRefusedKeepsDispatches: what is in git can be retired while the template is
// in error.
func TestRefusedKeepsDispatches(t *testing.T) {
	tree := soundWithDispatch(t)
	tree.edit(t, "base/job.yaml", "image: buildkite/agent:3", `image: ""`)
	o := load(t, NewLoader("overlays"), tree.tree())[0]
	if !o.Refused.Active() || len(o.Dispatches) != 1 {
		t.Fatalf("refused %v, %d dispatches", o.Refused, len(o.Dispatches))
	}
	if next, changes, err := o.Remove([]string{"default-7f3k9c2b"}); err != nil || len(changes) != 2 || len(next.Dispatches) != 0 {
		t.Errorf("%d changes, %d dispatches, error %v", len(changes), len(next.Dispatches), err)
	}
}

// TestReservedNamespace asserts that a template whose Job is in muster's own namespace
// suspends its overlay, in whichever file the namespace is set.
func TestReservedNamespace(t *testing.T) {
	const job, patched = "base/job.yaml", "overlays/default/template/kustomization.yaml"
	const problem = `: metadata.namespace: is the namespace of muster itself, where Kubernetes lets every pod mount muster's Secrets; use a namespace for agents, such as buildkite`
	for _, c := range []struct{ file, old, new, place string }{
		{job, "  namespace: buildkite", "  namespace: muster", "base/job.yaml:5"},
		{patched, "resources: [../../../base]", "resources: [../../../base]\nnamespace: muster\n", patched + ":4"},
	} {
		tree := sound(t).edit(t, c.file, c.old, c.new)
		findings, err := NewLoader("overlays").Reserve("muster").Check(t.Context(), tree.tree())
		if err != nil || len(findings) != 1 || findings[0].Error() != c.place+problem {
			t.Errorf("%s: found %v, %v", c.file, findings, err)
		}
		if o := load(t, NewLoader("overlays").Reserve("muster"), tree.tree())[0]; o.Refused.Code != plan.Invalid {
			t.Errorf("%s: refused %v", c.file, o.Refused)
		}
		for _, other := range []string{"", "other"} {
			if o := load(t, NewLoader("overlays").Reserve(other), tree.tree())[0]; o.Refused.Active() {
				t.Errorf("%s: refused %v where %q is reserved", c.file, o.Refused, other)
			}
		}
	}
}

// TestRefusedOnce: a template is validated when its files change, and not again;
// a line that moves is a change.
func TestRefusedOnce(t *testing.T) {
	tree := sound(t).edit(t, "base/job.yaml", "image: buildkite/agent:3", `image: ""`)
	l := NewLoader("overlays")
	first := load(t, l, tree.tree())[0]
	if again := load(t, l, tree.tree())[0]; &again.refused[0] != &first.refused[0] {
		t.Error("validated again, and nothing has changed")
	}
	tree["base/job.yaml"] = "# a line\n" + tree["base/job.yaml"]
	if moved := load(t, l, tree.tree())[0]; moved.refused[0].Line != first.refused[0].Line+1 {
		t.Errorf("on line %d, was on %d", moved.refused[0].Line, first.refused[0].Line)
	}
}

// TestTemplateFindingsHaveLines: findings on a built template have the file and line of the source, and
// a remedy.
func TestTemplateFindingsHaveLines(t *testing.T) {
	unraced.Only(t)
	const (
		job, base, kust = "base/job.yaml", "base/kustomization.yaml", "overlays/default/template/kustomization.yaml"
		at              = "overlays/default/template "
		one             = ", not to one Job; move all but the agent Job next to the overlay's own kustomization.yaml"
		rewrite         = ", not to a Job; muster orders agents as Jobs of batch/v1: rewrite it as one"
		pod             = "spec.template.spec: is missing: the Job has no pod; write the agent's pod there, as in the base that muster init writes"
		quoted          = "is not a string; Kubernetes takes strings there, and nothing else: quote it, or remove it"
		config          = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: buildkite}\n"
	)
	for name, c := range map[string]struct {
		edit func(f files)
		want string
	}{
		"another kind":    {func(f files) { f.edit(t, job, "kind: Job", "kind: CronJob") }, job + ":2: " + at + "builds to the CronJob agent (batch/v1)" + rewrite},
		"another version": {func(f files) { f.edit(t, job, "batch/v1", "batch/v1beta1") }, job + ":1: " + at + "builds to the Job agent (batch/v1beta1)" + rewrite},
		"another kind by another name": {func(f files) {
			f.edit(t, job, "kind: Job", "kind: CronJob")
			f[kust] += "namePrefix: linux-\n"
		}, job + ":2: " + at + "builds to the CronJob linux-agent (batch/v1)" + rewrite},
		"another kind in a List": {func(f files) {
			f[job] = "apiVersion: v1\nkind: List\nitems:\n  - apiVersion: batch/v1\n    kind: CronJob\n    metadata: {name: agent}\n"
		}, job + ":5: " + at + "builds to the CronJob agent (batch/v1)" + rewrite},
		"a second object in the same file":    {func(f files) { f[job] += "---\n# of another kind\n" + config }, job + ":44: " + at + "builds to 2 objects (Job agent, ConfigMap other)" + one},
		"a second object before the Job":      {func(f files) { f[job] = config + "---\n" + f[job] }, job + ":1: " + at + "builds to 2 objects (ConfigMap other, Job agent)" + one},
		"a second Job":                        {func(f files) { f[job] += "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: other}\n" }, job + ":43: " + at + "builds to 2 objects (Job agent, Job other)" + one},
		"a generated object":                  {func(f files) { f[kust] += "configMapGenerator:\n  - name: first\n    literals: [a=b]\n" }, kust + ":5: " + at + "builds to 2 objects (Job agent, ConfigMap first-4h2mbtbbt6)" + one},
		"nothing":                             {func(f files) { f[kust] = "# nothing\nresources: []\n" }, kust + ":2: " + at + "builds to nothing; list the agent Job in its resources, as in ../../../base"},
		"no pod":                              {func(f files) { f[job] = f[job][:strings.Index(f[job], "    spec:\n")] }, job + ":26: " + pod},
		"no template":                         {func(f files) { f[job] = f[job][:strings.Index(f[job], "  template:\n")] }, job + ":14: " + pod},
		"no spec":                             {func(f files) { f[job] = f[job][:strings.Index(f[job], "spec:\n")] }, job + ":1: " + pod},
		"a label that is a number":            {func(f files) { f.edit(t, job, "managed-by: muster", "managed-by: muster\n    team: 5") }, job + ":8: metadata.labels.team: " + quoted},
		"an annotation that is a truth value": {func(f files) { f.edit(t, job, `ignore-resource-updates: "true"`, `ignore-resource-updates: true`) }, job + ":29: spec.template.metadata.annotations[argocd.argoproj.io/ignore-resource-updates]: " + quoted},
		"a label that is a mapping in a patch": {func(f files) {
			f[kust] += "patches:\n  - target: {kind: Job}\n    patch: |-\n      - op: add\n        path: /metadata/labels/team\n        value: {a: b}\n"
		}, kust + ":3: metadata.labels.team: " + quoted},
		"the mark of a digest": {func(f files) {
			f.edit(t, job, "    argocd.argoproj.io/sync", "    a/b: "+noDigest+"\n    argocd.argoproj.io/sync")
		}, job + ":9: " + at + "has the text " + noDigest + ", which is reserved for muster's digest; remove it"},
		"a key that is no word":         {func(f files) { f.edit(t, job, "      restartPolicy", "      ? [a]\n      : b\n      restartPolicy") }, kust + `:3: does not build: printing Job.v1.batch/agent.buildkite: yaml: invalid map key: []interface {}{"a"}; fix what kustomize reports; to reproduce it: kustomize build overlays/default/template`},
		"a base that is not there":      {func(f files) { f.edit(t, kust, "[../../../base]", "\n  # ../../../bases\n  - ../../../bases") }, kust + `:5: resources: "../../../bases" does not exist: there is no bases in the repository; correct the path, or add what it names`},
		"a file that a generator names": {func(f files) { f[kust] += "configMapGenerator:\n  - name: x\n    files:\n      - key=none.txt\n" }, kust + `:7: configMapGenerator: "none.txt" does not exist: there is no overlays/default/template/none.txt in the repository; correct the path, or add what it names`},
		"an unknown field":              {func(f files) { f[kust] += "patch: []\n" }, kust + `:4: is not a kustomization: invalid Kustomization: json: unknown field "patch"; correct or remove the unknown part`},
		"a field that runs a program":   {func(f files) { f[kust] += "generators: [x.yaml]\n" }, kust + ":4: generators: would run a program; muster and the syncer build plain kustomizations only: use resources, components and patches"},
		"an alias in a kustomization":   {func(f files) { f[kust] += "commonLabels: {a: &x b, c: *x}\n" }, kust + ":4: uses a YAML anchor or alias; write the value out"},
		"more than a build may come to": {func(f files) {
			f[kust] += "configMapGenerator: [{name: large, files: [small.bin, large.bin]}]\n"
			f["overlays/default/template/small.bin"] = strings.Repeat("\xff", 1<<20)
			f["overlays/default/template/large.bin"] = strings.Repeat("\xff", 5<<19)
		}, "overlays/default/template/large.bin:1: does not build: it comes to more than 4 MiB; build fewer and smaller objects"},
		"more than a build may read": {func(f files) {
			f[kust] += "configMapGenerator: [{name: large, files: [large.bin]}]\n"
			f["overlays/default/template/large.bin"] = strings.Repeat("x", maxRead)
		}, "overlays/default/template/large.bin:1: exceeds the build's limit of 4 MiB; keep large files in the image, or in an overlay or application of their own"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := sound(t)
			c.edit(tree)
			var got []string
			for _, f := range check(tree.tree(), "overlays") {
				got = append(got, f.Error())
				if f.Line == 0 || f.Remedy == "" {
					t.Errorf("line %d, remedy %q", f.Line, f.Remedy)
				}
			}
			if text := strings.Join(got, "\n"); text != c.want {
				t.Errorf("got\n  %s\nwant\n  %s", text, c.want)
			}
		})
	}
}

// TestTemplateFindingMoves: a finding's line is updated even if the Job is the same.
func TestTemplateFindingMoves(t *testing.T) {
	for _, c := range [][2]string{{"kind: Job", "kind: CronJob"}, {"managed-by: muster", "managed-by: muster\n    team: 5"}} {
		tree, l := sound(t).edit(t, "base/job.yaml", c[0], c[1]), NewLoader("overlays")
		first := load(t, l, tree.tree())[0].findings[0]
		if again := load(t, l, tree.tree())[0].findings[0]; again != first {
			t.Errorf("%s, and at first %s", again, first)
		}
		tree["base/job.yaml"] = "# a line\n" + tree["base/job.yaml"]
		if moved := load(t, l, tree.tree())[0].findings[0]; first.Line == 0 || moved.Line != first.Line+1 {
			t.Errorf("on line %d, was on %d", moved.Line, first.Line)
		}
	}
}
