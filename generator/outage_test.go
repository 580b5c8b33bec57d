package generator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/unraced"
)

// unavailable is a bench whose git or Buildkite is away at times.
type unavailable struct {
	*bench
	git, buildkite func(now time.Time) error
}

func (a unavailable) Head(ctx context.Context) (branch.Head, error) {
	if err := a.git(a.now); err != nil {
		return branch.Head{}, err
	}
	return a.bench.Head(ctx)
}

func (a unavailable) Snapshot(ctx context.Context, query plan.Query) (plan.Snapshot, error) {
	if err := a.buildkite(a.now); err != nil {
		return plan.Snapshot{}, err
	}
	return a.bench.Snapshot(ctx, query)
}

func never(time.Time) error { return nil }

// runAway lets a muster run for so long, and returns its log in JSON.
func runAway(t *testing.T, a unavailable, length, interval time.Duration, v *watched) *bytes.Buffer {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	end := a.now.Add(length)
	wake := a.triggers
	a.bench.triggers = func() {
		if !a.now.Before(end) {
			stop()
		}
		if wake != nil {
			wake()
		}
	}
	log := &bytes.Buffer{}
	g := generator.New(generator.Config{
		Repository: a, Buildkite: a, Clock: a.bench, Overlays: "overlays", Watch: v,
		Log: slog.New(slog.NewJSONHandler(log, nil)),
	})
	if err := g.Run(ctx, interval, 0); err != nil {
		t.Fatal(err)
	}
	return log
}

// TestOutageOfADay: while git or Buildkite is unreachable, muster dispatches nothing from old
// snapshots, is not ready after two intervals, stays alive, and serves no outdated figures. One tick
// recovers.
func TestOutageOfADay(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	const interval = 15 * time.Second
	for name, set := range map[string]func(a *unavailable, away func(time.Time) error){
		"git":       func(a *unavailable, err func(time.Time) error) { a.git = err },
		"Buildkite": func(a *unavailable, err func(time.Time) error) { a.buildkite = err },
	} {
		t.Run(name, func(t *testing.T) {
			a := unavailable{bench: newBench("a"), git: never, buildkite: never}
			from, to := a.now.Add(10*time.Minute), a.now.Add(24*time.Hour)
			set(&a, func(now time.Time) error {
				if now.Before(from) || !now.Before(to) {
					return nil
				}
				return fmt.Errorf("%s answers nothing at %s", name, now)
			})
			v := watch(t, a.Now, interval)
			var seen [2]int // times looked while away, and after
			a.triggers = func() {
				if a.now.Equal(from) {
					a.jobs("a", 3)
				}
				down := len(v.Snapshot().At(a.now).NotReady()) > 0
				if stuck := v.Snapshot().Stuck(a.now); stuck != "" {
					t.Fatalf("at %s: %s", a.now, stuck)
				}
				served := !down // a scrape takes longer than a tick: now and then is enough
				if since := a.now.Sub(from); since%time.Hour == 0 || a.now.After(to) {
					_, served = v.values(t)["muster_pending_jobs overlay=a"]
				}
				switch {
				case a.now.Sub(from) > 2*interval && a.now.Before(to):
					seen[0]++
					if !down || served || len(a.fleet.history()) > 1 {
						t.Fatalf("at %s: ready %t, figures served %t, %d commits", a.now, !down, served, len(a.fleet.history()))
					}
				case !a.now.Before(to.Add(interval)):
					seen[1]++
					if down || !served || len(a.fleet.history()) != 2 {
						t.Fatalf("at %s: ready %t, figures served %t, %d commits", a.now, !down, served, len(a.fleet.history()))
					}
				}
			}
			log := runAway(t, a, 24*time.Hour+time.Minute, interval, v)
			if seen[0] < 5000 || seen[1] < 2 {
				t.Errorf("looked %v times", seen)
			}
			lines := parse(t, log)
			if n := len(lines); n > 40 {
				t.Errorf("%d lines of log in a day", n)
			}
			begin, end := lines[0], lines[len(lines)-2]
			if begin["msg"] != "tick failed" || begin["level"] != "ERROR" || !strings.Contains(fmt.Sprint(begin["err"]), name) ||
				end["msg"] != "resolved: tick failed" || end["ticks"].(float64) < 5000 {
				t.Errorf("the log begins %v and ends %v", begin, end)
			}
		})
	}
}

