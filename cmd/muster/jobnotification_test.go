package main

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/leaktest"
)

// agentTokenFile returns a file with the agents' token.
func agentTokenFile(t *testing.T) string {
	t.Helper()
	return tempFile(t, "agent-token", leaktest.AgentToken+"\n")
}

// TestRunNotifiesJobs asserts that run ticks when the metrics show more jobs, and shows on each
// job's page which dispatch was ordered. The interval is a day, so that only the metrics can
// trigger the second tick.
func TestRunNotifiesJobs(t *testing.T) {
	t.Parallel()
	k := thisClock(t)
	k.start([]string{"MUSTER_AGENT_TOKEN_FILE=" + agentTokenFile(t)}, "--agent-endpoint", k.api.URL+"/v3", "--webhook-interval", "1s", "--say-on-jobs", "--log-level", "debug")
	k.says("nothing to do")
	k.addBuild(2)
	k.says("agents=2")
	until(func() bool { return len(k.buildkite.Notes(k.buildkite.Jobs()[0].ID)) > 0 })
	k.stop()
	for _, j := range k.buildkite.Jobs() {
		notes := k.buildkite.Notes(j.ID)
		if len(notes) != 1 || !strings.HasPrefix(notes[0].Detail, "muster ordered agents for jobs like this one at ") || !strings.Contains(notes[0].Detail, ": dispatch default-") {
			t.Errorf("%v", notes)
		}
	}
	if text := k.process.text(); strings.Contains(text, leaktest.AgentToken) {
		t.Error(text)
	}
}

// ordered returns the report of a tick that ordered agents; live are earlier dispatches in git.
func ordered(s *fakebuildkite.Server, id string, agents int, live ...string) generator.Report {
	o := plan.Overlay{Name: "default", Policy: plan.Policy{Queue: "default"}}
	for _, l := range live {
		o.Dispatches = append(o.Dispatches, plan.Dispatch{ID: l})
	}
	r := generator.Report{Result: generator.Result{Input: generator.Input{Overlays: []plan.Overlay{o}, Snapshot: s.Snapshot(time.Time{})}}}
	r.Result.Operations = []ledger.Draft{{Kind: ledger.Dispatch, Decision: plan.Decision{Overlay: "default", Dispatch: []plan.Dispatch{
		{ID: id, Agents: agents, Purpose: plan.ForDemand, At: time.Now()}, {ID: id + "-warm", Agents: 5, Purpose: plan.ForWarmPool, At: time.Now()},
	}}}}
	return r
}

// TestJobNotifier asserts that a job is notified of one dispatch while that may serve it, and of
// another afterwards; and that failed notifications are counted, and followed by a pause.
func TestJobNotifier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakebuildkite.New(fakebuildkite.Options{Now: time.Now()})
		c := s.AddCluster("ci")
		s.AddQueue(c, "default")
		s.AddAgentToken(c, leaktest.AgentToken)
		s.CreateBuild(fakebuildkite.Build{Cluster: c, Steps: []fakebuildkite.Step{{Parallelism: 3}}})
		stacks, err := buildkite.NewStacks(buildkite.StacksConfig{Key: "muster-test", Clock: s, AgentConfig: buildkite.AgentConfig{
			Org: "acme", HTTP: s.Transport(), Tokens: []func() (string, error){func() (string, error) { return leaktest.AgentToken, nil }},
		}})
		check(t, err)
		counted, log := map[string]int{}, &bytes.Buffer{}
		censored := leaktest.Log(func(text string) { t.Error(text) }, slog.New(slog.NewTextHandler(log, nil)))
		p := newJobNotifier(stacks, censored, time.Now, func(result string, n int) { counted[result] += n })
		defer p.start(t.Context())()
		tick := func(r generator.Report) {
			p.Ended(r)
			synctest.Wait()
		}
		dry := ordered(s, "default-0", 2)
		dry.DryRun = true
		tick(dry)
		tick(ordered(s, "default-1", 2))
		tick(ordered(s, "default-2", 2, "default-1"))
		tick(ordered(s, "default-3", 3, "default-2"))
		var got []string
		for _, j := range s.Jobs() {
			for _, n := range s.Notes(j.ID) {
				_, after, _ := strings.Cut(n.Detail, "dispatch ")
				got = append(got, after[:len("default-1")])
			}
			got = append(got, "|")
		}
		if text := strings.Join(got, " "); text != "default-1 default-3 | default-1 default-3 | default-2 |" || counted[noteSent] != 5 || counted[noteFailed] != 0 {
			t.Errorf("%s, %v", text, counted)
		}
		s.Fail(fakebuildkite.Fault{Path: "notifications", Status: http.StatusInternalServerError})
		tick(ordered(s, "default-4", 1))
		tick(ordered(s, "default-5", 1))
		time.Sleep(silence)
		tick(ordered(s, "default-6", 1))
		if counted[noteSent] != 6 || counted[noteFailed] != 2 || strings.Count(log.String(), "job notifications cannot be sent") != 1 {
			t.Errorf("%v\n%s", counted, log)
		}
	})
}
