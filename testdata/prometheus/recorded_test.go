package prometheus_test

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"muster/generator/condition"
	"muster/generator/plan"
)

var update = flag.Bool("update", false, "write the alerts of the recorded incidents")

const (
	// recordedMetrics is what make incidents records of /metrics, and recordedAlerts the alerts
	// that the rules raise from it.
	recordedMetrics = "../incidents/metrics.txt.gz"
	recordedAlerts  = "../incidents/alerts.json"
	alertsPage      = "../../docs/reference/alerts.md"
)

// recording is what make incidents records of the metrics during one incident.
type recording struct {
	Incident     string
	Condition    struct{ Type, Reason, Overlay string }
	Begins, Ends time.Time
	Interval     int      // between scrapes, in seconds
	Metrics      []string // the names
	samples      []sample // the changes, by time
}

// sample is a new value of a series; NaN: the series ends.
type sample struct {
	labels labels.Labels
	at     int64 // in milliseconds
	value  float64
}

// recordings reads the recorded metrics.
func recordings(t *testing.T) []*recording {
	t.Helper()
	file, err := os.Open(recordedMetrics)
	must(t, err)
	defer file.Close()
	z, err := gzip.NewReader(file)
	must(t, err)
	text, err := io.ReadAll(z)
	must(t, err)
	var all []*recording
	p, err := textparse.New(text, "text/plain; version=0.0.4", labels.NewSymbolTable(), textparse.ParserOptions{})
	must(t, err)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		switch entry {
		case textparse.EntryComment:
			r := &recording{}
			must(t, json.Unmarshal([]byte(strings.TrimPrefix(string(p.Comment()), "#")), r))
			all = append(all, r)
		case textparse.EntrySeries:
			r, x := all[len(all)-1], sample{}
			_, at, v := p.Series()
			x.at, x.value = *at, v
			p.Labels(&x.labels)
			r.samples = append(r.samples, x)
		default:
			t.Fatalf("%s contains an entry of kind %d", recordedMetrics, entry)
		}
	}
}

// raisedAlert is the alert of an incident. After is the number of minutes after which it fires, or
// its documented delay if that is longer than the incident. Both are empty if no alert fires.
type raisedAlert struct {
	Incident string `json:"incident"`
	Alert    string `json:"alert"`
	After    string `json:"after"`
}

// expected is the alert for a condition, and its delay, as the page on alerts states it.
type expected struct {
	alert      string
	delay      time.Duration
	documented string
}

// expectedAlerts are those for types and reasons of conditions. No alert: the condition raises none.
var expectedAlerts = map[condition.Type]map[string]expected{
	condition.AgentsArriving: {
		condition.Overdue:             {alert: "MusterAgentsNotArriving"},
		condition.OrdersFailed:        {alert: "MusterAgentsNotArriving"},
		condition.BreakerOpen:         {alert: "MusterAgentsNotArriving"},
		string(plan.AgentsCannotWork): {alert: "MusterAgentsNotArriving"},
	},
	condition.RepositoryAvailable: {condition.ReadFailed: {"MusterUnavailable", 2 * time.Minute, "After 2 minutes"}},
	condition.BuildkiteAvailable: {
		condition.PollFailed:  {"MusterUnavailable", 2 * time.Minute, "After 2 minutes"},
		condition.RateLimited: {}, // MusterRateLimited fires after 15 minutes
	},
	condition.PushAccepted: {condition.Refused: {alert: "MusterPushRefused"}},
	condition.Suspended: {
		string(plan.Invalid): {alert: "MusterOverlaySuspended"},
		string(plan.Drifted): {alert: "MusterOverlaySuspended"},
		string(plan.Paused):  {"MusterOverlayPaused", 24 * time.Hour, "After a day"},
	},
	condition.JobsServed: {
		condition.NoOverlay: {"MusterJobsUnserved", 15 * time.Minute, "After 15 minutes"},
		condition.NoMatch:   {"MusterJobsUnserved", 15 * time.Minute, "After 15 minutes"},
	},
	condition.ScalingLimited: {
		condition.MaxReached:         {"MusterScalingLimited", 20 * time.Minute, "has waited 20 minutes"},
		condition.HourlyLimitReached: {"MusterScalingLimited", 20 * time.Minute, "has waited 20 minutes"},
	},
	condition.Drifted: {condition.EditedByHand: {}},
	condition.Degraded: {
		condition.PollSlow: {}, condition.MetricsUnavailable: {},
		condition.RequestsFail:       {"MusterRequestsFail", 15 * time.Minute, "After 15 minutes"},
		condition.AgentsInOtherQueue: {}, // MusterAgentsInOtherQueue fires after 10 minutes
		condition.OtherMuster:        {"MusterOtherMuster", 15 * time.Minute, "After 15 minutes"},
		condition.BranchRewritten:    {alert: "MusterBranchRewritten"},
		condition.GitSlow:            {"MusterGitSlow", 15 * time.Minute, "After 15 minutes"},
		condition.WebhooksRefused:    {"MusterWebhooksRefused", 5 * time.Minute, "After 5 minutes"},
	},
}

