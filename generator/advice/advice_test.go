package advice_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"muster/generator/advice"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/simulation"
	"muster/gitops/unraced"
)

// question is about the hours of a generated workload, with the default policy.
func question(t *testing.T, name string, hours int) advice.Question {
	t.Helper()
	for _, l := range simulation.Loads() {
		if l.Name == name {
			w := l.Scenario(simulation.DefaultScenario())
			return advice.Question{Policy: w.Policy, Scenario: w, Workload: l.Generate(3, time.Duration(hours)*time.Hour), Workers: 2}
		}
	}
	t.Fatalf("there is no workload %s", name)
	return advice.Question{}
}

func find(t *testing.T, q advice.Question) advice.Answer {
	t.Helper()
	a, err := advice.Find(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestFrontier: no option of the frontier is as soon and as cheap as another; it has
// today's policy, or one that is better in both; and each is what a play of its policy
// comes to.
func TestFrontier(t *testing.T) {
	unraced.Only(t)
	q := question(t, "steady", 1)
	q.Reuse = true
	a := find(t, q)
	if a.Played < 15 || len(a.Frontier) < 3 {
		t.Fatalf("%d were played, %d are on the frontier", a.Played, len(a.Frontier))
	}
	for i, o := range a.Frontier {
		if i > 0 && (o.Wait.P95 >= a.Frontier[i-1].Wait.P95 || o.Pods <= a.Frontier[i-1].Pods) {
			t.Errorf("%v beats %v", o.Changes, a.Frontier[i-1].Changes)
		}
		w := q.Scenario
		w.Policy = o.Policy
		if m := simulation.Play(w, q.Workload, &simulation.Muster{}, nil); m.Wait != o.Wait || m.Pods != o.Pods {
			t.Errorf("%v: %v, and played %v", o.Changes, o.Wait, m.Wait)
		}
	}
	if !slices.ContainsFunc(a.Frontier, func(o advice.Option) bool {
		return o.Wait.P95 <= a.Today.Wait.P95 && o.Pods <= a.Today.Pods
	}) {
		t.Error("today's policy is on neither side of the frontier")
	}
}

// TestProposal: it is sooner and costs no more than is allowed; the more is allowed, the
// sooner it is. Agents that take several jobs are proposed where that is allowed.
func TestProposal(t *testing.T) {
	unraced.Only(t)
	q := question(t, "steady", 1)
	if a := find(t, q); a.Proposed != nil {
		t.Errorf("one agent for one job, and no pod more: %v cannot be better", a.Proposed.Changes)
	}
	last := time.Duration(1 << 62)
	for _, more := range []float64{0.05, 0.3} {
		q.More = more
		a := find(t, q)
		if a.Proposed == nil || a.Proposed.Policy.Reuse.On() {
			t.Fatalf("%v more: %+v", more, a.Proposed)
		}
		if float64(a.Proposed.Pods) > (1+more)*float64(a.Today.Pods) || a.Proposed.Wait.P95 >= min(last, a.Today.Wait.P95) {
			t.Errorf("%v more: %v, p95 %s", more, a.Proposed.Changes, a.Proposed.Wait.P95)
		}
		last = a.Proposed.Wait.P95
	}
	q.More, q.Reuse = 0, true
	a := find(t, q)
	if a.Proposed == nil || !a.Proposed.Policy.Reuse.On() || a.Proposed.Pods > a.Today.Pods {
		t.Errorf("with reuse: %+v", a.Proposed)
	}
	q.Policy = a.Proposed.Policy
	q.Reuse = false // it is today's already
	if again := find(t, q); again.Proposed != nil {
		t.Errorf("what was proposed is to be changed again: %v", again.Proposed.Changes)
	}
}

// TestUnserved: a policy that leaves jobs unserved is on no frontier, and any that serves
// them is proposed, whatever today's wait was.
func TestUnserved(t *testing.T) {
	load := simulation.Workload{Length: time.Hour}
	for i := range 8 {
		load.Arrivals = append(load.Arrivals, simulation.Arrival{
			At: time.Duration(i) * time.Minute, Build: fakebuildkite.Build{Steps: []fakebuildkite.Step{{Duration: 90 * time.Minute}}},
		})
	}
	w := simulation.DefaultScenario()
	w.Policy.Max = 1
	a := find(t, advice.Question{Policy: w.Policy, Scenario: w, Workload: load, Reuse: true, Workers: 2})
	if a.Today.Unserved == 0 || len(a.Frontier) > 0 || a.Proposed != nil {
		t.Errorf("%d were not served; %d on the frontier", a.Today.Unserved, len(a.Frontier))
	}
}

// TestCanceled: the context ends it.
func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := advice.Find(ctx, question(t, "steady", 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestForAnotherDay: what is proposed of one day's commits serves another day sooner, for
// no more than a twentieth beyond its pod time; and a workload of one day only has none.
func TestForAnotherDay(t *testing.T) {
	unraced.Only(t)
	q := question(t, "short-calm", 1)
	c := simulation.Case{Scenario: q.Scenario, Workload: q.Workload}
	p, err := advice.ForAnotherDay(t.Context(), c, q.Scenario)
	if err != nil || p == nil {
		t.Fatalf("nothing is proposed: %v", err)
	}
	before := simulation.Play(c.Scenario, c.Workload, &simulation.Muster{}, nil)
	c.Scenario.Policy = *p
	after := simulation.Play(c.Scenario, c.Workload, &simulation.Muster{}, nil)
	if after.Wait.P95 >= before.Wait.P95 || float64(after.Pods) > 1.05*float64(before.Pods) {
		t.Errorf("p95 %s, and was %s; pods %s, and were %s", after.Wait.P95, before.Wait.P95, after.Pods, before.Pods)
	}
	c.Workload.Again = nil
	if p, err := advice.ForAnotherDay(t.Context(), c, q.Scenario); p != nil || err != nil {
		t.Errorf("%v, %v", p, err)
	}
}
