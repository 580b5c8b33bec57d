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
		Overlay
		Policy
		Auto             bool // lease: auto
		Invalid, Refused string
		Reuse            struct{ Idle, Uptime string }
		Schedules        []struct {
			Schedule
			Zone string
			Days []time.Weekday
		}
		Dispatches []struct {
			Dispatch
			Age    string // since it was ordered; the lease is 15 minutes
			Seen   string // indexes
			Worked bool   // they had a job
			Warm   bool   // for the warm pool
			Uptime string // its agents stay for so long
		}
	}
	Agents []struct {
		Agent
		Count int
		Idle  string // since it waits for a job
		Had   string // since it finished its last job
		Age   string // since it connected
	}
	Jobs []struct {
		Job
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
	span := func(s string) time.Duration {
		if s == "" {
			return 0
		}
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	age := func(s string) time.Time { return w.Now.Add(-span(s)) }
	known := func(s string) time.Time { // zero if it is not said
		if s == "" {
			return time.Time{}
		}
		return age(s)
	}
	var overlays []Overlay
	register := &Registrations{}
	for _, o := range w.Overlays {
		v := o.Overlay
		v.Policy = o.Policy
		if o.Queue == "" {
			v.Policy.Queue = "default"
		}
		v.Policy.Lease, v.Policy.LeaseAuto = lease, o.Auto
		v.Policy.IdleTimeout, v.Policy.WarmIdleTimeout = 5*time.Minute, time.Hour
		v.Policy.Reuse = Reuse{Idle: span(o.Reuse.Idle), Uptime: span(o.Reuse.Uptime)}
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
			x.Schedule.Zone = zone
			for _, d := range x.Days {
				x.Schedule.Days[d] = true
			}
			v.Policy.Schedules = append(v.Policy.Schedules, x.Schedule)
		}
		for _, d := range o.Dispatches {
			at := age(d.Age)
			x := d.Dispatch
			x.At, x.NotAfter, x.Uptime = at, at.Add(lease), span(d.Uptime)
			x.Purpose, x.IdleTimeout = ForDemand, 5*time.Minute
			if d.Warm {
				x.Purpose, x.IdleTimeout = ForWarmPool, time.Hour
			}
			v.Dispatches = append(v.Dispatches, x)
			var seen IndexSet
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
		a.Connected, a.IdleSince, a.LastJobFinished = known(a.Age), known(a.Idle), known(a.Had)
		for n := range max(1, a.Count) {
			a.ID = fmt.Sprintf("agent-%d-%d", i, n)
			s.Agents = append(s.Agents, a.Agent)
		}
	}
	for i, j := range w.Jobs {
		if j.State == JobPending {
			j.Since = age(j.Age)
		}
		j.Job.Created = known(j.Created)
		for n := range max(1, j.Count) {
			j.ID = fmt.Sprintf("job-%d-%d", i, n)
			j.URL = fmt.Sprintf("https://buildkite.com/acme/app/builds/%d#%d", i, n)
			s.Jobs = append(s.Jobs, j.Job)
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

// TestHourlyLimitGoesByTheTimeOfOrders asserts that orders of the last hour count, and are remembered,
// by the time of the new order if a poll was spread over several ticks. A repeated decision on the same
// snapshot orders nothing.
func TestHourlyLimitGoesByTheTimeOfOrders(t *testing.T) {
	until := orderedAt.Add(10 * time.Minute)
	recent := Ordered{At: orderedAt.Add(-time.Minute), Agents: 1}
	o := ofQueue("a", func(o *Overlay) {
		o.Policy.Max, o.Policy.MaxPerHour = 100, 5
		o.State.Ordered = []Ordered{{At: orderedAt.Add(-55 * time.Minute), Agents: 3}, recent}
	})
	observation := Observation{At: orderedAt, Until: until, Queue: "a", Overlays: []Capacity{{Overlay: "a"}}}
	for _, c := range []struct {
		pending, dispatched int
		remembered          []Ordered
	}{
		{0, 0, []Ordered{recent}},
		{20, 4, []Ordered{recent, {At: until, Agents: 4}}},
		{20, 0, []Ordered{recent, {At: until, Agents: 4}}},
	} {
		observation.Jobs = []Demand{{Overlays: []string{"a"}, Pending: c.pending}}
		d := Decide("c0ffee", []Overlay{o}, observation)[0]
		if d.Figures.Dispatch != c.dispatched || !slices.Equal(d.State.Ordered, c.remembered) {
			t.Errorf("%+v: %d are dispatched, and %v is remembered", c, d.Figures.Dispatch, d.State.Ordered)
		}
		if len(d.Dispatch) > 0 && !d.Dispatch[0].At.Equal(until) {
			t.Errorf("ordered at %s, want %s", d.Dispatch[0].At, until)
		}
		o.Dispatches, o.State = append(o.Dispatches, d.Dispatch...), d.State
	}
}