// parse reads a log in JSON, and says where a line has no level, message or time,
// or an attribute twice.
func parse(t *testing.T, log io.Reader) []map[string]any {
	t.Helper()
	var all []map[string]any
	for d := json.NewDecoder(log); ; {
		var raw json.RawMessage
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		line := map[string]any{}
		inner := json.NewDecoder(bytes.NewReader(raw))
		_, _ = inner.Token()
		for inner.More() {
			key, _ := inner.Token()
			var value any
			if err := inner.Decode(&value); err != nil {
				t.Fatal(err)
			}
			if _, twice := line[fmt.Sprint(key)]; twice {
				t.Errorf("%v is there twice: %s", key, raw)
			}
			line[fmt.Sprint(key)] = value
		}
		for _, key := range []string{"time", "level", "msg"} {
			if line[key] == nil {
				t.Errorf("no %s: %s", key, raw)
			}
		}
		all = append(all, line)
	}
}

// TestDayWithFaults: everything fails at times, for moments and for hours, and files are added and
// removed. No line is logged often, every problem is resolved in the end, and the line of every
// operation has its attributes.
func TestDayWithFaults(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	a := unavailable{bench: newBench("a", "b")}
	r := rand.New(rand.NewPCG(7, 7))
	flaky := func(what string) func(time.Time) error {
		return func(now time.Time) error {
			long := now.Hour() == 9 || now.Hour() == 15 && what == "git"
			if now.Day() == 5 && (long || r.IntN(3) == 0) {
				return fmt.Errorf("%s answers %d", what, 500+r.IntN(3))
			}
			return nil
		}
	}
	a.git, a.buildkite = flaky("git"), flaky("Buildkite")
	broken := branch.Change{Path: "overlays/a/scaling.yaml", Content: []byte("spec: 7\n")}
	ticks := 0
	a.triggers = func() {
		switch ticks++; {
		case ticks%4 == 1 && a.now.Day() == 5:
			a.fleet.edit("a person", broken)
		case ticks%4 == 3:
			a.fleet.edit("a person", branch.Change{Path: broken.Path, Content: a.overlays[0].policyText()})
		}
		a.snapshot.Jobs = nil
		if ticks%40 == 0 {
			a.jobs("b", 1)
		}
	}
	log := runAway(t, a, 26*time.Hour, time.Minute, watch(t, a.Now, time.Minute))
	counts, open := map[string]int{}, map[string]bool{}
	ops := map[string]int{}
	for _, line := range parse(t, log) {
		msg := line["msg"].(string)
		about := fmt.Sprint(line["overlay"], line["queue"], line["reason"])
		counts[fmt.Sprint(msg, about, line["dispatch"], line["head"], line["err"])]++
		switch began, over := strings.CutPrefix(msg, "resolved: "); {
		case over:
			if !open[began+about] {
				t.Errorf("over and never begun: %v", line)
			}
			delete(open, began+about)
			if _, ok := line["duration"].(float64); !ok {
				t.Errorf("no duration: %v", line)
			}
		case line["level"] != "INFO" && line["dispatch"] == nil:
			open[msg+about] = true
		case line["dispatch"] != nil:
			ops[strings.Fields(msg)[0]]++
			for _, key := range []string{"overlay", "queue", "agents", "reason", "head", "duration"} {
				if line[key] == nil {
					t.Errorf("no %s: %v", key, line)
				}
			}
		}
	}
	for line, n := range counts {
		if n > 30 {
			t.Errorf("%d times %s", n, line)
		}
	}
	for about := range open {
		if !strings.HasSuffix(about, string(plan.BreakerOpen)) { // nobody ever registers
			t.Errorf("never over: %s", about)
		}
	}
	if ticks < 1500 || len(counts) < 10 || ops["retired,"] == 0 || ops["dispatched"] == 0 {
		t.Errorf("%d ticks, %d different lines, operations %v", ticks, len(counts), ops)
	}
	t.Log(len(counts), ops)
}
