package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/testdata/e2e/kube"
	"muster/testdata/e2e/node"
)

// overlay is one overlay of the fleet, with a queue of its own, and its syncer.
type overlay struct {
	*world
	t           *testing.T
	name        string
	syncer      syncer
	namespace   string
	expectKills func(node.Killed) bool // kills that the test is about; nil: none
	gate        string                 // jobs wait for this file
}

// options are how an overlay differs from what init writes.
type options struct {
	policy    map[string]string // settings, as in "lease": "1m"
	patch     string            // a patch of the template's Job, in YAML
	namespace string            // empty: buildkite
	base      string            // empty: base, as init wrote it
}

// addOverlay makes an overlay as a user does: init wrote it before muster began, so what
// is left is to edit the policy, to push, and to apply what init wrote for the syncer.
func (w *world) addOverlay(t *testing.T, scenario string, s syncer, o options) *overlay {
	t.Helper()
	v := &overlay{world: w, t: t, name: scenario + "-" + s.name(), syncer: s, namespace: "buildkite", gate: filepath.Join(w.suite.dir, "gate-"+scenario+"-"+s.name())}
	if o.namespace != "" {
		v.namespace = o.namespace
		v.must(w.cluster.addNamespace(w.ctx, o.namespace))
		v.must(w.allow(w.ctx, s, o.namespace))
	}
	if !slices.Contains(scenarios, scenario) {
		t.Fatalf("the overlay %s is not among the scenarios", scenario)
	}
	if len(o.policy) > 0 || o.patch != "" || o.namespace != "" || o.base != "" {
		v.must(w.git.edit("edit overlay "+v.name, func(dir string) error {
			if err := v.setPolicy(dir, o.policy); err != nil {
				return err
			}
			return v.setTemplate(dir, o)
		}))
	}
	v.must(w.cluster.applyFiles(w.ctx, filepath.Join(w.git.clone, "syncer", "agents-"+v.name+".yaml")))
	v.applied()
	t.Cleanup(v.logs)
	return v
}

// applied waits until the syncer has applied what stays of the overlay.
func (v *overlay) applied() {
	v.t.Helper()
	v.until("it is applied", func() error {
		return v.cluster.Get(v.ctx, kube.Path("v1", "configmaps", "buildkite", "muster-"+v.name), nil)
	})
}

// setPolicy writes settings into the policy that init wrote.
func (v *overlay) setPolicy(dir string, settings map[string]string) error {
	path := filepath.Join(dir, "overlays", v.name, "scaling.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	for name, value := range settings {
		found := false
		for i, line := range lines {
			bare := strings.TrimPrefix(strings.TrimSpace(line), "# ")
			if strings.HasPrefix(bare, name+":") {
				lines[i], found = "  "+name+": "+value, true
			}
		}
		if !found {
			return fmt.Errorf("the policy that init writes has no %s", name)
		}
	}
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644)
}

// setTemplate writes the template with a patch.
func (v *overlay) setTemplate(dir string, o options) error {
	if o.patch == "" && o.namespace == "" && o.base == "" {
		return nil
	}
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n  - ../../../" + cmp.Or(o.base, "base") + "\n"
	if o.namespace != "" {
		text += "namespace: " + o.namespace + "\n"
	}
	if o.patch != "" {
		text += "patches:\n  - target: {kind: Job}\n    patch: |-\n"
		for line := range strings.Lines(strings.Trim(o.patch, "\n")) {
			text += "      " + line
		}
		text += "\n"
	}
	return os.WriteFile(filepath.Join(dir, "overlays", v.name, "template", "kustomization.yaml"), []byte(text), 0o644)
}

func (v *overlay) must(err error) {
	v.t.Helper()
	must(v.t, err)
}

// tb is what a part is started for: a test, or the whole suite.
type tb interface {
	Helper()
	Fatal(args ...any)
}

// beginning is the beginning of the suite, which an error ends.
type beginning struct{}

