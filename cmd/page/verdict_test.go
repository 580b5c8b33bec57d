package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/condition"
	"muster/generator/plan"
	"muster/generator/status"

	"golang.org/x/net/html"
)

// TestVerdict asserts the verdict of the page, and in which order problems and overlays are listed.
func TestVerdict(t *testing.T) {
	w := newScenario(t, nil)
	problem := func(kind condition.Type, reason, overlay string, since time.Duration) condition.Condition {
		c := condition.Condition{Type: kind, Status: condition.True, Reason: reason, Overlay: overlay, Message: "m", LastTransitionTime: w.now.Add(-since)}
		if !c.Abnormal() {
			c.Status = condition.False
		}
		return c.WithRemedy()
	}
	var decisions []plan.Decision
	for i := range 40 {
		d := decided(fmt.Sprintf("o%02d", i), w.now, plan.Figures{Max: 9})
		if i == 7 || i == 9 || i == 12 {
			since := w.now.Add(-time.Duration(i) * time.Minute)
			d = decided(d.Overlay, w.now, plan.Figures{Pending: 1, Max: 9})
			d.Observation.Jobs[0].Oldest = &since
		}
		decisions = append(decisions, d)
	}
	for name, test := range map[string]struct {
		conditions     []condition.Condition
		after          time.Duration
		class, verdict string
		needs, active  string
	}{
		"well":            {nil, 0, "good", "All well", "", "o12 o09 o07"},
		"limits":          {[]condition.Condition{problem(condition.ScalingLimited, condition.MaxReached, "o03", 0)}, 0, "good", "All well", "", "o03 o12 o09 o07"},
		"paused":          {[]condition.Condition{problem(condition.Suspended, string(plan.Paused), "o03", 0)}, 0, "good", "All well", "", "o12 o09 o07 o03"},
		"limits for long": {[]condition.Condition{problem(condition.ScalingLimited, condition.MaxReached, "o12", 0)}, 0, "warn", "1 of 40 overlays needs you", "o12", "o12 o09 o07"},
		"paused for long": {[]condition.Condition{problem(condition.Suspended, string(plan.PausedInBuildkite), "o12", 0)}, 0, "warn", "1 of 40 overlays needs you", "o12", "o12 o09 o07"},
		"one":             {[]condition.Condition{problem(condition.Suspended, string(plan.Invalid), "o31", 0)}, 0, "bad", "1 of 40 overlays needs you", "o31", "o31 o12 o09 o07"},
		"several": {
			[]condition.Condition{
				problem(condition.AgentsArriving, condition.Overdue, "o07", 0), problem(condition.AgentsArriving, condition.Overdue, "o09", 0),
				problem(condition.AgentsArriving, condition.BreakerOpen, "o31", time.Hour), problem(condition.Degraded, condition.StateInvalid, "o02", time.Minute),
			},
			0, "bad", "4 of 40 overlays need you", "o31 o09 o07 o02", "o31 o09 o07 o02 o12",
		},
		"muster":  {[]condition.Condition{problem(condition.Degraded, condition.PollSlow, "", 0)}, 0, "warn", "muster needs you", "muster", "o12 o09 o07"},
		"silence": {nil, 108 * time.Second, "unknown", "Unknown: no answer for 108 s", "*", "o12 o09 o07"},
	} {
		w.tick(func(r *generator.Report) {
			r.Conditions = append([]condition.Condition{}, test.conditions...)
			for _, d := range decisions {
				ready := condition.Normal(condition.Ready)
				ready.Overlay = d.Overlay
				r.Conditions = append(r.Conditions, ready)
			}
		}, decisions...)
		start := w.now
		w.now = w.now.Add(test.after)
		v, _ := w.view("", 1)
		w.now = start
		var needs, active []string
		for _, c := range v.Needs {
			if c.Overlay == "" {
				c.Overlay = "muster"
			}
			needs = append(needs, c.Overlay)
		}
		for _, o := range v.Active {
			active = append(active, o.Name)
		}
		if v.Verdict.Class != test.class || v.Verdict.Text != test.verdict {
			t.Errorf("%s: %+v", name, v.Verdict)
		}
		if got := strings.Join(needs, " "); got != test.needs && test.needs != "*" {
			t.Errorf("%s: needs %s, want %s", name, got, test.needs)
		}
		if got := strings.Join(active, " "); got != test.active || len(v.Active)+len(v.Idle) != 40 {
			t.Errorf("%s: active %s, want %s; %d idle", name, got, test.active, len(v.Idle))
		}
		if v.Totals.Oldest != start.Add(-12*time.Minute) || v.Totals.P95Minutes != 1 {
			t.Errorf("%s: %+v", name, v.Totals)
		}
	}
}