// TestRecordedIncidents asserts which alert each of the recorded incidents raises, that it fires
// within two scrapes of the condition and its documented delay, that it fires as long as the
// condition lasts, and that no other alert fires.
func TestRecordedIncidents(t *testing.T) {
	all := recordings(t)
	raised := make([]raisedAlert, len(all))
	t.Run("incidents", func(t *testing.T) {
		for i, r := range all {
			t.Run(r.Incident, func(t *testing.T) {
				t.Parallel()
				raised[i] = r.play(t)
			})
		}
	})
	if t.Failed() {
		return
	}
	raised = slices.DeleteFunc(raised, func(a raisedAlert) bool { return a.Incident == "" })
	got, err := json.MarshalIndent(raised, "", "  ")
	must(t, err)
	got = append(got, '\n')
	if *update {
		must(t, os.WriteFile(recordedAlerts, got, 0o644))
	}
	if want, err := os.ReadFile(recordedAlerts); err != nil || string(want) != string(got) {
		t.Errorf("%s is behind: run make incidents; got\n%s", recordedAlerts, got)
	}
}

// play evaluates the rules at each scrape of an incident, and returns the alert.
func (r *recording) play(t *testing.T) raisedAlert {
	s := newSite(t)
	for _, name := range ruleMetrics.FindAllString(s.only, -1) {
		if !slices.Contains(r.Metrics, name) {
			t.Fatalf("%s is recorded without %s, which the alert rules use: run make incidents", recordedMetrics, name)
		}
	}
	want := r.expected(t)
	scrape := time.Duration(r.Interval) * time.Second
	now, rest := map[string]sample{}, r.samples
	var since, first time.Time // the condition, the alert
	for s.now = time.UnixMilli(rest[0].at); !s.now.After(r.Ends); s.now = s.now.Add(scrape) {
		for ; len(rest) > 0 && rest[0].at <= s.now.UnixMilli(); rest = rest[1:] {
			name := rest[0].labels.String()
			if now[name] = rest[0]; math.IsNaN(rest[0].value) {
				delete(now, name)
			}
		}
		s.store(t, func(each func(labels.Labels, float64)) {
			for _, x := range now {
				each(x.labels, x.value)
			}
		})
		into := s.now.Sub(r.Begins)
		abnormal := r.abnormal(now)
		if abnormal && since.IsZero() && into > 0 {
			since = s.now
		}
		raised := s.evaluate(t)
		switch {
		case len(raised) > 1, len(raised) == 1 && (raised[0] != want.alert || into <= 0):
			t.Fatalf("%s after the beginning, %q fire: %s", into, raised, s.texts[raised[0]])
		case len(raised) == 1 && first.IsZero():
			first = s.now
		case len(raised) == 0 && !first.IsZero() && abnormal:
			t.Errorf("%s after the beginning, %s does not fire any more", into, want.alert)
		}
	}
	if r.Condition.Type == "" {
		return raisedAlert{}
	}
	if since.IsZero() {
		t.Fatal("the metrics do not report the condition")
	}
	a := raisedAlert{Incident: r.Incident, Alert: want.alert}
	switch took := first.Sub(since); {
	case want.alert == "":
	case !first.IsZero():
		t.Logf("condition after %s, alert after %s", since.Sub(r.Begins), first.Sub(r.Begins))
		if took > want.delay+2*scrape || took < want.delay-2*scrape {
			t.Errorf("%s fires %s after the condition, want %s and at most two scrapes", want.alert, took, want.delay)
		}
		a.After = strconv.Itoa(int(math.Ceil(first.Sub(r.Begins).Minutes())))
	case r.Ends.Sub(since) < want.delay+2*scrape:
		a.After = strings.TrimPrefix(want.documented, "After ")
	default:
		t.Errorf("%s does not fire", want.alert)
	}
	return a
}

// ruleMetrics are the metrics that the alert rules use.
var ruleMetrics = regexp.MustCompile(`\bmuster_\w+`)

// expected returns the alert for the condition of an incident.
func (r *recording) expected(t *testing.T) expected {
	t.Helper()
	if r.Condition.Type == "" {
		return expected{}
	}
	want, ok := expectedAlerts[condition.Type(r.Condition.Type)][r.Condition.Reason]
	if !ok {
		t.Fatalf("no alert is expected for the condition %+v", r.Condition)
	}
	if want.alert == "" {
		return want
	}
	page, err := os.ReadFile(alertsPage)
	must(t, err)
	_, section, _ := strings.Cut(string(page), "\n## "+want.alert+"\n\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !strings.Contains(section, want.documented) || section == "" || want.delay == 0 && strings.HasPrefix(section, "After") {
		t.Errorf("%s: the section of %s does not have the delay %s %q", filepath.Base(alertsPage), want.alert, want.delay, want.documented)
	}
	return want
}

// abnormal reports whether the metrics have an abnormal condition of the incident's type.
func (r *recording) abnormal(now map[string]sample) bool {
	for _, x := range now {
		c := condition.Condition{Type: condition.Type(x.labels.Get("type")), Overlay: x.labels.Get("overlay"), Status: condition.False}
		if x.value == 1 {
			c.Status = condition.True
		}
		if x.labels.Get(model.MetricNameLabel) == "muster_condition" && r.Condition.Type == string(c.Type) && (r.Condition.Overlay == c.Overlay || c.Type == condition.JobsServed) && c.Abnormal() {
			return true
		}
	}
	return false
}
