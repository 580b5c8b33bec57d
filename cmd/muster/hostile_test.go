package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops"
	"muster/gitops/unraced"
)

var (
	hostileFrom  = flag.Uint64("hostile-from", 9, "the first seed of hostile overlays")
	hostileSeeds = flag.Uint64("hostile-seeds", 6, "how many hostile overlays are tried")
	hostileTime  = flag.Duration("hostile-time", 0, "for how long further hostile overlays are tried")
	hostileAlone = flag.Bool("hostile-alone", false, "set by TestHostileOverlays for the process in which it plays them")
)

// soundOverlays are the valid overlays: by name, one is before most hostile ones and one after.
var soundOverlays = []string{"sound-a", "sound-b"}

// hostileScenario is a fleet repository with two valid overlays and a hostile one, and the
// parts of the program that read and write it. It implements Buildkite and Clock.
type hostileScenario struct {
	t       *testing.T
	seed    uint64
	draw    *hostileTree
	objects gitObjects
	jobs    []plan.Job
	log     bytes.Buffer
	g       *generator.Generator
	build   *patient
	served  map[string]int // agents dispatched, by overlay
	report  []string
}

func newHostileScenario(t *testing.T, seed uint64, dir string) *hostileScenario {
	w := &hostileScenario{t: t, seed: seed, objects: newGitObjects(t, dir), served: map[string]int{}}
	w.draw = &hostileTree{Rand: rand.New(rand.NewPCG(seed, 7)), objects: w.objects}
	if w.draw.IntN(4) == 0 {
		w.draw.note("a server without partial clone")
		w.must(w.objects.bare.Configure("uploadpack.allowFilter", "false"))
	}
	w.build = newPatient(t)
	w.restart()
	return w
}

func (w *hostileScenario) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
}

// restart simulates a new process.
func (w *hostileScenario) restart() {
	repository, err := gitops.New(gitops.Config{URL: w.objects.bare.Dir, TempDir: filepath.Dir(w.objects.bare.Dir)})
	w.must(err)
	w.g = generator.New(generator.Config{
		Repository: generator.Fleet{Writer: repository, Version: "test"}, Buildkite: w, Clock: w, Overlays: "overlays",
		Build: w.build, Patience: buildPatience, Log: slog.New(slog.NewTextHandler(&output.Printable{To: &w.log}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
}

// Snapshot implements generator.Buildkite: all jobs are pending.
func (w *hostileScenario) Snapshot(_ context.Context, query plan.Query) (plan.Snapshot, error) {
	return plan.Snapshot{At: query.At, Jobs: slices.Clone(w.jobs)}, nil
}

// Now implements generator.Clock.
func (w *hostileScenario) Now() time.Time { return start }

// Sleep implements generator.Clock. A wait for a build ends only if the build of the hostile
// overlay takes long.
func (w *hostileScenario) Sleep(ctx context.Context, d time.Duration) error {
	if d > buildPatience {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.build.timeout(ctx):
		return nil
	}
}

// publish commits the overlays, the valid ones unchanged.
func (w *hostileScenario) publish(others ...leaf) {
	overlays := others
	for _, name := range soundOverlays {
		h := w.objects.entry("overlays/" + name)
		if h.IsZero() {
			h = w.objects.directory(map[string]string{
				"scaling.yaml":                  "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec:\n  queue: " + name + "\n  max: 1000\n",
				"kustomization.yaml":            "resources: [configmap.yaml, dispatches]\n",
				"configmap.yaml":                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: buildkite}\n",
				"template/kustomization.yaml":   "resources: [../../../base]\nnameSuffix: -" + name + "\n",
				"dispatches/kustomization.yaml": "resources: []\n",
			}, nil)
		}
		overlays = append(overlays, leaf{gitDirectory, name, h})
	}
	base, err := os.ReadFile(filepath.Join(top, "base", "job.yaml"))
	w.must(err)
	w.objects.commit(w.objects.tree(
		leaf{gitDirectory, "base", w.objects.directory(map[string]string{"kustomization.yaml": "resources: [job.yaml]\n", "job.yaml": string(base)}, nil)},
		leaf{gitDirectory, "overlays", w.objects.tree(overlays...)},
	), "Somebody <grace@example.com>", "edit\n", start)
}

// demand adds a pending job for each overlay.
func (w *hostileScenario) demand() {
	for _, queue := range append([]string{"bad"}, soundOverlays...) {
		w.jobs = append(w.jobs, plan.Job{ID: fmt.Sprint(queue, len(w.jobs)), Rules: []string{"queue=" + queue}, State: plan.JobPending, Since: start, URL: "https://buildkite.com/acme/1"})
	}
}

// tick runs a tick, and records the orders of the valid overlays.
func (w *hostileScenario) tick(ctx context.Context) {
	result, err := w.g.Tick(ctx)
	for _, a := range result.Operations {
		if a.Kind == ledger.Dispatch {
			w.served[a.Decision.Overlay] += a.Decision.Figures.Dispatch
		}
	}
	w.report = w.report[:0]
	if err != nil {
		w.report = append(w.report, err.Error())
	}
	for _, s := range result.Suspended[:min(len(result.Suspended), 100)] { // thousands would count as muster's memory
		w.report = append(w.report, s.Overlay+" is suspended: "+s.Why.String())
	}
}

// twoTicks adds jobs, and asserts that the valid overlays get agents for them within two ticks.
func (w *hostileScenario) twoTicks(ctx context.Context) {
	w.t.Helper()
	before := map[string]int{}
	for _, name := range soundOverlays {
		before[name] = w.served[name]
	}
	w.demand()
	w.tick(ctx)
	w.tick(ctx)
	for _, name := range soundOverlays {
		if got := w.served[name] - before[name]; got != 1 {
			w.fail("%s got %d agents for one job", name, got)
		}
		if n := len(w.objects.dispatches(name)); n != w.served[name] {
			w.fail("%s has %d dispatches in git, want %d", name, n, w.served[name])
		}
	}
}

func (w *hostileScenario) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("seed %d: %s\n%s\n%.3000s", w.seed, fmt.Sprintf(format, args...), strings.Join(w.draw.text, "; "), strings.Join(w.report, "\n"))
}

// play runs one seed: the valid overlays are served beside a hostile one, and everything ends
// with the context.
func (w *hostileScenario) play() {
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	if w.draw.IntN(2) == 0 {
		w.publish()
		w.twoTicks(ctx)
	}
	_, bad := w.draw.overlay()
	both := []leaf{bad}
	if w.draw.IntN(2) == 0 {
		w.draw.note("another beside it")
		_, worse := w.draw.overlay()
		worse.name += "2"
		both = append(both, worse)
	}
	w.draw.files, w.draw.others = nil, nil // written: what they take is none of muster's memory
	w.publish(bad)
	peak := watchMemory()
	w.twoTicks(ctx)
	if len(both) > 1 {
		w.publish(both...)
	}
	if w.draw.IntN(2) == 0 {
		w.draw.note("restarted")
		w.restart()
	}
	w.twoTicks(ctx)
	w.endDuring(ctx, cancel)
	heap, own, all := peak()
	// What is resident is the truth. The heap's peak is held to leave room for a process
	// that builds, for the two need not have met in this run; and to leave it for as many
	// as there may be, where nothing tells what is resident.
	building := 1
	if all == 0 || raced { // the race detector's own memory is resident too
		building = hostileProcesses
	}
	if heap+uint64(building)*invocation.BuildMemory > mostMemory {
		w.fail("%d MiB of memory, and %d MiB for each of %d processes", heap>>20, invocation.BuildMemory>>20, building)
	}
	if all > mostMemory && !raced {
		w.fail("%d MiB are resident, and %d MiB with the processes that build", own>>20, all>>20)
	}
	w.printed()
	if *hostileTime > 0 {
		fmt.Fprintf(os.Stderr, "%6d: %3d MiB, resident %3d and %3d; %.300s\n", w.seed, heap>>20, own>>20, all>>20, strings.Join(w.draw.text, "; "))
	}
}

// hostileRaced is the number of seeds with the race detector, which prevents measurements of
// resident memory. make test runs all seeds without it.
const hostileRaced = 2

// hostileProcesses is the maximum number of concurrent builds.
const hostileProcesses = 2

// endDuring ends the context during a tick, and waits until no goroutine or process remains.
func (w *hostileScenario) endDuring(ctx context.Context, cancel func()) {
	w.restart()
	w.build.before(w.draw.IntN(6), cancel)
	w.tick(ctx)
	cancel()
	for runningGoroutine() != "" || len(builders()) > 0 {
		time.Sleep(time.Millisecond)
	}
}

// runningGoroutine returns the stack of a goroutine of muster; empty if all have ended.
func runningGoroutine() string {
	stacks := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, "\nmuster/generator") || strings.Contains(stack, "\nmuster/gitops/git.") || strings.Contains(stack, "created by muster/generator") {
			return stack
		}
	}
	return ""
}

