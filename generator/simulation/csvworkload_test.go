package simulation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator/buildkite/fakebuildkite"
)

func TestReadCSV(t *testing.T) {
	got, err := ReadCSV("jobs", strings.NewReader(`at,duration,count,rules,fails,group,limit,label
2026-03-02T09:10:00+01:00,4m,3,,,,,
2026-03-02T08:05:30Z,90,,queue=large os=linux,4,deploy,2,":ship: deploy, to all"
`), "default")
	if err != nil {
		t.Fatal(err)
	}
	step := func(s fakebuildkite.Step) fakebuildkite.Build {
		return fakebuildkite.Build{Steps: []fakebuildkite.Step{s}}
	}
	want := Workload{
		Name: "jobs", Start: time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC), Length: 11 * time.Minute,
		Arrivals: []Arrival{
			{At: 330 * time.Second, Build: step(fakebuildkite.Step{
				Parallelism: 1, Duration: 90 * time.Second, Agents: []string{"queue=large", "os=linux"},
				Fail: 4, Retries: 4, ConcurrencyGroup: "deploy", Concurrency: 2, Label: ":ship: deploy, to all",
			})},
			{At: 10 * time.Minute, Build: step(fakebuildkite.Step{
				Parallelism: 3, Duration: 4 * time.Minute, Agents: []string{"queue=default"}, Retries: 2, Concurrency: 1,
			})},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("workload (-want +got):\n%s", diff)
	}
	m := Play(DefaultScenario(), got, &Muster{}, nil)
	if m.Jobs != 3 || m.Unmatched != 1 || m.Unserved != 0 {
		t.Errorf("%d jobs, %d unmatched, %d never served; want 3, 1 and none", m.Jobs, m.Unmatched, m.Unserved)
	}
}

