package plan

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write what was decided into the cases")

// scenario is a case of testdata/*.txtar: what there is, in a short form.
type scenario struct {
	Now      time.Time
	Overlays []struct {
		Name       string
		Queue      string
		Cluster    string
		Tags       []string
		Min        int
		Max        int
		Buffer     int
		Lookahead  float64
		Priority   int
		Paused     bool
		Invalid    string
		Refused    string
		Template   string
		Fleet      string
		Former     []string
		MaxPerHour int
		Auto       bool // lease: auto
		Reuse      struct{ Idle, Uptime string }
		State      State
		Schedules  []struct {
			Name, Zone       string
			Days             []time.Weekday
			From, To         int
			Min, Max, Buffer *int
		}
		Dispatches []struct {
			ID     string
			Agents int
			Age    string   // since it was ordered; the lease is 15 minutes
			Seen   string   // indexes
			Worked bool     // they had a job
			Tags   []string // as told; none: those of the policy
			Warm   bool     // for the warm pool
			// Template that it was stamped from; Withdrawn: no syncer applies it.
			Template  string
			Withdrawn bool
			// Ordered is the number that an edit by hand raised, and InPlace how long after its order it
			// was withdrawn for that.
			Ordered int
			InPlace string
			Uptime  string // its agents stay for so long
			// Cluster of the policy that it was ordered by; none: not known.
			Cluster string
		}
	}
	Agents []struct {
		Tags    []string
		Cluster string
		State   AgentState
		Count   int
		Idle    string // since it waits for a job
		Had     string // since it finished its last job
		Age     string // since it connected
	}
	Jobs []struct {
		Rules   []string
		Cluster string
		State   JobState
		Count   int
		Age     string // since it is runnable
		Created string // since it was created
	}
	Running []string // agents that took a job while the jobs were read
	Queues  []Queue
}

const lease = 15 * time.Minute

func (w scenario) build(t *testing.T) ([]Overlay, Snapshot, *Registrations) {
	t.Helper()
	age := func(s string) time.Time {
		if s == "" {
			return w.Now
		}
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		return w.Now.Add(-d)
	}
	var overlays []Overlay
	register := &Registrations{}
	for _, o := range w.Overlays {
		if o.Queue == "" {
			o.Queue = "default"
		}
		v := Overlay{Name: o.Name, Fleet: o.Fleet, Former: o.Former, Policy: Policy{Queue: o.Queue, Cluster: o.Cluster, Tags: o.Tags, Min: o.Min, Max: o.Max,
			Buffer: o.Buffer, Lookahead: o.Lookahead, Priority: o.Priority, Paused: o.Paused,
			Lease: lease, IdleTimeout: 5 * time.Minute, WarmIdleTimeout: time.Hour}}
		v.State, v.Policy.MaxPerHour, v.Policy.LeaseAuto = o.State, o.MaxPerHour, o.Auto
		v.Template = o.Template
		if o.Reuse.Uptime != "" {
			v.Policy.Reuse = Reuse{Idle: w.Now.Sub(age(o.Reuse.Idle)), Uptime: w.Now.Sub(age(o.Reuse.Uptime))}
		}
		if o.Refused != "" {
			v.Refused = Suspension{Code: Invalid, Finding: o.Refused}
		}
		if o.Invalid != "" {
			v.Suspended = Suspension{Code: Invalid, Finding: o.Invalid}
		}
		for _, x := range o.Schedules {
			zone, err := time.LoadLocation(x.Zone)
			if err != nil {
				t.Fatal(err)
			}
			schedule := Schedule{Name: x.Name, From: x.From, To: x.To, Zone: zone, Min: x.Min, Max: x.Max, Buffer: x.Buffer}
			for _, d := range x.Days {
				schedule.Days[d] = true
			}
			v.Policy.Schedules = append(v.Policy.Schedules, schedule)
		}
		for _, d := range o.Dispatches {
			at := age(d.Age)
			v.Dispatches = append(v.Dispatches, Dispatch{ID: d.ID, Agents: d.Agents, At: at, NotAfter: at.Add(lease), Purpose: ForDemand, Tags: d.Tags, Cluster: d.Cluster, IdleTimeout: 5 * time.Minute, Template: d.Template, Withdrawn: d.Withdrawn, Ordered: d.Ordered})
			if d.InPlace != "" {
				inPlace, err := time.ParseDuration(d.InPlace)
				if err != nil {
					t.Fatal(err)
				}
				v.Dispatches[len(v.Dispatches)-1].WithdrawnAt = at.Add(inPlace)
			}
			if d.Uptime != "" {
				v.Dispatches[len(v.Dispatches)-1].Uptime = w.Now.Sub(age(d.Uptime))
			}
			if d.Warm {
				last := &v.Dispatches[len(v.Dispatches)-1]
				last.Purpose, last.IdleTimeout = ForWarmPool, time.Hour
			}
			var seen Indexes
			if err := seen.UnmarshalText([]byte(d.Seen)); err != nil {
				t.Fatal(err)
			}
			for i := range d.Agents {
				if seen.Has(i) {
					register.note([]string{"dispatch=" + d.ID, fmt.Sprintf("index=%d", i)}, d.Worked, time.Time{}, time.Time{})
				}
			}
		}
		overlays = append(overlays, v)
	}
	s := Snapshot{At: w.Now, Queues: w.Queues}
	for i, a := range w.Agents {
		var idleSince time.Time
		if a.Idle != "" {
			idleSince = age(a.Idle)
		}
		var had, connected time.Time
		if a.Age != "" {
			connected = age(a.Age)
		}
		if a.Had != "" {
			had = age(a.Had)
		}
		for n := range max(1, a.Count) {
			s.Agents = append(s.Agents, Agent{ID: fmt.Sprintf("agent-%d-%d", i, n), Tags: a.Tags, Cluster: a.Cluster, State: a.State, Connected: connected, IdleSince: idleSince, LastJobFinished: had})
		}
	}
	for i, j := range w.Jobs {
		for n := range max(1, j.Count) {
			job := Job{ID: fmt.Sprintf("job-%d-%d", i, n), Rules: j.Rules, Cluster: j.Cluster, State: j.State, URL: fmt.Sprintf("https://buildkite.com/acme/app/builds/%d#%d", i, n)}
			if j.State == JobPending {
				job.Since = age(j.Age)
			}
			if j.Created != "" {
				job.Created = age(j.Created)
			}
			s.Jobs = append(s.Jobs, job)
		}
	}
	for _, id := range w.Running {
		s.Sightings = append(s.Sightings, Sighting{Agent: id, Running: true})
	}
	register.Note(s)
	register.Reconcile(overlays, w.Now)
	return overlays, s, register
}