// printed asserts that the log and the commits contain no control characters.
func (w *hostileScenario) printed() {
	log, err := w.objects.bare.Git("log", "--format=%an%ae%B", "--author=muster", "refs/heads/main")
	w.must(err)
	for name, text := range map[string]string{"log": w.log.String(), "commits": log} {
		if i := strings.IndexFunc(text, func(r rune) bool { return !output.Shown(r) }); i >= 0 {
			w.fail("the %s have %.20q", name, text[i:])
		}
	}
}

// TestHostileOverlays asserts that beside any hostile overlay the valid ones are served within
// two ticks, with limited memory, and that everything ends with the context. It runs in a
// separate process, because memory and goroutines of other tests would count.
func TestHostileOverlays(t *testing.T) {
	unraced.Only(t)
	if !*hostileAlone {
		alone := []string{"-test.run=^TestHostileOverlays$", "-test.timeout=0", "-hostile-alone", fmt.Sprintf("-hostile-from=%d", *hostileFrom),
			fmt.Sprintf("-hostile-seeds=%d", *hostileSeeds), fmt.Sprintf("-hostile-time=%s", *hostileTime)}
		cmd := exec.CommandContext(t.Context(), os.Args[0], alone...)
		var out bytes.Buffer
		both := io.MultiWriter(&out, os.Stderr)
		cmd.Stdout, cmd.Stderr = both, both // one writer for both, so that one writes at a time
		if err := cmd.Run(); err != nil {
			t.Errorf("%v\n%s", err, &out)
		}
		return
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(invocation.ProgramMemory)) // as main does
	begun, end := time.Now(), *hostileFrom+*hostileSeeds
	if raced {
		end = *hostileFrom + min(*hostileSeeds, hostileRaced)
	}
	for seed := *hostileFrom; seed < end || time.Since(begun) < *hostileTime; seed++ {
		dir := filepath.Join(t.TempDir(), strconv.FormatUint(seed, 10))
		check(t, os.Mkdir(dir, 0o700))
		newHostileScenario(t, seed, dir).play()
		check(t, os.RemoveAll(dir))
	}
}
