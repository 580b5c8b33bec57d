package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// drawn is a random fleet.
type drawn struct {
	overlays []Overlay
	snapshot Snapshot
	mostJobs int // the maximum number of Jobs in one commit; zero means any number
}

// drawSmall draws up to three queues of small numbers, so that what asks for agents and
// what limits them often meet.
func drawSmall(t *rapid.T) drawn {
	now := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	tags := rapid.SampledFrom([][]string{nil, nil, {"os=linux"}, {"gpu=a100"}, {"gpu=a100", "os=linux"}})
	up := func(most int, what string) int { return rapid.IntRange(0, most).Draw(t, what) }
	chance := func(one int, what string) bool { return rapid.IntRange(0, one).Draw(t, what) == one }
	ago := func(what string, minutes ...int) time.Time {
		return now.Add(-time.Duration(rapid.SampledFrom(minutes).Draw(t, what)) * time.Minute)
	}
	d := drawn{snapshot: Snapshot{At: now}}
	queue := rapid.SampledFrom([]string{"default", "other", "third"}[:rapid.SampledFrom([]int{1, 2, 3}).Draw(t, "queues")])
	clusters, names := []string{""}, []string{""}
	if chance(3, "clusters") {
		clusters, names = []string{"c1"}, []string{"", "", "build", "c1", "nowhere"}
		if chance(1, "second cluster") {
			clusters, names = []string{"c1", "c2"}, []string{"build", "c1", "c2", "deploy", ""}
		}
		for i, id := range clusters {
			for _, key := range []string{"default", "other", "third"} {
				d.snapshot.Queues = append(d.snapshot.Queues, Queue{Cluster: id, ClusterName: []string{"build", "deploy"}[i], Key: key, Paused: chance(9, "queue paused")})
			}
		}
	}
	for i := range 1 + up(3, "overlays") {
		p := Policy{
			Queue: queue.Draw(t, "queue"), Cluster: rapid.SampledFrom(names).Draw(t, "policy's cluster"), Tags: tags.Draw(t, "tags"),
			Min: max(0, up(7, "min")-3), Max: up(10, "max"), Buffer: max(0, up(5, "buffer")-2), Priority: up(2, "priority"),
			Lookahead: rapid.SampledFrom([]float64{0, 0, 0.5, 1}).Draw(t, "lookahead"),
			Lease:     lease, IdleTimeout: 5 * time.Minute, WarmIdleTimeout: time.Hour, Paused: chance(6, "paused"),
		}
		if chance(2, "reuse") {
			p.Reuse = Reuse{Idle: time.Duration(1+up(5, "idle")) * time.Minute, Uptime: time.Hour, Auto: chance(1, "idle: auto")}
		}
		o := Overlay{Name: string(rune('a' + i)), Policy: p}
		drawStartupTimes(t, &o, now)
		if o.Policy.LeaseAuto && chance(1, "many") { // more than the first agents
			o.Policy.Max, o.Policy.Buffer = FirstAgents+4, FirstAgents-1
		}
		if chance(3, "template") {
			o.Template = "new"
		}
		if chance(4, "identity") {
			o.Identity.ID = "id" + o.Name
			o.State.Identity = o.Identity
			if chance(3, "copy") {
				o.Identity.CopiedFrom = "former"
			}
		}
		if chance(4, "limited per hour") {
			o.Policy.MaxPerHour = 1 + up(5, "maxPerHour")
			o.State.Ordered = []Ordered{{At: ago("ordered", 70, 59, 20), Agents: up(4, "ordered agents")}}
		}
		if chance(3, "override") {
			o.Policy.Overrides = []Override{drawOverride(t, now), drawOverride(t, now)}[:1+up(1, "overrides")]
		}
		if p.Lookahead > 0 && chance(1, "looked ahead before") {
			o.State.LookedAhead = ago("lookedAhead", 20, 8, 3)
		}
		if p.Lookahead > 0 && chance(1, "in part") {
			o.State.Partial = Partial{Until: ago("until", 15, 5, 1), Agents: 1 + up(3, "agents in part")}
		}
		for k := range max(0, up(4, "dispatches")-2) {
			at := ago("age", 1, 10, 16, 18)
			var told []string // nil stands for the policy's
			if chance(1, "other tags") {
				told = append([]string{"queue=" + p.Queue, "overlay=" + o.Name}, tags.Draw(t, "dispatch's tags")...)
				if chance(1, "former identity") {
					told = append(told, "muster=former")
				}
			}
			o.Dispatches = append(o.Dispatches, Dispatch{ID: fmt.Sprintf("%s-%d", o.Name, k), Purpose: ForDemand, Agents: 1 + up(2, "agents"),
				Tags: told, At: at, NotAfter: at.Add(lease), Cluster: rapid.SampledFrom([]string{p.Cluster, p.Cluster, "former"}).Draw(t, "dispatch's cluster")})
		}
		if chance(15, "invalid") {
			o.Suspended = Suspension{Code: Invalid}
		}
		d.overlays = append(d.overlays, o)
	}
	for i := range up(6, "connected") {
		d.snapshot.Agents = append(d.snapshot.Agents, d.drawAgent(t, i, queue.Draw(t, "agent's queue"), rapid.SampledFrom(clusters).Draw(t, "agent's cluster"), tags.Draw(t, "agent's tags")))
		if a := d.snapshot.Agents[i]; a.State == AgentIdle && chance(9, "took a job") {
			d.snapshot.Sightings = append(d.snapshot.Sightings, Sighting{Agent: a.ID, Running: true})
		}
	}
	for i := range up(8, "jobs") {
		j := drawJob(t, i, now)
		if j.Cluster = rapid.SampledFrom(clusters).Draw(t, "job's cluster"); chance(9, "in no cluster") {
			j.Cluster = ""
		}
		j.State = rapid.SampledFrom([]JobState{JobPending, JobPending, JobPending, JobUpcoming, JobUpcoming, JobLimited, JobBlocked}).Draw(t, "job state")
		j.Created = ago("created", 15, 5, 1)
		if j.Rules[0] = "queue=" + queue.Draw(t, "job's queue"); chance(1, "any queue") {
			j.Rules[0] = "queue=*"
		}
		d.drawMoment(t, &j)
		d.snapshot.Jobs = append(d.snapshot.Jobs, j)
	}
	return d
}

