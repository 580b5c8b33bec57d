package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/testdata/e2e/record"
)

// table is what was seen, for docs/reference/syncers.md.
type table struct {
	mu       sync.Mutex
	promises []record.Promise
	figures  []record.Figure
	nodes    []string

	pods   string                     // on what the traced ones ran
	traces map[string][]time.Duration // by syncer, how long each of traceParts took
}

// ran notes on what else pods ran.
func (r *table) ran(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes = append(r.nodes, what)
}

var results table

// note notes whether a promise held with a syncer.
func (r *table) note(t *testing.T, promise, syncer string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	test := strings.Replace(t.Name(), "/"+syncer, "", 1)
	i := slices.IndexFunc(r.promises, func(p record.Promise) bool { return p.Test == test })
	if i < 0 {
		i = len(r.promises)
		r.promises = append(r.promises, record.Promise{Text: promise, Test: test, Held: map[string]bool{}})
	}
	r.promises[i].Held[syncer] = !t.Failed()
	say("%s: %s", t.Name(), map[bool]string{true: "holds", false: "DOES NOT HOLD"}[!t.Failed()])
}

// measured notes a figure of a syncer.
func (r *table) measured(text, syncer, value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	say("measured with %s: %s: %s", syncer, text, value)
	i := slices.IndexFunc(r.figures, func(f record.Figure) bool { return f.Text == text })
	if i < 0 {
		i = len(r.figures)
		r.figures = append(r.figures, record.Figure{Text: text, Values: map[string]string{}})
	}
	r.figures[i].Values[syncer] = value
}

// write writes docs/reference/syncers.md, and the trace into its page.
func (r *table) write(s *suite) error {
	if r.traces != nil && *tableFlag != record.Previous {
		if err := replace(s, record.TracePage, record.Trace, r.trace(s)); err != nil {
			return err
		}
	}
	if *tableFlag == record.Trace {
		return nil
	}
	sum, err := record.Sum(os.DirFS(s.root))
	if err != nil {
		return err
	}
	// The order of the page is that of the tests, whichever ended first.
	slices.SortStableFunc(r.promises, func(a, b record.Promise) int { return rank(a.Test) - rank(b.Test) })
	run := record.Run{
		Date: time.Now().UTC().Format(time.DateOnly), Sum: sum, Syncers: syncers(), Brief: *tableFlag == record.Previous, Promises: r.promises, Figures: r.figures,
		Versions: []string{
			"Kubernetes " + s.programs["controlplane"].Version + ", Pod Security `restricted`",
		},
	}
	for _, name := range syncers() {
		run.Versions = append(run.Versions, s.world.syncers[name].versions())
	}
	run.Versions = append(run.Versions, filepath.Base(s.agent)+" under tini, each pod a process; light agents are simulated")
	run.Versions = append(run.Versions, r.nodes...)
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		busy := strings.Join(strings.Fields(string(load))[:3], ", ")
		run.Versions = append(run.Versions, fmt.Sprintf("%d processors; load averages at the end: %s", runtime.NumCPU(), busy))
	}
	return replace(s, record.Page, *tableFlag, run.Markdown())
}

// replace writes a section of a page.
func replace(s *suite, page, section, text string) error {
	path := filepath.Join(s.root, page)
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if content, err = record.Replace(content, section, text); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// rank is where a test's rows are on the page.
func rank(test string) int {
	for i, part := range []string{
		"/Life", "/LeftInGit", "/Edits", "/Failures", "/Refused/policy", "/Refused/webhook", "/Refused/quota", "/PodQuota", "/LimitRange", "/Corrected", "/Rewritten", "/Transformed", "/Unstarted", "/Rights", "/Namespace", "/Eviction", "/DisruptionBudget", "/Preemption", "/NodeLost", "/Twice",
		"/Deleted", "/ApplicationSet", "/Reuse", "/Clock/slow", "/Clock/fast", "RealNode/Works", "RealNode/Secret", "RealNode/Drained", "RealNode/Preempted", "RealNode/Dies", "RealNode/OtherTime/slow", "RealNode/OtherTime/fast", "Deployed", "Clusters", "Told", "Crowd", "Chaos", "/OldWays/parallelism", "/OldWays/template", "/OldWays/pruned", "/OldWays/backoff",
	} {
		if strings.Contains(test, part) {
			return i
		}
	}
	return 1000
}

// over is an error until N seconds after a moment.
func over(since time.Time, seconds int) error {
	if gone := time.Since(since); gone < time.Duration(seconds)*time.Second {
		return fmt.Errorf("%s have gone", gone)
	}
	return nil
}

// spread says the middle and the longest of some times.
func spread(times []time.Duration) string {
	slices.Sort(times)
	if len(times) == 0 {
		return "none"
	}
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
	return fmt.Sprintf("median %s, max %s, n=%d", seconds(times[len(times)/2]), seconds(times[len(times)-1]), len(times))
}
