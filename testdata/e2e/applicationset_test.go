package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"muster/testdata/e2e/kube"
	"muster/testdata/e2e/process"
	"muster/testdata/e2e/record"
)

// testApplicationSet: a fleet of its own, whose overlays Argo CD finds by the
// ApplicationSet that the docs tell.
func testApplicationSet(t *testing.T) {
	if !slices.Contains(syncers(), "argocd") {
		t.Skip("an ApplicationSet is Argo CD's, which was not chosen")
	}
	const promise = "ApplicationSet creates Applications as `init` does; after its deletion running Jobs stay"
	defer func() { results.note(t, promise, "argocd") }()
	w := newFleet(t, "set", "set-beside")
	removed, beside := w.setOverlay(t, "set"), w.setOverlay(t, "set-beside")
	for _, v := range []*overlay{removed, beside} {
		v.isAsInitWrites()
		v.build(1)
		v.runs(1)
		v.leavesGit()
		v.build(1)
		v.runs(2)
		v.isWell()
	}
	removed.must(w.git.edit("remove "+removed.name, func(dir string) error {
		return errors.Join(os.RemoveAll(filepath.Join(dir, "overlays", removed.name)), os.Remove(filepath.Join(dir, "syncer", "agents-"+removed.name+".yaml")))
	}))
	removed.must(w.cluster.Merge(w.ctx, applicationSet, annotated("argocd.argoproj.io/application-set-refresh", "true")))
	removed.gone(removed.syncer.object(removed.name))
	beside.isWell()
	removed.nobodyKilled()
	removed.finish(2)
	beside.must(w.cluster.Delete(w.ctx, applicationSet, nil))
	beside.gone(beside.syncer.object(beside.name))
	beside.nobodyKilled()
	beside.finish(2)
	onceEach(t, removed)
	beside.account()
}

// applicationSet is where the ApplicationSet of the docs is.
var applicationSet = kube.Path("argoproj.io/v1alpha1", "applicationsets", "argocd", "agents")

// newFleet is a fleet repository with a muster of its own and an ApplicationSet, in the
// cluster of all others.
func newFleet(t *testing.T, overlays ...string) *world {
	t.Helper()
	w := *shared.world
	a := w.syncers["argocd"].(*argoCD)
	w.syncers = map[string]syncer{"argocd": a}
	w.git = startGit(t, filepath.Join(w.suite.dir, "fleet-of-set"), w.suite.muster)
	must(t, w.git.edit("begin the fleet", func(dir string) error {
		for _, name := range overlays {
			w.buildkite.AddQueue(w.buildkite.cluster, name)
			if err := w.init(dir, name, "argocd"); err != nil {
				return err
			}
		}
		return nil
	}))
	must(t, w.addToProject(w.ctx, "/spec/sourceRepos/-", w.git.url))
	w.startMuster(t, "muster-set")
	t.Cleanup(w.muster.Kill)
	t.Cleanup(a.startSets(t).Kill)
	page, err := os.ReadFile(filepath.Join(w.suite.root, "docs", "how-to", "configure-argo-cd.md"))
	must(t, err)
	text, err := record.Block(page, "applicationset")
	must(t, err)
	must(t, w.cluster.Apply(w.ctx, string(bytes.ReplaceAll(text, []byte("https://git.example.com/ci/fleet.git"), []byte(w.git.url)))))
	return &w
}

// startSets starts the controller of ApplicationSets.
func (a *argoCD) startSets(t tb) *process.Process {
	ports := freePorts(t, 3)
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	const name = "argocd-applicationset-controller"
	parts := map[string]*process.Process{}
	a.suite.part(t, parts, name, a.suite.programs["argocd"].Path, a.env, "applicationset-controller", "--kubeconfig="+a.kubeconfig, "--namespace=argocd",
		"--metrics-addr="+at(0), "--probe-addr="+at(1), "--webhook-addr="+at(2), "--argocd-repo-server="+a.repoServer, "--repo-server-plaintext")
	return parts[name]
}

// setOverlay is an overlay of which the ApplicationSet has made an Application.
func (w *world) setOverlay(t *testing.T, name string) *overlay {
	t.Helper()
	v := &overlay{world: w, t: t, name: name, syncer: w.syncers["argocd"], namespace: "buildkite", gate: filepath.Join(w.suite.dir, "gate-"+name)}
	t.Cleanup(v.logs)
	v.applied()
	return v
}

// application is as much of an Application as a person writes.
type application struct {
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Annotations map[string]string `json:"annotations"`
		Finalizers  []string          `json:"finalizers"`
	} `json:"metadata"`
	Spec map[string]any `json:"spec"`
}

// isAsInitWrites: the overlay's Application is that of muster init.
func (v *overlay) isAsInitWrites() {
	v.t.Helper()
	text, err := os.ReadFile(filepath.Join(v.git.clone, "syncer", "agents-"+v.name+".yaml"))
	v.must(err)
	var want, got application
	v.must(yaml.Unmarshal(text, &want))
	v.must(v.cluster.Get(v.ctx, v.syncer.object(v.name), &got))
	for key := range got.Metadata.Annotations {
		if strings.HasPrefix(key, "argocd.argoproj.io/refresh") {
			delete(got.Metadata.Annotations, key)
		}
	}
	if !reflect.DeepEqual(got, want) {
		v.t.Errorf("the ApplicationSet has made %+v, and init writes %+v", got, want)
	}
}