// drawOverride draws an override that is in force, or that has just ended.
func drawOverride(t *rapid.T, now time.Time) Override {
	number := func(most int, what string) *int {
		if n := rapid.IntRange(-most-1, most).Draw(t, what); n >= 0 {
			return &n
		}
		return nil
	}
	return Override{
		Until: now.Add(time.Duration(rapid.SampledFrom([]int{60, 1, 0}).Draw(t, "until")) * time.Minute),
		Min:   number(3, "min"), Max: number(6, "max"), Buffer: number(3, "buffer"), MaxPerHour: number(4, "maxPerHour"),
		Paused: rapid.IntRange(0, 9).Draw(t, "paused") == 9,
	}
}

// drawAgent draws an agent of an overlay or of nobody's.
func (d drawn) drawAgent(t *rapid.T, i int, queue, cluster string, tags []string) Agent {
	now := d.snapshot.At
	up := func(most int, what string) int { return rapid.IntRange(0, most).Draw(t, what) }
	a := Agent{ID: fmt.Sprint("agent-", i), Cluster: cluster, Tags: append([]string{"queue=" + queue}, tags...),
		State: rapid.SampledFrom([]AgentState{AgentIdle, AgentIdle, AgentIdle, AgentIdle, AgentBusy, AgentStopping}).Draw(t, "state")}
	if a.State == AgentIdle {
		a.IdleSince = now.Add(-time.Duration(rapid.SampledFrom([]int{1, 30, 45, 50, 56, 59}).Draw(t, "idle since")) * time.Minute)
		if up(5, "had a job") == 0 {
			a.LastJobFinished = now.Add(-time.Duration(rapid.SampledFrom([]int{60, 180}).Draw(t, "finished")) * time.Second)
		}
	}
	owner := up(len(d.overlays), "owner")
	if owner == len(d.overlays) {
		return a
	}
	o := d.overlays[owner]
	if up(3, "another queue") < 3 {
		a.Tags[0] = "queue=" + o.Policy.Queue
	}
	home := cmp.Or(map[string]string{"": "c1", "build": "c1", "deploy": "c2"}[o.Policy.Cluster], o.Policy.Cluster)
	switch up(6, "kind") {
	case 6: // of an identity that the overlay had, or of the overlay that it was copied from
		tags, of := append(a.Tags, "overlay="+o.Name, "muster=former"), "gone"
		if k := slices.IndexFunc(o.Dispatches, func(x Dispatch) bool { return slices.Contains(x.Tags, "muster=former") }); k >= 0 {
			tags, of = o.Dispatches[k].Tags, o.Dispatches[k].ID
			if cluster != "" {
				a.Cluster = home
			}
		}
		a.Tags = slices.Concat(tags, []string{"dispatch=" + of, fmt.Sprint("index=", up(2, "former index"))})
	case 0: // tagged before the policy was edited
		a.Tags = append(a.Tags, "overlay="+o.Name, "dispatch=gone", fmt.Sprint("index=", i))
	case 1: // another fleet's
		a.Tags = slices.Concat(a.Tags, []string{"overlay=" + rapid.SampledFrom([]string{o.Name, "elsewhere"}).Draw(t, "their overlay"), "muster=theirs", "dispatch=theirs", fmt.Sprint("index=", i)})
	case 2, 3: // the warm pool's
		a.Tags = slices.Concat(o.AgentTags(), []string{"muster-warm=3600", "dispatch=gone-warm", fmt.Sprint("index=", i)})
	default:
		if cluster != "" {
			a.Cluster = home
		}
		a.Tags = slices.Concat(o.AgentTags(), []string{fmt.Sprintf("dispatch=%s-%d", o.Name, up(1, "of")), fmt.Sprint("index=", up(2, "index"))})
	}
	if up(3, "stays") == 0 {
		a.Tags = append(a.Tags, "muster-uptime=1800")
		if n := up(2, "template"); n > 0 {
			a.Tags = append(a.Tags, "muster-template="+[]string{"old", "new"}[n-1])
		}
		if minutes := rapid.SampledFrom([]int{0, 1, 10, 20, 24, 25, 26, 30, 40}).Draw(t, "connected"); minutes > 0 {
			a.Connected = now.Add(-time.Duration(minutes) * time.Minute)
		}
	}
	return a
}