// TestRow asserts that state, colour and reason of an overlay's row are those of one condition: the most
// severe, and one that needs somebody before a pause.
func TestRow(t *testing.T) {
	w := newScenario(t, nil)
	full := decided("default", w.now, plan.Figures{Pending: 4, Missing: 4, Current: 10, Max: 10})
	full.Observation.Overlays[0].OtherFleets = 2
	row := func() string {
		v, _ := w.view("", 1)
		o := slices.Concat(v.Active, v.Idle)[0]
		return fmt.Sprintf("%s %s %s", o.State, o.Class, o.Reason)
	}
	check := func(when, want string) {
		t.Helper()
		if got := row(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	repaired := func(r *generator.Report) {
		r.Result.Repairs = map[string]generator.Repair{"default": {Subject: "repair", At: w.now}}
	}
	w.tick(repaired, full)
	check("full, with another muster, after a repair", "OtherMuster warn the queue has agents of another muster")
	full.Observation.Overlays[0].OtherFleets = 0
	w.tick(repaired, full)
	check("full, after a repair", "MaxReached info 4 agents fewer than needed: max is 10")
	w.tick(repaired, decided("default", w.now, plan.Figures{Max: 10}))
	check("after a repair", "EditedByHand info muster repaired a manual edit at")
	w.tick(func(r *generator.Report) {
		repaired(r)
		r.Conditions = append(r.Result.Conditions(w.now), condition.Condition{Type: condition.RepositoryAvailable, Status: condition.False, Reason: condition.ReadFailed, Message: "no route", LastTransitionTime: begin()})
		r.Err, r.Outcome, r.Failed, r.Git = errors.New("no route"), generator.Failed, generator.StepHead, time.Time{}
	}, full)
	w.now = w.now.Add(time.Minute)
	check("git is down, after a repair", "NoAnswer bad the last successful read of git")
}

// TestSamples asserts that a tick whose push fails is a sample, and that nothing is known of a time
// without ticks.
func TestSamples(t *testing.T) {
	w := newScenario(t, nil)
	since := w.now.Add(-5 * time.Minute)
	tick := func(waiting int, change func(*generator.Report)) {
		d := decided("default", w.now, plan.Figures{Pending: waiting, Max: 8})
		d.Observation.Jobs[0].Oldest = &since
		w.tick(change, d)
	}
	tick(24, func(r *generator.Report) {
		r.Err, r.Outcome, r.Failed = errors.New("refused"), generator.Failed, generator.StepCommit
	})
	w.now = w.now.Add(15 * time.Second)
	tick(24, nil)
	w.now = w.now.Add(time.Hour)
	tick(0, nil)
	w.now = w.now.Add(10 * time.Minute) // nothing since
	s, _ := w.history.series("default", begin().Add(-time.Hour), w.now)
	const want = "pending 24 24 - 0 0 - -; busy 0 0 - 0 0 - -; idle 0 0 - 0 0 - -; in flight 0 0 - 0 0 - -; oldest wait 5.25 5.25 - 0 0 - -; marks"
	if got := values(s.picture()); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if wait, minutes := w.history.waitP95("", begin().Add(time.Minute)); minutes != 1 || wait != 5*time.Minute {
		t.Errorf("95th percentile %s of %d minutes", wait, minutes)
	}
}

// TestTimeAxis asserts that charts begin at the first sample of the charts of the page, or with the period
// if that is later, and are at least five minutes wide.
func TestTimeAxis(t *testing.T) {
	w := newScenario(t, nil)
	check := func(when, path, name string, begins time.Duration) {
		t.Helper()
		query, rest, _ := strings.Cut(text(t, w.ask("GET", path)), `data-name="`+name+`"`)
		query = query[strings.LastIndex(query, "timeline.json"):]
		query = html.UnescapeString(query[:strings.Index(query, `"`)])
		var figures struct{ From int64 }
		if err := json.Unmarshal([]byte(text(t, w.ask("GET", "/"+query))), &figures); err != nil {
			t.Fatal(err)
		}
		want := begin().Add(begins)
		if got := time.Unix(figures.From, 0); !got.Equal(want) {
			t.Errorf("%s, %s: the chart begins at %s, want %s", when, query, got.UTC(), want)
		}
		s, _ := w.requested(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/"+query, http.NoBody))
		if line := s.picture(); !line.From.Equal(want) || !line.To.Equal(w.now) {
			t.Errorf("%s, %s: the picture is of %s to %s", when, query, line.From, line.To)
		}
		if first := want.Format("15:04") + "–"; !strings.Contains(rest, `<th scope="row">`+first) {
			t.Errorf("%s, %s: no row %s", when, query, first)
		}
	}
	for w.now.Before(begin().Add(61 * time.Minute)) {
		decisions := []plan.Decision{decided("old", w.now, plan.Figures{Pending: 1})}
		if w.now.After(begin().Add(19 * time.Minute)) {
			decisions = append(decisions, decided("young", w.now, plan.Figures{Pending: 1}))
		}
		w.tick(nil, decisions...)
		switch w.now.Sub(begin()) {
		case time.Minute:
			check("after a minute", "/", "old", -4*time.Minute)
		case 11 * time.Minute:
			check("after eleven minutes", "/", "old", 0)
		case 40 * time.Minute:
			check("on the page of all", "/", "young", 0)
			check("on its own page", "/?overlay=young", "young", 20*time.Minute)
		case 60 * time.Minute:
			check("with a shorter period", "/?hours=1", "young", 0)
		}
		w.now = w.now.Add(time.Minute)
	}
}

// TestLinks asserts the addresses of commits on git hosts, and that only jobs of the organisation are links.
func TestLinks(t *testing.T) {
	for repository, want := range map[string]string{
		"git@github.com:acme/fleet.git":                   "https://github.com/acme/fleet/commit/{commit}",
		"ssh://git@ssh.github.com:443/acme/fleet.git":     "https://github.com/acme/fleet/commit/{commit}",
		"https://gitlab.example.com:8443/a/b/fleet":       "https://gitlab.example.com:8443/a/b/fleet/-/commit/{commit}",
		"ssh://git@gitea.example.com:2222/acme/fleet.git": "https://gitea.example.com/acme/fleet/commit/{commit}",
		"git@bitbucket.org:acme/fleet.git":                "https://bitbucket.org/acme/fleet/commits/{commit}",
		"https://bitbucket.example.com/scm/ops/fleet.git": "https://bitbucket.example.com/projects/ops/repos/fleet/commits/{commit}",
		"git@ssh.dev.azure.com:v3/acme/Build Farm/fleet":  "https://dev.azure.com/acme/Build%20Farm/_git/fleet/commit/{commit}",
		"https://dev.azure.com/acme/farm/_git/fleet":      "https://dev.azure.com/acme/farm/_git/fleet/commit/{commit}",
		"https://git.example.com/acme/fleet.git":          "",
		"/srv/fleet.git":                                  "",
		"javascript:alert(1)":                             "",
	} {
		if got := newLinks(repository, "acme", "").commit; got != want {
			t.Errorf("%s: %s, want %s", repository, got, want)
		}
	}
	l := newLinks("/srv/fleet.git", "acme", "https://git.example.com/c/{commit}")
	var b strings.Builder
	_ = l.text(`job "https://buildkite.com/acme/x/builds/1#2", <https://example.com/>, https://buildkite.com/other/x`).Render(&b)
	_ = l.commitLink("0123456789abcdef").Render(&b)
	known := overlay{Overlay: status.Overlay{QueueID: "q1", ClusterID: "c1"}}
	_ = l.queue(known, "queue linux").Render(&b)
	_ = l.queue(overlay{}, "queue linux").Render(&b)
	const want = `job &#34;<a href="https://buildkite.com/acme/x/builds/1#2">https://buildkite.com/acme/x/builds/1#2</a>&#34;, &lt;https://example.com/&gt;, https://buildkite.com/other/x` +
		`<a href="https://git.example.com/c/0123456789abcdef" title="the commit on the git host"><code>0123456789</code></a>` +
		`<a href="https://buildkite.com/organizations/acme/clusters/c1/queues/q1" title="the queue in Buildkite">queue linux</a>queue linux`
	if b.String() != want {
		t.Errorf("%s", b.String())
	}
}
