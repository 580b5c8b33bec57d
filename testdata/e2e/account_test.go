package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"time"
)

// row is a dispatch of the ledger.
type row struct {
	Act        string    `json:"operation"`
	At         time.Time `json:"at"`
	Agents     int       `json:"agents"`
	Dispatches []string  `json:"dispatches"`
	Outcome    *struct {
		State      string `json:"state"`
		Registered int    `json:"registered"`
		HadJob     int    `json:"hadJob"`
	} `json:"outcome"`
}

// ledger is what muster history says of the overlay, the oldest first.
func (v *overlay) ledger() []row {
	v.t.Helper()
	cmd := exec.Command(v.suite.muster, "history", v.name, "--repo", v.git.url, "--output", "json", "--limit", "0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	v.must(err)
	var all struct {
		Rows []row `json:"rows"`
	}
	v.must(json.Unmarshal(out, &all))
	slices.Reverse(all.Rows)
	return all.Rows
}

// dispatches are the orders of the ledger.
func (v *overlay) dispatches() []row {
	return slices.DeleteFunc(v.ledger(), func(r row) bool { return r.Act != "dispatch" })
}

// account holds the ledger against the cluster's own events and Buildkite, Job by
// Job: every dispatch was one Job once, of so many agents as the ledger says; no job
// of Buildkite ran twice; nobody was killed.
func (v *overlay) account() {
	v.t.Helper()
	seen := v.events.jobsOf(v.name)
	for _, r := range v.dispatches() {
		completions, registered := 0, 0
		for _, name := range r.Dispatches {
			if lives := seen[name]; len(lives) != 1 {
				v.t.Errorf("%s: the cluster has had %d Jobs %s, and the ledger ordered one", v.name, len(lives), name)
			} else {
				completions += lives[0].Completions
			}
			delete(seen, name)
			registered += len(v.buildkite.agentsOf(name))
		}
		if completions != r.Agents {
			v.t.Errorf("%s: the ledger says %d agents of %v, the cluster %d", v.name, r.Agents, r.Dispatches, completions)
		}
		if r.Outcome != nil && r.Outcome.State == "retired" && r.Outcome.Registered != registered {
			v.t.Errorf("%s: the ledger says that %d agents of %v had registered, Buildkite says %d", v.name, r.Outcome.Registered, r.Dispatches, registered)
		}
	}
	for name := range seen {
		v.t.Errorf("%s: the cluster had the Job %s, which the ledger does not know", v.name, name)
	}
	v.nobodyKilled()
	v.onceEachJob()
}

// onceEachJob fails for each job of Buildkite that ran twice or has failed.
func (v *overlay) onceEachJob() {
	v.t.Helper()
	for _, j := range v.buildkite.jobsOf(v.name) {
		if j.Attempt > 0 || j.State == "failed" {
			v.t.Errorf("%s: job %s is %s in attempt %d", v.name, j.ID, j.State, j.Attempt)
		}
	}
}

// oneForEachJob fails where not as many agents were ordered as there were jobs.
func (v *overlay) oneForEachJob() {
	v.t.Helper()
	if agents, jobs := agentsOrdered(v), len(v.buildkite.jobsOf(v.name)); agents != jobs {
		v.t.Errorf("%s: %d agents were ordered for %d jobs", v.name, agents, jobs)
	}
}

// nobodyKilled fails for each pod that was ended while it ran and should not have
// been.
func (v *overlay) nobodyKilled() {
	v.t.Helper()
	for _, k := range v.events.killedOf(v.name) {
		if v.expectKills == nil || !v.expectKills(k) {
			v.t.Errorf("%s: the pod %s was killed while it ran", v.name, k.Pod.Metadata.Name)
		}
	}
}
