package prometheus_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/util/teststorage"

	"muster/generator"
	"muster/generator/metrics"
	"muster/generator/status"
	"muster/testdata/prometheus/deployed"
)

// step is the interval of ticks, scrapes and evaluations: that of the PodMonitor.
const step = 30 * time.Second

// site is a muster and the Prometheus that scrapes it and evaluates the rules. A [fleet] reports
// the ticks; status, metrics, storage and rules are those of the programs.
type site struct {
	now      time.Time
	recorder *status.Recorder
	metrics  *metrics.Metrics
	storage  *teststorage.TestStorage
	engine   *promql.Engine
	groups   []*rules.Group
	served   map[string]labels.Labels // the series of the last scrape
	pods     int                      // how often muster has started
	restart  func(*fleet)             // starts muster again, which forgets the conditions
	// only is the text that mentions the metrics to store; empty: all are stored.
	only string
	// keep maps the names of metrics to whether they are stored.
	keep map[string]bool
	// texts are the summaries and descriptions of alerts when they first fired, by their names.
	texts map[string]string

	// more adds series to each scrape: those of another muster or overlay.
	more func(each func(labels.Labels, float64))

	left    int64     // requests of Buildkite's limit
	expires time.Time // of the token
	down    bool      // it does not answer scrapes
}

// TestMain saves time: the tests allocate much and keep little.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// must ends a test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{now: time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC), served: map[string]labels.Labels{}, keep: map[string]bool{}, texts: map[string]string{}, left: 900}
	s.expires = s.now.AddDate(0, 1, 0)
	s.start(t)
	s.restart = func(f *fleet) {
		s.start(t)
		f.conditions = nil
	}
	s.storage, s.engine = teststorage.New(t), promqltest.NewTestEngine(t, false, 0, 100_000)
	s.loadRules(t)
	return s
}

// start starts muster, in a new pod.
func (s *site) start(t *testing.T) {
	t.Helper()
	s.pods++
	s.recorder = status.NewRecorder(status.Config{
		Started: s.now, Interval: step, Longest: 23 * time.Minute, TokenExpires: func() time.Time { return s.expires },
		Services: func() []status.Service {
			return []status.Service{{Name: "git", Requests: 7}, {Name: "buildkite", Limits: []status.Limit{{Scope: "rest", Limit: 1000, Remaining: s.left}}}}
		},
	})
	var err error
	s.metrics, err = metrics.New(s.recorder.Snapshot, func() time.Time { return s.now })
	must(t, err)
	for _, slow := range []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		s.metrics.Registry().Unregister(slow) // they read /proc at every scrape
	}
}

func (s *site) loadRules(t *testing.T) {
	t.Helper()
	_, text, err := deployed.Rules()
	s.only = string(text)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	must(t, errors.Join(err, os.WriteFile(file, text, 0o600)))
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(s.engine, s.storage), Appendable: s.storage, Context: t.Context(), Logger: promslog.NewNopLogger(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Parser: parser.NewParser(parser.Options{}),
	})
	groups, errs := manager.LoadGroups(step, labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, g := range groups {
		s.groups = append(s.groups, g)
		for _, r := range g.AlertingRules() {
			r.SetRestored(true) // there is nothing to restore
		}
	}
}

// turn reports one tick, scrapes, and evaluates the rules. It returns the names of the alerts that
// fire, sorted.
func (s *site) turn(t *testing.T, r generator.Report) []string {
	t.Helper()
	s.recorder.Began(r.Began)
	s.metrics.Began(r.Began)
	s.recorder.Ended(r)
	s.metrics.Ended(r)
	s.now = r.Ended.Add(time.Second)
	s.store(t, func(each func(labels.Labels, float64)) {
		if !s.down {
			s.read(t, each)
		}
		if s.more != nil {
			s.more(each)
		}
	})
	raised := s.evaluate(t)
	s.now = r.Next
	return raised
}

// evaluate evaluates the rules and returns the names of the alerts that fire, sorted.
func (s *site) evaluate(t *testing.T) []string {
	t.Helper()
	var raised []string
	for _, g := range s.groups {
		g.Eval(t.Context(), s.now)
		for _, rule := range g.AlertingRules() {
			if err := rule.LastError(); err != nil {
				t.Fatalf("%s: %v", rule.Name(), err)
			}
			for _, a := range rule.ActiveAlerts() {
				if a.State != rules.StateFiring {
					continue
				}
				a.Annotations.Range(func(l labels.Label) {
					if strings.Contains(l.Value, "<error") || strings.Contains(l.Value, "<no value>") {
						t.Fatalf("%s: the %s is %q", rule.Name(), l.Name, l.Value)
					}
				})
				if s.texts[rule.Name()] == "" {
					s.texts[rule.Name()] = a.Annotations.Get("summary") + ": " + a.Annotations.Get("description")
				}
				raised = append(raised, rule.Name())
			}
		}
	}
	slices.Sort(raised)
	return raised
}

// store puts a scrape into the storage, as Prometheus does: with the target's labels, and a mark at
// the end of series that are gone.
func (s *site) store(t *testing.T, scrape func(each func(labels.Labels, float64))) {
	t.Helper()
	found := map[string]labels.Labels{}
	app, at := s.storage.Appender(t.Context()), timestamp.FromTime(s.now)
	put := func(l labels.Labels, v float64) {
		if _, err := app.Append(0, l, at, v); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
	}
	scrape(func(l labels.Labels, v float64) {
		b := labels.NewBuilder(l)
		b.Set("namespace", cmp.Or(l.Get("namespace"), "muster")).Set("pod", fmt.Sprint("muster-", s.pods)).Set("job", "muster/muster").Set("instance", fmt.Sprintf("10.0.0.%d:8080", s.pods))
		l = b.Labels()
		found[l.String()] = l
		put(l, v)
	})
	for name, l := range s.served {
		if _, ok := found[name]; !ok {
			put(l, math.Float64frombits(value.StaleNaN))
		}
	}
	s.served = found
	must(t, app.Commit())
}

// stored reports whether a metric is stored: one of muster that the rules mention, or any of
// muster.
func (s *site) stored(name string) bool {
	if keep, ok := s.keep[name]; ok {
		return keep
	}
	keep := strings.HasPrefix(name, "muster_") && (s.only == "" || strings.Contains(s.only, name))
	s.keep[name] = keep
	return keep
}

// read parses what muster serves to Prometheus.
func (s *site) read(t *testing.T, each func(labels.Labels, float64)) {
	t.Helper()
	request, answer := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody), httptest.NewRecorder()
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	s.metrics.Handler(nil).ServeHTTP(answer, request)
	p, err := textparse.New(answer.Body.Bytes(), answer.Header().Get("Content-Type"), labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil || answer.Code != http.StatusOK {
		t.Fatal(answer.Code, err)
	}
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, v := p.Series()
		var l labels.Labels
		if p.Labels(&l); !s.stored(l.Get(model.MetricNameLabel)) {
			continue
		}
		each(l, v)
	}
}

// answers are those to an instant query, without those that are no numbers.
func (s *site) answers(t *testing.T, expr string) promql.Vector {
	t.Helper()
	q, err := s.engine.NewInstantQuery(t.Context(), s.storage, nil, expr, s.now)
	must(t, err)
	defer q.Close()
	all, err := q.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return slices.DeleteFunc(slices.Clone(all), func(s promql.Sample) bool { return math.IsNaN(s.F) })
}