// TestCSVBuilds: rows of one build, in stages, and builds that are cancelled.
func TestCSVBuilds(t *testing.T) {
	got, err := ReadCSV("jobs", strings.NewReader(`build,stage,at,duration,count,cancel
a,2,10,60,1,
a,1,,30,2,
b,,40,1h,1,10s
,,20,5,1,
c,,50,1h,1,30m
`), "default")
	if err != nil {
		t.Fatal(err)
	}
	step := func(d time.Duration, n int) fakebuildkite.Step {
		return fakebuildkite.Step{Duration: d, Parallelism: n, Retries: 2, Concurrency: 1, Agents: []string{"queue=default"}}
	}
	build := func(steps ...fakebuildkite.Step) fakebuildkite.Build { return fakebuildkite.Build{Steps: steps} }
	want := Workload{Name: "jobs", Length: 110 * time.Second, Arrivals: []Arrival{
		{At: 10 * time.Second, Build: build(step(30*time.Second, 2), fakebuildkite.Step{Type: fakebuildkite.Wait}, step(time.Minute, 1))},
		{At: 20 * time.Second, Build: build(step(5*time.Second, 1))},
		{At: 40 * time.Second, Cancel: 10 * time.Second, Build: build(step(time.Hour, 1))},
		{At: 50 * time.Second, Cancel: 30 * time.Minute, Build: build(step(time.Hour, 1))},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("workload (-want +got):\n%s", diff)
	}
	m := Play(DefaultScenario(), got, &Muster{}, nil)
	if m.Jobs != 5 || m.Cancelled != 1 || m.Unserved != 0 {
		t.Errorf("%d jobs, %d cancelled while they waited, %d never served; want 5, 1 and none", m.Jobs, m.Cancelled, m.Unserved)
	}
	if m.Connected > time.Hour {
		t.Errorf("agents were connected for %s: the job that was cancelled while it ran went on", m.Connected)
	}
}

// TestCSVLabels asserts that look-ahead learns how long steps with labels take: agents for second stages
// start in time. Without labels they start with the build, and idle.
func TestCSVLabels(t *testing.T) {
	play := func(lookahead float64, labels ...string) Measures {
		text := "build,at,stage,label,duration\n"
		for i := range 20 {
			for stage, label := range labels {
				text += fmt.Sprintf("%d,%d,%d,%s,5m\n", i, 1200*i, stage+1, label)
			}
		}
		workload, err := ReadCSV("jobs", strings.NewReader(text), "default")
		if err != nil {
			t.Fatal(err)
		}
		w := DefaultScenario()
		w.Policy.Lookahead, w.Policy.IdleTimeout = lookahead, 5*time.Minute
		return Play(w, workload, &Muster{}, nil)
	}
	off, unlabelled, on := play(0, "build", "test"), play(1, "", ""), play(1, "build", "test")
	if 3*on.Wait.Mean > 2*off.Wait.Mean || 10*on.Pods > 11*off.Pods || 10*unlabelled.Pods < 13*off.Pods {
		t.Errorf("mean waits of %s without look-ahead and %s with, and pod time of %s, %s without labels and %s with", off.Wait.Mean, on.Wait.Mean, off.Pods, unlabelled.Pods, on.Pods)
	}
}

func TestBadCSV(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "row 1: the file is empty"},
		{"unknown column", "at,duration,colour\n", `row 1: unknown column "colour"`},
		{"missing column", "at,count\n", `row 1: column "duration" is missing`},
		{"stage of no build", "at,duration,stage\n1,2,2\n", "row 2: stage: 2 needs a build"},
		{"two times", "at,duration,build\n1,2,a\n2,2,a\n", `row 3: at: "2" is not the time of build "a"`},
		{"two cancellations", "at,duration,build,cancel\n1,2,a,5\n,2,a,6\n", `row 3: cancel: "6" differs from an earlier row of build "a"`},
		{"cancelled at once", "at,duration,cancel\n1,2,0\n", "row 2: cancel: a build cannot be"},
		{"no time", "at,duration,build\n,2,a\n", "row 2: at is missing"},
		{"column twice", "at,at,duration\n", `row 1: column "at" is there twice`},
		{"no jobs", "at,duration\n", "row 2: no job"},
		{"time", "at,duration\n0,60\nnoon,60\n", `row 3: at: "noon" is neither`},
		{"no time", "at,duration\n,60\n", "row 2: at is missing"},
		{"negative time", "at,duration\n-1,60\n", `row 2: at: "-1" is not between`},
		{"mixed times", "at,duration\n0,60\n2026-01-05T08:00:00Z,60\n", `row 3: at: "2026-01-05T08:00:00Z": earlier rows`},
		{"duration", "at,duration\n0,60\n1,60\n2,long\n", `row 4: duration: "long" is neither`},
		{"endless", "at,duration\n0,1e300\n", `row 2: duration: "1e300" is not between`},
		{"not a number", "at,duration\n0,nan\n", `row 2: duration: "nan" is not between`},
		{"count", "at,duration,count\n0,60,0\n", `row 2: count: "0" is not a number from 1 to 4000`},
		{"fails", "at,duration,fails\n0,60,x\n", `row 2: fails: "x"`},
		{"limit", "at,duration,limit\n0,60,-3\n", `row 2: limit: "-3"`},
		{"rules", "at,duration,rules\n0,60,os=linux large\n", `row 2: rules: "large" is not key=value`},
		{"label", "at,duration,label\n0,60,build\n0,60\n", "row 3: "},
		{"label twice", "at,label,duration,label\n", `row 1: column "label" is there twice`},
		{"fields", "at,duration\n0,60\n0,60,7\n", "row 3: "},
		{"quotes", "at,duration\n0,\"60\n", "row 2: "},
	} {
		workload, err := ReadCSV("jobs", strings.NewReader(test.text), "default")
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s…", test.name, err, test.want)
		}
		if len(workload.Arrivals) > 0 {
			t.Errorf("%s: %d arrivals in spite of the error", test.name, len(workload.Arrivals))
		}
	}
}
