package history_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/generator/simulation"
	"muster/gitops/branch"
	"muster/gitops/unraced"
)

// day is a simulated day of one overlay: muster decides every 15 seconds, people edit its policy, some
// agents never register. It records what happened independently of muster.
type day struct {
	t         *testing.T
	days      int
	jobs      []fakebuildkite.JobRecord   // when all is over
	agents    []fakebuildkite.AgentRecord // likewise
	buildkite *fakebuildkite.Server
	cluster   *simulation.Cluster
	muster    simulation.Muster
	overlay   plan.Overlay
	policy    string

	commits []branch.Commit // the oldest first
	edits   map[string]branch.Edits
	ticks   []time.Time
	orders  map[string]*order // by dispatch
	books   books
}

// order is the true outcome of one dispatch.
type order struct {
	plan.Dispatch
	registered []time.Time
	worked     int // agents that had had a job by the time that it was retired
	retired    bool
}

// books are sums over the day.
type books struct{ orders, agents, retires, edits int }

const policyText = "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec:\n  queue: default\n  max: %d\n  buffer: %d\n  paused: %t\n"

// newDay is a day of a seed, or several.
func newDay(t *testing.T, seed uint64, days int) *day {
	d := &day{t: t, days: days, edits: map[string]branch.Edits{}, orders: map[string]*order{}, overlay: plan.Overlay{Name: "default"}}
	random := rand.New(rand.NewPCG(seed, 1))
	d.buildkite = fakebuildkite.New(fakebuildkite.Options{Now: simulation.Start(), OnAgentEnd: func(a fakebuildkite.AgentRecord) { d.cluster.AgentEnded(a) }})
	home := d.buildkite.AddCluster("ci")
	d.buildkite.AddQueue(home, "default")
	d.buildkite.SetDefaultQueue(home, "default")
	d.cluster = &simulation.Cluster{
		Buildkite: d.buildkite, BuildkiteCluster: home,
		Fate: simulation.Faults{NoShow: 0.1}.Fates([2]time.Duration{20 * time.Second, 200 * time.Second}, random),
		Registered: func(p *simulation.Pod) {
			d.orders[p.Job.Name].registered = append(d.orders[p.Job.Name].registered, d.buildkite.Now())
		},
	}
	for minute := range days * 24 * 60 {
		if random.IntN(6) > 0 {
			continue
		}
		b := fakebuildkite.Build{Cluster: home, Steps: []fakebuildkite.Step{{Label: "test", Parallelism: 1 + random.IntN(12), Duration: time.Duration(1+random.IntN(900)) * time.Second}}}
		d.buildkite.At(simulation.Start().Add(time.Duration(minute)*time.Minute), func() { d.buildkite.CreateBuild(b) })
	}
	return d
}

// length is that of the days, and hours after them.
func (d *day) length() time.Duration { return time.Duration(d.days)*24*time.Hour + 2*time.Hour }

// play plays the days, and the hours after them.
func (d *day) play() {
	d.edit("Ada", fmt.Sprintf(policyText, 10, 0, false), "Begin")
	for at := simulation.Start(); at.Before(simulation.Start().Add(d.length())); at = at.Add(15 * time.Second) {
		d.buildkite.AdvanceTo(at)
		since := at.Sub(simulation.Start())
		max := 40 + int(since/(24*time.Hour))
		switch hour := since % (24 * time.Hour); {
		case since == time.Duration(d.days)*24*time.Hour:
			d.edit("Ada", fmt.Sprintf(policyText, max-1, 2, true), "Close for the night")
		case since > time.Duration(d.days)*24*time.Hour:
		case hour == 8*time.Hour:
			d.edit("Ada", fmt.Sprintf(policyText, max, 2, false), "Raise max for the day")
		case hour == 12*time.Hour:
			d.edit("Bob", fmt.Sprintf(policyText, max, 2, true), "Pause")
		case hour == 12*time.Hour+30*time.Minute:
			d.edit("Bob", fmt.Sprintf(policyText, max, 2, false), "Revert \"Pause\"\n\nThis reverts commit "+d.commits[len(d.commits)-1].ID+".")
		}
		d.tick(at)
		if at.Unix()%30 == 0 {
			for _, x := range d.overlay.Dispatches {
				if !d.cluster.Created(x.ID) {
					d.cluster.Run(simulation.Job{Name: x.ID, Agents: x.Agents, NotAfter: x.NotAfter, IdleTimeout: x.IdleTimeout, Tags: x.PodTags()})
				}
			}
		}
	}
	d.jobs, d.agents = d.buildkite.Jobs(), d.buildkite.Agents()
}