func (beginning) Helper() {}
func (beginning) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, append([]any{"e2e:"}, args...)...)
	os.Exit(1)
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until waits for what must come; the patience only ends a test that would hang.
func (v *overlay) until(what string, check func() error) {
	v.t.Helper()
	if err := eventually(v.ctx, *patience, v.name+": "+what, check); err != nil {
		_, words, _ := v.syncer.status(v.ctx, v.name)
		v.t.Fatalf("%v\nthe syncer says: %s", err, words)
	}
}

// logs names the logs of a test that has failed, and says what has died.
func (v *overlay) logs() {
	if !v.t.Failed() {
		return
	}
	v.t.Logf("the logs of all processes are in %s", v.suite.logs)
	for _, p := range v.processes() {
		if err := p.Died(); err != nil {
			v.t.Log(err)
		}
	}
	out, _ := exec.Command(v.suite.muster, "history", v.name, "--repo", v.git.url).CombinedOutput()
	v.t.Logf("the ledger of %s:\n%s", v.name, out)
	for name, lives := range v.events.jobsOf(v.name) {
		for _, j := range lives {
			v.t.Logf("Job %s: %+v", name, j)
		}
	}
}

// gone waits until the cluster has no object at a path.
func (v *overlay) gone(path string) {
	v.t.Helper()
	v.until(path+" has gone", func() error {
		err := v.cluster.Get(v.ctx, path, nil)
		if err == nil {
			return errors.New("it is there")
		}
		if kube.Missing(err) {
			return nil
		}
		return err
	})
}

// reaches waits until a number is as wanted.
func (v *overlay) reaches(want int, what string, count func() int) {
	v.t.Helper()
	v.until(fmt.Sprintf("%d %s", want, what), func() error {
		if got := count(); got != want {
			return fmt.Errorf("%d %s", got, what)
		}
		return nil
	})
}

// start begins a build of one step in the overlay's queue.
func (v *overlay) start(step fakebuildkite.Step) string {
	step.Agents = []string{"queue=" + v.name}
	return v.buildkite.CreateBuild(fakebuildkite.Build{Cluster: v.buildkite.cluster, Steps: []fakebuildkite.Step{step}})
}

// waits is a command that ends when a file is there. Dozens of jobs run it, so it looks only once a second: starting
// sleep is work, too.
func waits(file string) string { return "until [ -e " + file + " ]; do sleep 1; done" }

// build adds jobs to the overlay's queue. They run until open.
func (v *overlay) build(jobs int) string {
	return v.start(fakebuildkite.Step{Parallelism: jobs, Command: waits(v.gate), Duration: 2 * time.Second})
}

// open lets the jobs end.
func (v *overlay) open() { v.must(os.WriteFile(v.gate, nil, 0o644)) }

// finish lets the jobs end, and waits until N have passed and all Jobs are complete.
func (v *overlay) finish(jobs int) {
	v.t.Helper()
	v.open()
	v.passes(jobs)
	v.complete()
}

// podsIn are the pods of the overlay in a phase.
func (v *overlay) podsIn(phase string) int {
	pods := slices.DeleteFunc(v.events.podsOf(v.name), func(p seenPod) bool { return p.Phase != phase })
	return len(pods)
}

// counts are the jobs of the overlay's queue by state.
func (v *overlay) counts() map[string]int {
	counts := map[string]int{}
	for _, j := range v.buildkite.jobsOf(v.name) {
		counts[j.State]++
	}
	return counts
}

// runs waits until N jobs run, and passes until N have passed.
func (v *overlay) runs(jobs int) {
	v.t.Helper()
	v.until(fmt.Sprintf("%d jobs run", jobs), func() error { return v.are(jobs, "running") })
}

func (v *overlay) passes(jobs int) {
	v.t.Helper()
	v.until(fmt.Sprintf("%d jobs have passed", jobs), func() error { return v.are(jobs, "passed") })
}

// are is an error until N jobs are in a state.
func (v *overlay) are(jobs int, state string) error {
	if c := v.counts(); c[state] != jobs {
		return fmt.Errorf("jobs are %v", c)
	}
	return nil
}
