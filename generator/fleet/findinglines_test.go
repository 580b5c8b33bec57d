package fleet

import (
	"strings"
	"testing"

	"muster/gitops/unraced"
)

// TestTemplateFindingsHaveLines: whatever is wrong with what a template builds to is
// said at the file and the line where a person would put it right, with a remedy.
func TestTemplateFindingsHaveLines(t *testing.T) {
	unraced.Only(t)
	const (
		job, base, kust = "base/job.yaml", "base/kustomization.yaml", "overlays/default/template/kustomization.yaml"
		at              = "overlays/default/template "
		one             = ", not to one Job; move all but the agent Job beside the overlay's own kustomization.yaml"
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
		}, kust + ":9: metadata.labels.team: " + quoted},
		"the mark of a digest": {func(f files) {
			f.edit(t, job, "    argocd.argoproj.io/sync", "    a/b: "+noDigest+"\n    argocd.argoproj.io/sync")
		}, job + ":9: " + at + "has the text " + noDigest + ", which stands for muster's own digest; remove it"},
		"a key that is no word":         {func(f files) { f.edit(t, job, "      restartPolicy", "      ? [a]\n      : b\n      restartPolicy") }, kust + `:3: does not build: printing Job.v1.batch/agent.buildkite: yaml: invalid map key: []interface {}{"a"}; put right what kustomize names: kustomize build overlays/default/template says the same`},
		"a base that is not there":      {func(f files) { f.edit(t, kust, "[../../../base]", "\n  # ../../../bases\n  - ../../../bases") }, kust + `:5: resources: "../../../bases" does not exist: there is no bases in the repository; correct the path, or add what it names`},
		"a file that a generator names": {func(f files) { f[kust] += "configMapGenerator:\n  - name: x\n    files:\n      - key=none.txt\n" }, kust + `:7: configMapGenerator: "none.txt" does not exist: there is no overlays/default/template/none.txt in the repository; correct the path, or add what it names`},
		"a field that is none":          {func(f files) { f[kust] += "patch: []\n" }, kust + `:4: is not a kustomization: invalid Kustomization: json: unknown field "patch"; correct or remove what kustomize does not know`},
		"a field that runs a program":   {func(f files) { f[kust] += "generators: [x.yaml]\n" }, kust + ":4: generators: would run a program; muster and the syncer build plain kustomizations only: use resources, components and patches"},
		"an alias":                      {func(f files) { f.edit(t, job, "type: DisruptionTarget", "type: &x DisruptionTarget") }, job + ":23: uses a YAML anchor or alias; write the value out"},
		"an alias in a patch":           {func(f files) { f[kust] += "patches:\n  - target: {kind: Job}\n    patch: |-\n      a: &x b\n" }, kust + ":7: patches: uses a YAML anchor or alias; write the value out"},
		"more than a build may come to": {func(f files) {
			f[kust] += "configMapGenerator: [{name: large, files: [small.bin, large.bin]}]\n"
			f["overlays/default/template/small.bin"] = strings.Repeat("\xff", 1<<20)
			f["overlays/default/template/large.bin"] = strings.Repeat("\xff", 5<<19)
		}, "overlays/default/template/large.bin:1: does not build: it comes to more than 4 MiB; build fewer and smaller objects"},
		"more than a build may read": {func(f files) {
			f[kust] += "configMapGenerator: [{name: large, files: [large.bin]}]\n"
			f["overlays/default/template/large.bin"] = strings.Repeat("x", maxRead)
		}, "overlays/default/template/large.bin:1: is the file with which the build reads more than 4 MiB; keep large files in the image, or in an overlay or application of their own"},
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

// TestTemplateFindingMoves: a line that moves is said anew, though the Job is the same.
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