func (d *day) commit(author, message string, at time.Time) string {
	c := branch.Commit{ID: fmt.Sprintf("%040x", len(d.commits)+1), Author: author, Email: strings.ToLower(author) + "@example.com", At: at, Message: message}
	if n := len(d.commits); n > 0 {
		c.Parents = []string{d.commits[n-1].ID}
	}
	d.commits = append(d.commits, c)
	return c.ID
}

func (d *day) edit(author, text, message string) {
	p, err := policy.Parse("scaling.yaml", []byte(text))
	check(d.t, err)
	id := d.commit(author, message+"\n", d.buildkite.Now())
	d.edits[id] = branch.Edits{Files: []branch.Edit{{Path: "overlays/default/scaling.yaml", Added: d.policy == "", Before: []byte(d.policy), After: []byte(text)}}}
	d.overlay.Policy, d.policy = p, text
	d.books.edits++
}

func (d *day) tick(at time.Time) {
	d.ticks = append(d.ticks, at)
	look := func(since time.Time) (plan.Snapshot, error) { return d.buildkite.Snapshot(since), nil }
	op := d.muster.Tick(simulation.View{At: at, Head: d.commits[len(d.commits)-1].ID, Overlay: d.overlay, Poll: look})
	if op.Commits == 0 {
		return
	}
	a := ledger.Draft{Kind: ledger.Dispatch, Path: "overlays/default", Base: "c0ffee", Decision: *op.Decision}
	if len(op.Order) > 0 {
		d.commit("muster", ledger.Message(a, "v0.3.0"), at)
		d.books.orders++
	}
	for _, x := range op.Order {
		d.orders[x.ID] = &order{Dispatch: x}
		d.books.agents += x.Agents
	}
	if len(op.Retire) > 0 {
		a.Kind = ledger.Retire
		d.commit("muster", ledger.Message(a, "v0.3.0"), at)
		d.books.retires++
	}
	for _, id := range op.Retire {
		d.orders[id].retired = true
	}
	d.overlay.Dispatches = slices.DeleteFunc(slices.Concat(d.overlay.Dispatches, op.Order), func(x plan.Dispatch) bool { return slices.Contains(op.Retire, x.ID) })
	if len(op.Retire) == 0 {
		return
	}
	for _, r := range d.buildkite.Agents() {
		for _, id := range op.Retire {
			if slices.Contains(r.Tags, "dispatch="+id) && (r.Jobs > 0 || r.Job != "") {
				d.orders[id].worked++
			}
		}
	}
	slices.SortFunc(d.overlay.Dispatches, func(a, b plan.Dispatch) int { return strings.Compare(a.ID, b.ID) })
	d.overlay.State = op.State
}

// noticed is when muster could first observe an event.
func (d *day) noticed(at time.Time) time.Time {
	i, _ := slices.BinarySearchFunc(d.ticks, at, time.Time.Compare)
	return d.ticks[i]
}

// editsOf returns the edits of commits of people.
func (d *day) editsOf(commits []branch.Commit, _ map[string]string) ([]branch.Edits, error) {
	var all []branch.Edits
	for _, x := range commits {
		all = append(all, d.edits[x.ID])
	}
	return all, nil
}

// read reads the day back from its commits.
func (d *day) read() ([]ledger.Operation, history.Count) {
	var count history.Count
	c := history.Config{Overlays: "overlays", Now: d.buildkite.Now(), Count: &count, Edits: d.editsOf}
	var rows []ledger.Operation
	for row, err := range c.Rows(ledger.Read("overlays", newestFirst(d.commits))) {
		check(d.t, err)
		rows = append(rows, row)
	}
	return rows, count
}

