package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"muster/testdata/e2e/kube"
)

// oldWay is a directory of Jobs as people write them without muster, which the same
// syncer applies with the same settings. What becomes of them says why the design is
// as it is.
type oldWay struct {
	*overlay
}

const oldJob = `apiVersion: batch/v1
kind: Job
metadata: {name: NAME, namespace: old, labels: {muster.dev/overlay: OVERLAY, muster.dev/dispatch: NAME}}
spec:
  parallelism: PARALLELISM
  backoffLimit: 1
  template:
    metadata: {labels: {muster.dev/overlay: OVERLAY, muster.dev/dispatch: NAME}}
    spec:
      restartPolicy: Never
      containers: [{name: agent, image: agent, command: [sh, -c, "sleep 3600"]}]
`

// addOldWay writes a directory with Jobs and has the syncer apply it.
func (w *world) addOldWay(t *testing.T, way string, s syncer, jobs map[string]string) *oldWay {
	t.Helper()
	o := &oldWay{&overlay{world: w, t: t, name: "old-" + way + "-" + s.name(), syncer: s, namespace: "old"}}
	o.must(w.cluster.addPlainNamespace(w.ctx, "old"))
	o.must(w.allow(w.ctx, s, "old"))
	o.write(jobs)
	dir := t.TempDir()
	o.must(w.init(dir, "default", s.name()))
	text, err := os.ReadFile(filepath.Join(dir, "syncer", "agents-default.yaml"))
	o.must(err)
	names := strings.NewReplacer("agents-default", "agents-"+o.name, "overlays/default", "old/"+o.name)
	object := names.Replace(o.withoutIgnored(text))
	if f, ok := s.(*flux); ok {
		o.must(f.has(w))
	}
	o.must(w.cluster.Apply(w.ctx, object))
	t.Cleanup(func() {
		_ = w.cluster.Delete(w.ctx, s.object(o.name), nil)
		for name := range jobs {
			_ = w.cluster.Delete(w.ctx, kube.Path("batch/v1", "jobs", "old", o.name+"-"+name)+"?propagationPolicy=Background", nil)
		}
	})
	return o
}

// withoutIgnored makes an Application update Jobs, by removing the ignoreDifferences that
// init writes.
func (o *oldWay) withoutIgnored(text []byte) string {
	var object map[string]any
	o.must(yaml.Unmarshal(text, &object))
	delete(object["spec"].(map[string]any), "ignoreDifferences")
	text, err := yaml.Marshal(object)
	o.must(err)
	return strings.ReplaceAll(string(text), "- RespectIgnoreDifferences=true\n", "")
}

// write commits the directory: a ConfigMap that stays, and Jobs by name, each a text
// in which OVERLAY and NAME are filled in.
func (o *oldWay) write(jobs map[string]string) {
	o.t.Helper()
	o.must(o.git.edit("the Jobs of "+o.name, func(root string) error {
		dir := filepath.Join(root, "old", o.name)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		list := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n  - stays.yaml\n"
		files := map[string]string{"stays.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + o.name + ", namespace: old}\n"}
		for name, text := range jobs {
			list += "  - " + name + ".yaml\n"
			files[name+".yaml"] = strings.NewReplacer("OVERLAY", o.name, "NAME", o.name+"-"+name).Replace(text)
		}
		files["kustomization.yaml"] = list
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				return err
			}
		}
		return nil
	}))
	if err := o.syncer.refresh(o.ctx, o.name); err != nil && !kube.Missing(err) {
		o.t.Fatal(err)
	}
}

// pods waits until N of its pods run.
func (o *oldWay) pods(want int) {
	o.t.Helper()
	o.reaches(want, "pods run", func() int { return o.podsIn("Running") })
}

// kills waits until N pods were ended while they ran.
func (o *oldWay) kills(want int) {
	o.t.Helper()
	o.reaches(want, "pods were killed", func() int { return len(o.events.killedOf(o.name)) })
}

func job(parallelism int) string {
	return strings.ReplaceAll(oldJob, "PARALLELISM", fmt.Sprint(parallelism))
}

func testOldWays(t *testing.T) {
	for _, way := range []struct {
		name, promise string
		run           func(t *testing.T, w *world, s syncer)
	}{
		{"parallelism", "Counterexample: lower parallelism kills busy agents", oldParallelism},
		{"template", "Counterexample: an edit of a Job's template fails the sync", oldTemplate},
		{"pruned", "Counterexample: without the annotations, pruning kills agents", oldPruned},
		{"backoff", "Counterexample: with `backoffLimit`, failures kill busy agents", oldBackoff},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			both(t, way.promise, way.run)
		})
	}
}

func oldParallelism(t *testing.T, w *world, s syncer) {
	o := w.addOldWay(t, "parallelism", s, map[string]string{"a": job(4)})
	o.pods(4)
	o.write(map[string]string{"a": job(1)})
	o.kills(3)
}

func oldTemplate(t *testing.T, w *world, s syncer) {
	o := w.addOldWay(t, "template", s, map[string]string{"a": job(1)})
	o.pods(1)
	o.write(map[string]string{"a": strings.Replace(job(1), "image: agent", "image: newer", 1), "b": job(1)})
	o.isRefused(0, "immutable")
	// Flux applies nothing then, Argo CD the other Job.
	if s.name() == "argocd" {
		o.pods(2)
	} else if jobs := o.events.jobsOf(o.name); len(jobs) != 1 {
		t.Errorf("%d Jobs are there, want 1: a Job beside the one that is refused is not applied", len(jobs))
	}
}

func oldPruned(t *testing.T, w *world, s syncer) {
	o := w.addOldWay(t, "pruned", s, map[string]string{"a": job(2)})
	o.pods(2)
	o.write(nil)
	o.kills(2)
}

func oldBackoff(t *testing.T, w *world, s syncer) {
	text := strings.Replace(job(6), "  parallelism: 6", "  parallelism: 6\n  completions: 6\n  completionMode: Indexed", 1)
	text = strings.Replace(text, "sleep 3600", "sleep 5; [ $JOB_COMPLETION_INDEX -gt 1 ] || exit 1; sleep 3600", 1)
	o := w.addOldWay(t, "backoff", s, map[string]string{"a": text})
	o.kills(4)
}
