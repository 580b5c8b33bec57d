package main

import (
	"bytes"
	"io"
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
	"muster/gitops/canarytest"
)

// TestSayOnJobsOfARun: the program as it is says on a job's page which dispatch was ordered.
func TestSayOnJobsOfARun(t *testing.T) {
	t.Parallel()
	k := thisClock(t)
	k.start(nil, "--agent-token-file", agentTokenFile(t), "--agent-endpoint", k.api.URL, "--webhook-interval", "1s", "--say-on-jobs", "--log-level", "debug")
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
}

// pagesOf is a Buildkite with a queue and some jobs, what speaks there, and what it counted.
func pagesOf(t *testing.T, jobs int) (*fakebuildkite.Server, *jobPages, *bytes.Buffer, map[string]int) {
	s := fakebuildkite.New(fakebuildkite.Options{Now: time.Now()})
	c := s.AddCluster("ci")
	s.AddQueue(c, "default")
	s.AddAgentToken(c, canarytest.AgentToken)
	s.CreateBuild(fakebuildkite.Build{Cluster: c, Steps: []fakebuildkite.Step{{Parallelism: jobs}}})
	stacks, err := buildkite.NewStacks(buildkite.StacksConfig{Key: "muster-test", Clock: s, AgentConfig: buildkite.AgentConfig{
		Org: "acme", HTTP: s.Transport(), Tokens: []func() (string, error){func() (string, error) { return canarytest.AgentToken, nil }},
	}})
	if err != nil {
		t.Fatal(err)
	}
	counted, log := map[string]int{}, &bytes.Buffer{}
	return s, newJobPages(stacks, canarytest.Log(func(text string) { t.Error(text) }, slog.New(slog.NewTextHandler(log, nil))), time.Now, func(result string, n int) { counted[result] += n }), log, counted
}

// ordered is a tick that ordered agents; live are dispatches that were in git before.
func ordered(s *fakebuildkite.Server, id string, agents int, live ...string) generator.Report {
	o := plan.Overlay{Name: "default", Policy: plan.Policy{Queue: "default"}}
	for _, l := range live {
		o.Dispatches = append(o.Dispatches, plan.Dispatch{ID: l})
	}
	r := generator.Report{Result: generator.Result{Looked: generator.Looked{Overlays: []plan.Overlay{o}, Snapshot: s.Snapshot(time.Time{})}}}
	r.Result.Operations = []ledger.Operation{{Kind: ledger.Dispatch, Decision: plan.Decision{Overlay: "default", Dispatch: []plan.Dispatch{
		{ID: id, Agents: agents, Purpose: plan.ForDemand, At: time.Now()}, {ID: id + "-warm", Agents: 5, Purpose: plan.ForWarmPool, At: time.Now()},
	}}}}
	return r
}

// TestJobPages: a job is told of one dispatch while that may serve it, and of another once
// it is gone; what cannot be said is counted, and tried again for other dispatches.
func TestJobPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, log, counted := pagesOf(t, 3)
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
		if counted[noteSent] != 6 || counted[noteFailed] != 2 || strings.Count(log.String(), "jobs' pages are not told") != 1 {
			t.Errorf("%v\n%s", counted, log)
		}
	})
}

// TestSayFlags: what --say-on-jobs needs.
func TestSayFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--say-on-jobs":        "--say-on-jobs: which agent token? give --agent-token-file",
		"--say-on-jobs --once": "leave out --say-on-jobs",
	} {
		var out bytes.Buffer
		p := program{
			args: append([]string{"run", "--repo", "https://git.invalid/fleet.git", "--buildkite-org", "acme"}, strings.Fields(args)...), stdout: io.Discard, stderr: &out,
			clock: stoppedClock{start}, environ: []string{"BUILDKITE_API_TOKEN=" + canarytest.BuildkiteToken},
		}
		if code := p.run(t.Context()); code != exitUsage || !strings.Contains(out.String(), want) {
			t.Errorf("run %s: %d %s", args, code, &out)
		}
	}
}
