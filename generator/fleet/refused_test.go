package fleet

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/generator/plan"
	"muster/gitops/unraced"
)

// built is the file of findings on the built Job.
const built = "base/job.yaml: "

// TestRefused has every case that was met of a template which check took for
// valid and Kubernetes refuses: each with its field and its remedy, and
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
		{job, image, image + "          resorces: {}\n", built + agent + "resorces: is not a field that Kubernetes 1.36 has here; nearest: resources"},
		{job, image, image + "          resources: {requests: {cpu: 4 cores}}\n", built + agent + `resources.requests.cpu: "4 cores" is not a quantity: Kubernetes 1.36 refuses that` + amount},
		{job, image, image + "          resources: {limits: {memory: 8Gigs}}\n", built + agent + `resources.limits.memory: "8Gigs" is not a quantity: Kubernetes 1.36 refuses that` + amount},
		{job, image, image + "          resources: {limits: {memory: 4Gib}}\n", built + agent + `resources.limits.memory: "4Gib" is not a quantity: Kubernetes 1.36 refuses that` + amount},
		{job, image, image + "          resources: {limits: {cpus: 1}}\n", built + agent + "resources.limits.cpus: is not a resource of Kubernetes; nearest: cpu"},
		{job, image, image + "          resources:\n            requests: {memory: 4Gi}\n            limits:\n              memory: 2Gi\n", built + agent + "resources.limits.memory: the limit of 2Gi is below the request of 4Gi" + no + "write 4Gi or more"},
		{job, "image: buildkite/agent:3", `image: ""`, built + agent + "image: is empty" + no + "write the image of the agent with its version"},
		{job, image, "", built + agent + "image: is missing" + no + "write the image of the agent with its version"},
		{job, image, image + "          imagePullPolicy: Sometimes\n", built + agent + `imagePullPolicy: is "Sometimes"` + no + "write Always, IfNotPresent or Never"},
		{job, "- name: agent\n", "- name: Agent\n", built + agent + `name: "Agent" is not a valid name` + no + "use at most 63 lower case letters, digits and dashes, a letter or digit at both ends"},
		{job, "app.kubernetes.io/managed-by: muster", "app.kubernetes.io/managed-by: muster\n    team: buildkite agent!", built + "metadata.labels.team: \"buildkite agent!\" is not a valid value of a label" + no + "use at most 63 letters, digits and -_. with a letter or digit at both ends"},
		{job, "- {name: TAGS", "- {name: BUILD=PATH, value: x}\n            - {name: TAGS", built + agent + `env[0].name: "BUILD=PATH" is not a valid name` + no + "a name has no = and prints: put what follows the = into value:"},
		{job, image, image + "          volumeMounts:\n            - {name: cache, mountPath: /cache}\n", built + agent + `volumeMounts[0].name: there is no volume "cache" in the pod` + no + "add a volume of that name, or write one of those that are there"},
		{job, "ttlSecondsAfterFinished: 3600", `ttlSecondsAfterFinished: "3600"`, built + `spec.ttlSecondsAfterFinished: is the string "3600", not a whole number` + no + "write a whole number, without quotes or unit"},
		{job, "- {name: TAGS", "- {name: DEBUG, value: 1}\n            - {name: TAGS", built + agent + "env[0].value: is the number 1, not a string" + no + "put it in quotes"},
		{job, "restartPolicy: Never", "restartPolicy: Always", built + pod + `restartPolicy: is "Always", which a Job must not have` + no + "write restartPolicy: Never"},
		{job, "- type: DisruptionTarget", "- tipe: DisruptionTarget", built + "spec.podFailurePolicy.rules[0].onPodConditions[0].tipe: is not a field that Kubernetes 1.36 has here; nearest: type"},
		{job, "  namespace: buildkite", "  namespace: Build_Kite", built + `metadata.namespace: "Build_Kite" is not a valid name of a namespace` + no + "use at most 63 lower case letters, digits and dashes, a letter or digit at both ends"},

		// The same, where they are brought in by a patch or by a kustomization.
		{patched, resources, resources + "\npatches:\n  - patch: |-\n      apiVersion: batch/v1\n      kind: Job\n      metadata: {name: agent, namespace: buildkite}\n      spec:\n        template:\n          spec:\n            containers:\n              - name: agent\n                imagePullPolicy: Sometimes\n",
			built + agent + `imagePullPolicy: is "Sometimes"` + no + "write Always, IfNotPresent or Never"},
		{patched, resources, resources + "\npatches:\n  - target: {kind: Job}\n    patch: |-\n      - op: replace\n        path: /spec/template/spec/containers/0/image\n        value: ''\n      - op: add\n        path: /spec/template/spec/containers/0/resources\n        value:\n          requests:\n            cpu: 4 cores\n",
			built + agent + `resources.requests.cpu: "4 cores" is not a quantity: Kubernetes 1.36 refuses that` + amount + "\n" + built + agent + "image: is empty" + no + "write the image of the agent with its version"},
		{patched, resources, resources + "\nlabels: [{pairs: {team: a b}}]\n", built + `metadata.labels.team: "a b" is not a valid value of a label` + no + "use at most 63 letters, digits and -_. with a letter or digit at both ends"},
		{patched, resources, resources + "\nnamespace: A_B\n", built + `metadata.namespace: "A_B" is not a valid name of a namespace` + no + "use at most 63 lower case letters, digits and dashes, a letter or digit at both ends"},
		{own, "resources:", "namePrefix: Linux_\nresources:", built + `metadata.name: "Linux_muster-proof" is not a valid name`},
	} {
		t.Run(c.new, func(t *testing.T) {
			tree := sound(t).edit(t, c.file, c.old, c.new)
			if text := strings.Join(checkErrors(tree.tree()), "\n"); text != c.want && !(c.file == own && strings.HasPrefix(text, c.want)) {
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

// TestRefusedKeepsDispatches: what is in git can be retired while the template is
// in error.
func TestRefusedKeepsDispatches(t *testing.T) {
	tree := soundWithDispatch(t)
	tree.edit(t, "base/job.yaml", "image: buildkite/agent:3", `image: ""`)
	o := load(t, NewLoader("overlays"), tree.tree())[0]
	if !o.Refused.Active() || len(o.Dispatches) != 1 {
		t.Fatalf("refused %v, %d dispatches", o.Refused, len(o.Dispatches))
	}
	if next, changes, err := o.Remove([]string{"default-7f3k9c2b"}); err != nil || len(changes) != 3 || len(next.Dispatches) != 0 {
		t.Errorf("%d changes, %d dispatches, error %v", len(changes), len(next.Dispatches), err)
	}
}

// TestReservedNamespace asserts that a template whose Job is in muster's own namespace
// suspends its overlay, in whichever file the namespace is set.
func TestReservedNamespace(t *testing.T) {
	const job, patched = "base/job.yaml", "overlays/default/template/kustomization.yaml"
	const problem = `metadata.namespace: is the namespace of muster itself, where Kubernetes lets every pod mount muster's Secrets; use a namespace for agents, such as buildkite`
	for _, c := range []struct{ file, old, new string }{
		{job, "  namespace: buildkite", "  namespace: muster"},
		{patched, "resources: [../../../base]", "resources: [../../../base]\nnamespace: muster\n"},
	} {
		tree := sound(t).edit(t, c.file, c.old, c.new)
		findings, err := NewLoader("overlays").Reserve("muster").Check(t.Context(), tree.tree())
		if err != nil || len(findings) != 1 || findings[0].Error() != built+problem {
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

// TestRefusedOnce: a template is validated when its files change, and not again.
func TestRefusedOnce(t *testing.T) {
	tree := sound(t).edit(t, "base/job.yaml", "image: buildkite/agent:3", `image: ""`)
	l := NewLoader("overlays")
	first := load(t, l, tree.tree())[0]
	if again := load(t, l, tree.tree())[0]; &again.refused[0] != &first.refused[0] {
		t.Error("validated again, and nothing has changed")
	}
}

// TestTemplateFindings: findings on a built template have the file of its Job, those on files that muster
// parses their line, and all a remedy.
func TestTemplateFindings(t *testing.T) {
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
		"another kind":    {func(f files) { f.edit(t, job, "kind: Job", "kind: CronJob") }, built + at + "builds to the CronJob agent (batch/v1)" + rewrite},
		"another version": {func(f files) { f.edit(t, job, "batch/v1", "batch/v1beta1") }, built + at + "builds to the Job agent (batch/v1beta1)" + rewrite},
		"another kind by another name": {func(f files) {
			f.edit(t, job, "kind: Job", "kind: CronJob")
			f[kust] += "namePrefix: linux-\n"
		}, built + at + "builds to the CronJob linux-agent (batch/v1)" + rewrite},
		"another kind in a List": {func(f files) {
			f[job] = "apiVersion: v1\nkind: List\nitems:\n  - apiVersion: batch/v1\n    kind: CronJob\n    metadata: {name: agent}\n"
		}, built + at + "builds to the CronJob agent (batch/v1)" + rewrite},
		"a second object in the same file":    {func(f files) { f[job] += "---\n# of another kind\n" + config }, kust + ": " + at + "builds to 2 objects (Job agent, ConfigMap other)" + one},
		"a second object before the Job":      {func(f files) { f[job] = config + "---\n" + f[job] }, kust + ": " + at + "builds to 2 objects (ConfigMap other, Job agent)" + one},
		"a second Job":                        {func(f files) { f[job] += "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: other}\n" }, kust + ": " + at + "builds to 2 objects (Job agent, Job other)" + one},
		"a generated object":                  {func(f files) { f[kust] += "configMapGenerator:\n  - name: first\n    literals: [a=b]\n" }, kust + ": " + at + "builds to 2 objects (Job agent, ConfigMap first-4h2mbtbbt6)" + one},
		"nothing":                             {func(f files) { f[kust] = "# nothing\nresources: []\n" }, kust + ": " + at + "builds to nothing; list the agent Job in its resources, as in ../../../base"},
		"no pod":                              {func(f files) { f[job] = f[job][:strings.Index(f[job], "    spec:\n")] }, built + pod},
		"no template":                         {func(f files) { f[job] = f[job][:strings.Index(f[job], "  template:\n")] }, built + pod},
		"no spec":                             {func(f files) { f[job] = f[job][:strings.Index(f[job], "spec:\n")] }, built + pod},
		"a label that is a number":            {func(f files) { f.edit(t, job, "managed-by: muster", "managed-by: muster\n    team: 5") }, built + "metadata.labels.team: " + quoted},
		"an annotation that is a truth value": {func(f files) { f.edit(t, job, `ignore-resource-updates: "true"`, `ignore-resource-updates: true`) }, built + "spec.template.metadata.annotations[argocd.argoproj.io/ignore-resource-updates]: " + quoted},
		"a label that is a mapping in a patch": {func(f files) {
			f[kust] += "patches:\n  - target: {kind: Job}\n    patch: |-\n      - op: add\n        path: /metadata/labels/team\n        value: {a: b}\n"
		}, built + "metadata.labels.team: " + quoted},
		"a key that is no word":         {func(f files) { f.edit(t, job, "      restartPolicy", "      ? [a]\n      : b\n      restartPolicy") }, kust + `: does not build: printing Job.v1.batch/agent.buildkite: yaml: invalid map key: []interface {}{"a"}; fix what kustomize reports; to reproduce it: kustomize build overlays/default/template`},
		"a base that is not there":      {func(f files) { f.edit(t, kust, "[../../../base]", "\n  # ../../../bases\n  - ../../../bases") }, kust + `:5: resources: "../../../bases" does not exist: there is no bases in the repository; correct the path, or add what it names`},
		"a file that a generator names": {func(f files) { f[kust] += "configMapGenerator:\n  - name: x\n    files:\n      - key=none.txt\n" }, kust + `:7: configMapGenerator: "none.txt" does not exist: there is no overlays/default/template/none.txt in the repository; correct the path, or add what it names`},
		"an unknown field":              {func(f files) { f[kust] += "patch: []\n" }, kust + `:4: is not a kustomization: unknown field "patch"; correct or remove the unknown part`},
		"a field that runs a program":   {func(f files) { f[kust] += "generators: [x.yaml]\n" }, kust + ":4: generators: would run a program; muster and the syncer build plain kustomizations only: use resources, components and patches"},
		"an alias in a kustomization":   {func(f files) { f[kust] += "commonLabels: {a: &x b, c: *x}\n" }, kust + ":4: uses a YAML anchor or alias; write the value out"},
		"more than a build may come to": {func(f files) {
			f[kust] += "configMapGenerator: [{name: large, files: [small.bin, large.bin]}]\n"
			f["overlays/default/template/small.bin"] = strings.Repeat("\xff", 1<<20)
			f["overlays/default/template/large.bin"] = strings.Repeat("\xff", 5<<19)
		}, "overlays/default/template/large.bin: does not build: it comes to more than 4 MiB; build fewer and smaller objects"},
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
				if f.Remedy == "" {
					t.Errorf("%s: no remedy", f)
				}
			}
			if text := strings.Join(got, "\n"); text != c.want {
				t.Errorf("got\n  %s\nwant\n  %s", text, c.want)
			}
		})
	}
}

// TestNothingIsCommittedToOddNames asserts that an overlay with a name that could harm a terminal is not repaired:
// each commit would contain the name.
func TestNothingIsCommittedToOddNames(t *testing.T) {
	for _, name := range []string{"default", "\u009b2", "a@team"} {
		tree := files{}
		for file, content := range sound(t) {
			tree[strings.Replace(file, "overlays/default/", "overlays/"+name+"/", 1)] = content
		}
		delete(tree, "overlays/"+name+"/dispatches/kustomization.yaml")
		o := load(t, NewLoader("overlays"), tree.tree())[0]
		if want := name == "default"; o.Path != "overlays/"+name || len(o.Repair()) > 0 != want || len(o.Faults()) > 0 != want {
			t.Errorf("%q: %v", o.Path, o.Faults())
		}
	}
}