func newestFirst(commits []branch.Commit) iter.Seq2[branch.Commit, error] {
	return func(yield func(branch.Commit, error) bool) {
		for _, c := range slices.Backward(commits) {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// TestHistoryAndReportOfThreeDays plays three days, and compares every figure of their history and
// of their report with what happened.
func TestHistoryAndReportOfThreeDays(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	d := newDay(t, 1, 3)
	d.play()
	rows, count := d.read()
	if want := (history.Count{Commits: len(d.commits), Muster: d.books.orders + d.books.retires, Others: d.books.edits}); count != want {
		t.Errorf("counted %+v, want %+v", count, want)
	}
	digest := history.Digest{By: history.Overlay}
	for _, row := range rows {
		digest.Add(row)
		d.compare(row)
	}
	d.compareTotal(digest)
	d.compareEdits(rows)
	d.compareReports()
	var lost, worked int
	for _, x := range d.orders {
		lost += x.Agents - len(x.registered)
		if x.worked > 0 {
			worked++
		}
	}
	if d.books.orders < 50 || lost < 10 || worked < 10 || worked == len(d.orders) {
		t.Errorf("a day that shows little: %+v, %d lost, %d of %d worked", d.books, lost, worked, len(d.orders))
	}
}

// compare compares a dispatch's row with its true outcome.
func (d *day) compare(row ledger.Operation) {
	if row.Kind != ledger.Dispatch {
		return
	}
	var agents, came int
	var first, last time.Time
	worked, retired := 0, true
	for _, id := range row.Dispatches() {
		x := d.orders[id]
		agents += x.Agents
		came += len(x.registered)
		worked, retired = worked+x.worked, retired && x.retired
		for _, at := range x.registered {
			if first.IsZero() || at.Before(first) {
				first = at
			}
			if at.After(last) {
				last = at
			}
		}
	}
	// compareReport compares those without a job.
	want := ledger.Outcome{State: ledger.Retired, Registered: came, HadJob: worked, Unused: row.Outcome.Unused}
	after := func(at time.Time) *int { n := int(d.noticed(at).Sub(row.At) / time.Second); return &n }
	if came > 0 {
		want.FirstAfter = after(first)
	}
	if came == agents {
		want.AllAfter = after(last)
	}
	if !retired {
		d.t.Errorf("%s: not retired hours after the day", row.Dispatches())
	}
	if diff := cmp.Diff(want, *row.Outcome); row.Agents() != agents || diff != "" {
		d.t.Errorf("%s %s: %d agents, want %d (-want +got)\n%s", row.At, row.Dispatches(), row.Agents(), agents, diff)
	}
}

func (d *day) compareTotal(digest history.Digest) {
	came, agents := 0, 0
	for _, x := range d.orders {
		came += len(x.registered)
		agents += x.Agents
	}
	if connected := len(d.agents); came != connected || agents != d.books.agents {
		d.t.Fatalf("the books are wrong: %d registered, Buildkite has seen %d; %d and %d agents", came, connected, agents, d.books.agents)
	}
	all := digest.Totals()
	if len(all) != 1 {
		d.t.Fatalf("totals of %d overlays", len(all))
	}
	got := all[0]
	if got.Key != "default" || got.Orders != d.books.orders || got.Agents != agents || got.Registered != came || got.Lost != agents-came ||
		got.InFlight != 0 || got.Unknown != 0 || got.Retires != d.books.retires || got.Repairs != 0 || got.Malformed != 0 || got.Edits != d.books.edits {
		d.t.Errorf("the digest is %+v; %d registered of %d, %+v", got, came, agents, d.books)
	}
}

// compareEdits compares the rows of people with their edits.
func (d *day) compareEdits(rows []ledger.Operation) {
	var got []string
	for _, r := range slices.Backward(rows) {
		if !r.Kind.Own() {
			got = append(got, fmt.Sprintf("%s %s %s: %s", r.At.Format("02 15:04"), r.Author, r.Kind, r.Why))
		}
	}
	var pauses []string
	for _, c := range d.commits {
		if c.Message == "Pause\n" {
			pauses = append(pauses, c.ID[:7])
		}
	}
	want := []string{"05 00:00 Ada create: queue default, max 10"}
	for i, pause := range pauses {
		morning := fmt.Sprintf("max %d -> %d", 39+i, 40+i)
		if i == 0 {
			morning = "max 10 -> 40, buffer 0 -> 2"
		}
		want = append(want,
			fmt.Sprintf("%02d 08:00 Ada policy: %s", 5+i, morning),
			fmt.Sprintf("%02d 12:00 Bob pause: paused false -> true", 5+i),
			fmt.Sprintf("%02d 12:30 Bob revert: reverts %s: paused true -> false", 5+i, pause))
	}
	want = append(want, fmt.Sprintf("%02d 00:00 Ada pause: paused false -> true", 5+d.days))
	if !slices.Equal(got, want) {
		d.t.Errorf("people did\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// check fails the test if err is not nil.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