// String is what was drawn, as YAML.
func (d drawn) String() string { return described(d.overlays, d.snapshot) }

func described(parts ...any) string {
	text, err := yaml.Marshal(parts)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func drawJob(t *rapid.T, i int, now time.Time) Job {
	rules := rapid.SampledFrom([][]string{nil, nil, {"os=linux"}, {"os=*"}, {"gpu=a100"}, {"os=linux", "gpu=*"}, {"os=windows"}}).Draw(t, "rules")
	return Job{ID: fmt.Sprint("job-", i), Rules: append([]string{"queue=default"}, rules...), Since: now,
		State: rapid.SampledFrom([]JobState{JobPending, JobPending, JobPending, JobUpcoming, JobLimited, JobBlocked}).Draw(t, "job state")}
}

// decide returns the decisions on the fleet after earlier snapshots.
func (d drawn) decide(earlier ...Snapshot) []Decision {
	var r Registrations
	for _, s := range slices.Concat(earlier, []Snapshot{d.snapshot}) {
		r.Note(s)
		r.Reconcile(d.overlays, s.At)
	}
	var all []Decision
	for _, o := range Observe(d.overlays, d.snapshot, &r) {
		for i := range o.Overlays {
			o.Overlays[i].MaxJobs = d.mostJobs
		}
		all = append(all, Decide("c0ffee", d.overlays, o)...)
	}
	return all
}

func ordered(decisions []Decision) int {
	n := 0
	for _, d := range decisions {
		n += d.Figures.Dispatch
	}
	return n
}

// drawMoment draws what is known of when an upcoming job can run, and what overlays
// remember of its stage.
func (d drawn) drawMoment(t *rapid.T, j *Job) {
	stage := rapid.SampledFrom([]string{"", "", "one", "two", "three"}).Draw(t, "stage")
	if j.State != JobUpcoming || stage == "" {
		return
	}
	j.Stage, j.Freed = stage, rapid.Bool().Draw(t, "freed")
	j.Expected = rapid.Bool().Draw(t, "expected") // which changes no decision
	for _, other := range d.snapshot.Jobs {
		if other.Stage == stage {
			j.Due = other.Due
			return
		}
	}
	if seconds := rapid.SampledFrom([]int{0, -30, 75, 76, 600}).Draw(t, "due"); seconds != 0 {
		j.Due = d.snapshot.At.Add(time.Duration(seconds) * time.Second)
	}
	for i := range d.overlays {
		if o := &d.overlays[i]; o.Policy.Lookahead > 0 && rapid.IntRange(0, 2).Draw(t, "remembers") == 0 {
			o.State.AheadOf = append(slices.Clip(o.State.AheadOf), AheadOf{
				Stage: nameOf(*j), Agents: rapid.IntRange(1, 3).Draw(t, "agents ahead"),
				At: d.snapshot.At.Add(-time.Duration(rapid.SampledFrom([]int{1, 1, 4, 5, 10, 20}).Draw(t, "minutes ahead")) * time.Minute),
			})
		}
	}
}