// TestDecide reads cases: world.yaml is what there is, want.yaml is what is
// observed and decided. The comment above them says what the case is about.
func TestDecide(t *testing.T) {
	for _, file := range caseFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			w, archive := readCase(t, file)
			overlays, snapshot, register := w.build(t)
			got := transcript(t, overlays, snapshot, register)
			if *update {
				want := txtar.File{Name: "want.yaml", Data: []byte(got)}
				archive.Files = slices.Replace(archive.Files, 1, min(2, len(archive.Files)), want)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(archive.Files[1].Data), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func caseFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	return files
}

// readCase reads the world of a case, and the archive that it is in.
func readCase(t *testing.T, file string) (w scenario, archive *txtar.Archive) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(archive.Files[0].Data, &w); err != nil {
		t.Fatal(err)
	}
	return w, archive
}

// transcript is everything observed and decided, as YAML.
func transcript(t *testing.T, overlays []Overlay, s Snapshot, r *Registrations) string {
	t.Helper()
	var b strings.Builder
	for _, o := range Observe(overlays, s, r) {
		decisions := Decide("c0ffee", overlays, o)
		for i := range decisions {
			if !reflect.DeepEqual(o, decisions[i].Observation) {
				t.Errorf("decision %d carries another observation", i)
			}
			decisions[i].Observation = Observation{}
		}
		text, err := yaml.Marshal(map[string]any{"observation": o, "decisions": decisions})
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n")
		b.Write(text)
	}
	return b.String()
}

// TestHourlyLimitGoesByTheTimeOfOrders asserts that orders of the last hour count by the
// time of the new order if a poll was spread over several ticks. A repeated decision on
// the same snapshot orders nothing.
func TestHourlyLimitGoesByTheTimeOfOrders(t *testing.T) {
	o := ofQueue("a", func(o *Overlay) {
		o.Policy.Max, o.Policy.MaxPerHour = 100, 5
		o.State.Ordered = []Ordered{{At: orderedAt.Add(-55 * time.Minute), Agents: 3}}
	})
	observation := Observation{
		At: orderedAt, Until: orderedAt.Add(10 * time.Minute), Queue: "a", Overlays: []Supply{{Overlay: "a"}},
		Jobs: []Demand{{Overlays: []string{"a"}, Pending: 20}},
	}
	for again, want := range []int{5, 0} {
		d := Decide("c0ffee", []Overlay{o}, observation)[0]
		if d.Sum.Dispatch != want {
			t.Errorf("decision %d orders %d, want %d: %+v", again, d.Sum.Dispatch, want, d.Sum)
		}
		o.Dispatches, o.State = append(o.Dispatches, d.Dispatch...), d.State
	}
}
