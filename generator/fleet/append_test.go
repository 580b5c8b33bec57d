package fleet

import (
	"math/rand/v2"
	"path"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"muster/generator/plan"
	"muster/gitops/unraced"
)

// TestAddingIsBuilding: where an overlay is not built with a dispatch, because it
// does nothing but list it, a build would come to the same.
func TestAddingIsBuilding(t *testing.T) {
	unraced.Only(t)
	compared, b := 0, hostileBuilder(t)
	for seed := range uint64(60) {
		f := sound(t)
		g := grammar{Rand: rand.New(rand.NewPCG(seed, 2)), f: f, dir: "overlays/default"}
		f["overlays/default/template/kustomization.yaml"] = "resources: [../../../base]\n" + g.one("", "", "", "namePrefix: a-\n", "namespace: x\n", g.kustomization())
		f["overlays/default/configmap.yaml"] = g.one(f["overlays/default/configmap.yaml"], f["overlays/default/configmap.yaml"], "", g.content())
		f["overlays/default/kustomization.yaml"] = g.one("resources: [configmap.yaml, dispatches]\n", "resources: [dispatches]\n", "resources: [configmap.yaml, dispatches, inner]\n", "resources: [dispatches, ./dispatches]\n", "resources: [dispatches, inner]\n", "resources: [configmap.yaml, inner]\n",
			"resources: [dispatches]\nconfigMapGenerator: [{name: x, files: [dispatches/kustomization.yaml]}]\n", "resources: [configmap.yaml, dispatches]\n"+g.kustomization())
		f["overlays/default/inner/kustomization.yaml"] = g.one("resources: [../dispatches]\n", "resources: []\n")
		l := NewLoader("overlays").BuildWith(b, 0)
		o := load(t, l, f.tree())[0]
		empty := l.used["empty overlays/default"]
		if empty == nil || !empty.adds || o.template == nil || empty.finding != nil {
			continue
		}
		stamped, err := o.stamp(plan.Dispatch{ID: "default-proof", Purpose: plan.ForDemand, Agents: 1, IdleTimeout: time.Second, At: time.Unix(0, 0), NotAfter: time.Unix(0, 0)})
		if err != nil {
			t.Fatal(err)
		}
		hidden := path.Join(o.Path, dispatchDir)
		full := &view{tree: f.tree(), hide: hidden, over: map[string][]byte{path.Join(hidden, listFile): list([]string{"proof"}), path.Join(hidden, "proof.yaml"): stamped}}
		full.begin()
		objects, err := b.Build(t.Context(), full, o.Path)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		want := map[string]any{"default-proof": decoded(t, stamped)}
		for _, x := range empty.objects {
			want[x.String()] = decoded(t, x.YAML)
		}
		got := map[string]any{}
		for _, x := range objects {
			name := x.String()
			if x.Kind == "Job" && x.Name == "default-proof" {
				name = x.Name
			}
			got[name] = decoded(t, x.YAML)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d: (-added +built)\n%s", seed, diff)
		}
		compared++
	}
	if compared < 10 {
		t.Errorf("%d overlays were compared", compared)
	}
}

func decoded(t *testing.T, text []byte) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}
