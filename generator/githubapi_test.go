package generator_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/github"
	"muster/gitops/github/githubtest"
	"muster/gitops/unraced"
)

// graphQL is the part of GitHub's that commits to the fleet of a bench; githubtest has
// the whole, over git.
type graphQL struct{ fleet *fleetRepository }

func (a graphQL) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Query     string
		Variables struct{ Input githubtest.CommitInput }
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := map[string]any{"data": map[string]any{"repository": map[string]any{"id": "R_1", "ref": map[string]string{"id": "REF_1"}}}}
	if in := ask.Variables.Input; strings.Contains(ask.Query, "createCommitOnBranch") {
		id, err := a.append(in)
		answer = map[string]any{"data": map[string]any{"createCommitOnBranch": map[string]any{"commit": map[string]any{"oid": id, "signature": map[string]any{"isValid": true}}}}}
		if err != nil {
			answer = map[string]any{"data": nil, "errors": []map[string]string{{"type": "STALE_DATA", "message": err.Error()}}}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (a graphQL) append(in githubtest.CommitInput) (string, error) {
	var changes []branch.Change
	for _, d := range in.FileChanges.Deletions {
		changes = append(changes, branch.Change{Path: d.Path})
	}
	for _, x := range in.FileChanges.Additions {
		content, err := base64.StdEncoding.DecodeString(x.Contents)
		if err != nil {
			return "", err
		}
		changes = append(changes, branch.Change{Path: x.Path, Content: content})
	}
	f := a.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	head := f.log[len(f.log)-1]
	if head.id != in.ExpectedHeadOid {
		return "", fmt.Errorf("expected branch to point to %q but it did not", in.ExpectedHeadOid)
	}
	c := f.next(head, "muster", changes)
	c.operation, c.body = &ledger.Operation{}, in.Message.Headline+"\n\n"+in.Message.Body
	c.text.Do(func() {})
	f.log = append(f.log, c)
	return c.id, nil
}

// day is a bench over a day, whose agents come a minute after they were ordered, each of
// which takes a job and is gone with it.
type day struct {
	*bench
	seen       int // commits whose agents have registered
	waiting    map[string]time.Time
	longest    time.Duration // that a job waited until its agent was ordered
	registered int           // jobs
	dice       *rand.Rand
}

// dayOverlays is how many overlays the day has, and interval the time between its ticks.
const (
	dayOverlays = 10
	interval    = 15 * time.Second
)

func newDay() *day {
	var names []string
	for i := range dayOverlays {
		names = append(names, fmt.Sprintf("q%02d", i))
	}
	d := &day{bench: newBench(names...), waiting: map[string]time.Time{}, dice: rand.New(rand.NewPCG(14, 2))}
	for _, o := range d.overlays {
		o.spec.max = 1000
	}
	d.fleet = newFleet(d.Now, files(d.overlays))
	return d
}

// arrive lets jobs come for so long: in two peaks of half an hour one for each queue every
// 35 seconds, in the hours of work every five minutes, else every 30.
func (d *day) arrive(since time.Duration) {
	every := 30 * time.Minute
	switch hour := d.now.Sub(scenarioStart()).Hours(); {
	case hour >= 3 && hour < 3.5, hour >= 8 && hour < 8.5:
		every = 35 * time.Second
	case hour >= 2 && hour < 11:
		every = 5 * time.Minute
	case hour >= 22: // the last are waited for
		return
	}
	for _, o := range d.overlays {
		if d.dice.Float64() >= since.Seconds()/every.Seconds() {
			continue
		}
		d.registered++
		id := fmt.Sprintf("job-%d", d.registered)
		d.waiting[id] = d.now
		d.snapshot.Jobs = append(d.snapshot.Jobs, plan.Job{ID: id, Rules: []string{"queue=" + o.name}, State: plan.JobPending, Since: d.now, URL: "https://buildkite.com/acme/1"})
	}
}

// come lets the agents come that were ordered a minute ago.
func (d *day) come() {
	for log := d.fleet.history(); d.seen < len(log) && d.now.Sub(log[d.seen].at) >= time.Minute; {
		c := log[d.seen]
		if d.seen++; c.who != "muster" {
			continue
		}
		e, err := ledger.Parse(c.message())
		if err != nil {
			panic(err)
		}
		if e.Kind != ledger.Dispatch {
			continue
		}
		queue := strings.TrimPrefix(e.Overlay, "overlays/")
		if len(d.snapshot.Sightings) > 100 {
			d.snapshot.Sightings = d.snapshot.Sightings[50:]
		}
		for _, id := range e.Dispatches {
			d.snapshot.Sightings = append(d.snapshot.Sightings, sightings(plan.Dispatch{ID: id, Agents: e.Agents / len(e.Dispatches)}, queue)...)
		}
		left := e.Agents
		d.snapshot.Jobs = slices.DeleteFunc(d.snapshot.Jobs, func(j plan.Job) bool {
			if left == 0 || j.Rules[0] != "queue="+queue {
				return false
			}
			left--
			d.longest = max(d.longest, c.at.Sub(d.waiting[j.ID]))
			return true
		})
	}
}

// play plays the day, and returns the acts that landed.
func (d *day) play(t *testing.T, repository generator.Repository) (ops int, longest time.Duration) {
	t.Helper()
	before := d.now
	d.triggers = func() {
		d.arrive(d.now.Sub(before))
		d.come()
		before = d.now
	}
	d.run(t, interval, func(_ int, r generator.Result, _ error) bool {
		ops += len(r.Operations)
		return d.now.Sub(scenarioStart()) < 24*time.Hour
	}, func(c *generator.Config) { c.Repository = repository })
	if len(d.snapshot.Jobs) > 0 {
		t.Errorf("%d of %d jobs have no agent", len(d.snapshot.Jobs), d.registered)
	}
	if strings.Contains(d.log.String(), "level=ERROR") {
		t.Errorf("the log has errors")
	}
	return ops, d.longest
}

// throughGitHub is a repository that is written through GitHub's API.
type throughGitHub struct {
	remote
	fleet generator.Fleet
}

func (g throughGitHub) Commit(ctx context.Context, head branch.Head, ops []ledger.Operation) (branch.Head, error) {
	return g.fleet.Commit(ctx, head, ops)
}

func (g throughGitHub) Limits() branch.Limits { return g.fleet.Limits() }

// onGitHub is a fleet in memory that is written through an API of GitHub's, whose only
// request that writes is a commit of plain files.
func onGitHub(t *testing.T, b *bench) (throughGitHub, *githubtest.Limiter) {
	t.Helper()
	limiter := &githubtest.Limiter{Now: b.Now}
	server := httptest.NewServer(limiter.Wrap(graphQL{b.fleet}))
	t.Cleanup(server.Close)
	w, err := github.NewWriter(github.Config{Repository: b.remote, Owner: "acme", Name: "fleet", API: server.URL, Now: b.Now,
		Token: func(context.Context) (string, error) { return "ghs_1", nil }})
	if err != nil {
		t.Fatal(err)
	}
	return throughGitHub{b.remote, generator.Fleet{Writer: w, Version: "v0"}}, limiter
}

// TestDayOnGitHub: a day that has 4,000 acts where nothing limits, in peaks beyond what
// GitHub lets anybody write in an hour. Through its API, each costs one request, none is
// refused, no overlay waits long, and every job gets its agent.
func TestDayOnGitHub(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	free := newDay()
	wanted, unlimited := free.play(t, free.remote)
	d := newDay()
	repository, limiter := onGitHub(t, d.bench)
	ops, longest := d.play(t, repository)
	peak := mostInAnHour(free.fleet)
	t.Logf("%d jobs: %d operations where nothing limits, %d in an hour at most; on GitHub %d in %d writes, %d in an hour at most, and a job waits %s at most for its order",
		d.registered, wanted, peak, ops, limiter.Writes(), mostInAnHour(d.fleet), longest)
	if wanted < 4000 || peak <= githubtest.HourContent || unlimited > interval {
		t.Errorf("the day has %d operations, %d in an hour at most, and a job waits %s: it tries nothing", wanted, peak, unlimited)
	}
	if limiter.Writes() != ops || limiter.Refused() > 0 || limiter.Early() > 0 {
		t.Errorf("%d operations took %d writes, and %d requests were refused, %d of them early", ops, limiter.Writes(), limiter.Refused(), limiter.Early())
	}
	// Each overlay has an order and a retirement in a round, and one more order where its
	// retirement alone was left by the last; six acts come in a minute.
	if round := 3*dayOverlays*time.Minute/6 + 2*interval; longest > round {
		t.Errorf("a job waited %s for its order, and one round of all takes %s", longest, round)
	}
}

// mostInAnHour is the most that muster committed in an hour.
func mostInAnHour(f *fleetRepository) int {
	var at []time.Time
	for _, c := range f.history() {
		if c.who == "muster" {
			at = append(at, c.at)
		}
	}
	most := 0
	for i := range at {
		n, _ := slices.BinarySearchFunc(at, at[i].Add(-time.Hour), func(a, b time.Time) int { return a.Compare(b) })
		most = max(most, i-n+1)
	}
	return most
}

// TestLargeOperationsOnGitHub: an order and a retirement of 200 dispatches are each split into
// operations that fit into one write request to GitHub, and every operation matches its decision.
func TestLargeOperationsOnGitHub(t *testing.T) {
	t.Parallel()
	const (
		dispatches = 200
		jobs       = dispatches * plan.JobAgents
	)
	b := newBench("a")
	b.overlays[0].spec.max = jobs
	b.fleet = newFleet(b.Now, files(b.overlays))
	b.jobs("a", jobs)
	repository, limiter := onGitHub(t, b)
	g := b.generator(func(c *generator.Config) { c.Repository = repository })
	ops, agents, retired := 0, 0, 0
	var ordered []plan.Dispatch
	for range 15 {
		r := tick(t, g)
		ops += len(r.Operations)
		for _, a := range r.Operations {
			ids, n := a.Dispatches()
			if a.Kind == ledger.Retire {
				retired += len(ids)
				continue
			}
			agents += n
			ordered = append(ordered, a.Decision.Dispatch...)
		}
		if b.now = b.now.Add(time.Minute); agents == jobs && len(b.snapshot.Jobs) > 0 { // all come
			b.snapshot.Jobs = nil
			for _, d := range ordered {
				b.snapshot.Sightings = append(b.snapshot.Sightings, sightings(d, "a")...)
			}
		}
	}
	if agents != jobs || retired != dispatches || limiter.Writes() != ops || ops != 4 {
		t.Errorf("%d operations in %d writes order %d agents and retire %d dispatches, want 4 for %d and %d", ops, limiter.Writes(), agents, retired, jobs, dispatches)
	}
	if n := verifyAll(t, b.fleet); n != ops {
		t.Errorf("%d commits are muster's, want %d", n, ops)
	}
}
