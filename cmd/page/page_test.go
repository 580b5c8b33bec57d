package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/cmd/chart"
	"muster/generator"
	"muster/generator/condition"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/status"
	"muster/gitops/branch"

	"golang.org/x/net/html"
)

// hostile is a name with markup, a script, and invisible characters.
const hostile = "a\"><script>alert(1)</script>'{{.}}\x1b\u202e&amp;"

func begin() time.Time { return time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC) }

// scenario is a page with its ticks.
type scenario struct {
	*Page
	now    time.Time
	status *status.Recorder
	mux    *http.ServeMux
}

func newScenario(t *testing.T, commits Commits) *scenario {
	t.Helper()
	w := &scenario{now: begin(), mux: http.NewServeMux()}
	w.status = status.NewRecorder(status.Config{
		Muster: status.Muster{Version: "v1", Repository: "git@example.com:acme/fleet.git", Branch: "main", Overlays: "overlays", Organisation: "acme"}, Started: w.now,
		Interval: 15 * time.Second, Longest: time.Hour,
	})
	w.Page = New(Config{Status: w.status.Snapshot, Now: func() time.Time { return w.now }, Overlays: "overlays", Commits: commits})
	t.Cleanup(w.Close)
	w.AddTo(w.mux)
	return w
}

// decided returns a decision on an overlay.
func decided(overlay string, at time.Time, s plan.Figures) plan.Decision {
	return plan.Decision{Overlay: overlay, Queue: "default", Figures: s, Observation: plan.Observation{
		At: at, Queue: "default", Jobs: []plan.Demand{{Overlays: []string{overlay}, Pending: s.Pending}},
		Overlays: []plan.Capacity{{Overlay: overlay, Busy: s.Busy}},
	}}
}

// tick reports a tick with decisions. Those with missing agents order them.
func (w *scenario) tick(change func(*generator.Report), decisions ...plan.Decision) {
	r := generator.Report{Began: w.now, Ended: w.now, Next: w.now.Add(15 * time.Second), Git: w.now, Buildkite: w.now, Outcome: generator.Unchanged}
	r.Result.Head.Commit, r.Result.Input.Snapshot.At, r.Result.Decisions = "tip", w.now, decisions
	for _, d := range decisions {
		r.Result.Input.Overlays = append(r.Result.Input.Overlays, plan.Overlay{Name: d.Overlay, Policy: plan.Policy{Queue: d.Queue}})
		if d.Figures.Dispatch > 0 {
			r.Result.Operations = append(r.Result.Operations, dispatch(d))
		}
	}
	if change != nil {
		change(&r)
	}
	if r.Conditions == nil {
		r.Conditions = r.Result.Conditions(w.now)
	}
	w.status.Ended(r)
	w.Ended(r)
}

func dispatch(d plan.Decision) ledger.Draft {
	d.Dispatch = []plan.Dispatch{{ID: fmt.Sprintf("a-%08d", d.At().Unix()%100000000), Purpose: plan.ForDemand, Agents: d.Figures.Dispatch}}
	return ledger.Draft{Kind: ledger.Dispatch, Path: "overlays/" + d.Overlay, Base: fmt.Sprintf("%x", d.At().Unix()), Decision: d}
}

func (w *scenario) ask(method, path string) *http.Response {
	answer := httptest.NewRecorder()
	w.mux.ServeHTTP(answer, httptest.NewRequest(method, path, http.NoBody))
	return answer.Result()
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// wellFormed fails unless every element that is opened is closed, in order.
func wellFormed(t *testing.T, page string) {
	t.Helper()
	void := []string{"meta", "link", "img", "input"}
	var open []string
	for z := html.NewTokenizer(strings.NewReader(page)); ; {
		switch z.Next() {
		case html.ErrorToken:
			if !errors.Is(z.Err(), io.EOF) || len(open) > 0 {
				t.Errorf("%v, open: %q", z.Err(), open)
			}
			return
		case html.StartTagToken:
			tag := z.Token()
			if !slices.Contains(void, tag.Data) {
				open = append(open, tag.Data)
			}
			for _, a := range tag.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
					t.Errorf("<%s %s=%q>: the policy forbids it", tag.Data, a.Key, a.Val)
				}
			}
		case html.EndTagToken:
			tag := z.Token()
			if len(open) == 0 || open[len(open)-1] != tag.Data {
				t.Fatalf("</%s> closes %q", tag.Data, open)
			}
			open = open[:len(open)-1]
		case html.TextToken, html.CommentToken, html.DoctypeToken, html.SelfClosingTagToken:
		}
	}
}

// TestPageContent asserts the content of the page before the first tick, after one, and with
// problems and hostile names.
func TestPageContent(t *testing.T) {
	w := newScenario(t, nil)
	check := func(when string, words ...string) {
		t.Helper()
		page := text(t, w.ask("GET", "/"))
		wellFormed(t, page)
		for _, word := range words {
			if !strings.Contains(page, word) {
				t.Errorf("%s: no %q in\n%s", when, word, page)
			}
		}
		for _, not := range []string{"<script>", "\x1b", "\u202e", "http://", "https://"} {
			if strings.Contains(page, not) {
				t.Errorf("%s: %q in\n%s", when, not, page)
			}
		}
	}
	check("at the start", "<title>Starting", "its first tick has not finished", "No overlay has been read yet")
	w.tick(nil, decided("default", w.now, plan.Figures{Pending: 7, Idle: 1, Busy: 4, Current: 5, Stopping: 2, Max: 20, Missing: 6, Room: 13, Desired: 11, Dispatch: 6}))
	check("after a tick", ">7 of 20<", "<title>All well · acme · muster</title>", `<h2 id="verdict-head">All well</h2>`, ">Nothing.<", "7 jobs pending - 1 agent idle: 6 missing; 6 dispatched.", `<a href="?overlay=default">default</a>`, `<a href="?hours=1#timelines">last 1 h</a>`, "default: dispatch 6 agents")
	w.now = w.now.Add(time.Minute)
	w.tick(func(r *generator.Report) {
		r.Err, r.Outcome, r.Failed, r.Git = errors.New("no route"), generator.Failed, generator.StepHead, time.Time{}
		r.Conditions = []condition.Condition{{Type: condition.JobsServed, Status: condition.False, Reason: condition.NoMatch, Queue: hostile, Message: hostile, Remedy: "add", LastTransitionTime: begin()}}
	})
	check("in trouble", "<title>muster and 1 queue need you", `href="assets/icon-bad.svg"`, "for 60 s, since", "What to do:", "the last successful read of git was 1m0s ago: no route", "&lt;script&gt;", `\u001b\u202e`)
	w.now = w.now.Add(time.Minute)
	unmatched := decided("default", w.now, plan.Figures{})
	unmatched.Observation.Unmatched = []plan.Unmatched{{Rules: []string{"os=plan9"}, Missing: []string{"os=plan9"}, Jobs: 3}}
	w.tick(func(r *generator.Report) {
		r.Result.Unserved = []plan.Unserved{{Queue: "default", Cluster: "two", Jobs: 4}, {Queue: "gpu", Jobs: 5}}
	}, unmatched)
	jobs := func(queue string, n int, rules, missing string) string {
		return fmt.Sprintf(`<th scope="row">%s</th><td class="n">%d</td><td>%s</td><td>%s</td>`, queue, n, rules, missing)
	}
	check("of jobs that nobody serves", jobs("default", 3, "<code>os=plan9</code> ", "<code>os=plan9</code> "),
		jobs("default", 4, "any", "an overlay for the queue in the cluster &#34;two&#34;"), jobs("gpu", 5, "any", "an overlay for the queue"))
}

// TestResponses asserts paths, methods and headers.
func TestResponses(t *testing.T) {
	w := newScenario(t, nil)
	w.tick(nil, decided(hostile, w.now, plan.Figures{Pending: 2}))
	for _, c := range []struct {
		method, path, kind string
		code               int
	}{
		{"GET", "/", "text/html; charset=utf-8", 200},
		{"HEAD", "/", "text/html; charset=utf-8", 200},
		{"GET", "/?overlay=ghost", "text/plain; charset=utf-8", 404},
		{"GET", "/status.json", "application/json", 200},
		{"GET", "/?hours=6", "text/html; charset=utf-8", 200},
		{"GET", "/?hours=-1", "text/html; charset=utf-8", 200},
		{"GET", "/timeline.json?overlay=ghost", "text/plain; charset=utf-8", 404},
		{"GET", "/timeline.json?overlay=" + url.QueryEscape(hostile), "application/json", 200},
		{"GET", "/reasons", "text/html; charset=utf-8", 200},
		{"GET", "/?overlay=" + url.QueryEscape(hostile), "text/html; charset=utf-8", 200},
		{"GET", "/assets/uPlot.js", "text/javascript; charset=utf-8", 200},
		{"GET", "/assets/icon-unknown.svg", "image/svg+xml", 200},
		{"GET", "/timeline.svg?overlay=ghost", "text/plain; charset=utf-8", 404},
		{"HEAD", "/events", "text/event-stream", 200},
		{"GET", "/assets/page.js", "text/javascript; charset=utf-8", 200},
		{"GET", "/assets/page.css", "text/css; charset=utf-8", 200},
		{"GET", "/assets/icon.svg", "image/svg+xml", 200},
		{"GET", "/assets/", "text/plain; charset=utf-8", 404},
		{"GET", "/page.html", "text/plain; charset=utf-8", 404},
		{"POST", "/", "text/plain; charset=utf-8", 405},
		{"DELETE", "/events", "text/plain; charset=utf-8", 405},
	} {
		r := w.ask(c.method, c.path)
		_ = r.Body.Close()
		if got := r.Header.Get("Content-Type"); r.StatusCode != c.code || got != c.kind {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, r.StatusCode, got, c.code, c.kind)
		}
		if c.code != 200 {
			continue
		}
		if p := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(p, "default-src 'none'; script-src 'self'; style-src 'self'") || strings.Contains(p, "unsafe") {
			t.Errorf("%s: %s", c.path, p)
		}
		caching := "no-store"
		if strings.HasPrefix(c.path, "/assets/") {
			caching = "no-cache"
		}
		if r.Header.Get("Cache-Control") != caching || r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", c.path, r.Header)
		}
	}
	asked := httptest.NewRequest(http.MethodGet, "/assets/page.js", http.NoBody)
	first := w.ask("GET", "/assets/page.js")
	_ = first.Body.Close()
	asked.Header.Set("If-None-Match", first.Header.Get("ETag"))
	answer := httptest.NewRecorder()
	if w.mux.ServeHTTP(answer, asked); answer.Code != http.StatusNotModified {
		t.Errorf("asked again for a file: %d", answer.Code)
	}
}

// TestJSONIsTheSnapshot asserts that /status.json is the snapshot.
func TestJSONIsTheSnapshot(t *testing.T) {
	w := newScenario(t, nil)
	w.tick(nil, decided("default", w.now, plan.Figures{Pending: 7, Dispatch: 6}))
	want, err := json.Marshal(w.status.Snapshot().At(w.now))
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, w.ask("GET", "/status.json")); got != string(want)+"\n" {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// log is a branch's history, the newest first.
type log []branch.Commit

func (l log) Commits(context.Context, string, branch.Limit) iter.Seq2[branch.Commit, error] {
	return func(yield func(branch.Commit, error) bool) {
		for _, c := range l {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// TestTimelineFromGit asserts that the timeline before the start has the samples of git and nothing
// between them, that agents in flight are those ordered and not registered, and that a failed tick is a
// gap.
func TestTimelineFromGit(t *testing.T) {
	old := begin().Add(-time.Hour)
	one := dispatch(decided("default", old, plan.Figures{Pending: 5, Dispatch: 5}))
	two := dispatch(decided("default", old.Add(time.Minute), plan.Figures{Pending: 2, Busy: 2, Dispatch: 1}))
	var came plan.IndexSet
	came.Add(0)
	came.Add(1)
	two.Decision.Observation.Overlays[0].Dispatches = map[string]plan.Observed{one.Decision.Dispatch[0].ID: {Registered: came}}
	two.Decision.Observation.Overlays[0].Own = 2
	git := log{{ID: "tip", Parents: []string{"first"}, At: two.Decision.At(), Message: ledger.Message(two, "v1")}, {ID: "first", At: old, Message: ledger.Message(one, "v1")}}
	w := newScenario(t, git)
	w.tick(nil, decided("default", w.now, plan.Figures{Pending: 1, Idle: 3}))
	w.load.wait()
	<-w.load.busy
	w.now = w.now.Add(time.Minute)
	w.tick(func(r *generator.Report) { r.Err = errors.New("no"); r.Result.Head.Commit = "" })
	w.now = w.now.Add(time.Minute)
	w.tick(nil, decided("default", w.now, plan.Figures{Pending: 1, Idle: 2, Dispatch: 4}))
	const rows = "pending 5 - 2 - 1 - 1 1; busy 0 - 2 - 0 - 0 0; idle 0 - 0 - 3 - 2 2; in flight 5 - 4 - 0 - 4 4; oldest wait 0 - 0 - 0 - 0 0; marks 5 1 4"
	const late = "pending - 1 - 1 1; busy - 0 - 0 0; idle - 3 - 2 2; in flight - 0 - 4 4; oldest wait - 0 - 0 0; marks 4"
	if got, _ := w.history.series("default", begin().Add(-24*time.Hour), w.now); values(got.picture()) != rows {
		t.Errorf("%s\nwant\n%s", values(got.picture()), rows)
	}
	// Half an hour before the start, nothing is known, and nothing was ordered.
	if got, _ := w.history.series("default", begin().Add(-30*time.Minute), w.now); values(got.picture()) != late {
		t.Errorf("of the last half hour: %s\nwant\n%s", values(got.picture()), late)
	}
	picture := text(t, w.ask("GET", "/timeline.svg?overlay=default"))
	if !strings.HasPrefix(picture, "<?xml") || !strings.Contains(picture, "dispatch 5 agents") {
		t.Errorf("%.500s", picture)
	}
	if page := text(t, w.ask("GET", "/")); strings.Count(page, `<details id="d`) != 3 {
		t.Errorf("not three decisions in\n%s", page)
	}
}

// values are those of each series, a - for what is not known, and the labels of the marks.
func values(l chart.Timeline) string {
	var out strings.Builder
	for _, b := range l.Bands {
		for _, s := range b.Series {
			out.WriteString(s.Name)
			for _, v := range s.Values {
				if math.IsNaN(v) {
					out.WriteString(" -")
				} else {
					fmt.Fprint(&out, " ", v)
				}
			}
			out.WriteString("; ")
		}
	}
	out.WriteString("marks")
	for _, m := range l.Bands[1].Marks {
		out.WriteString(" " + m.Label)
	}
	return out.String()
}

// TestHistoryIsBounded asserts that old data and deleted overlays are dropped, and that times
// without a change need no memory.
func TestHistoryIsBounded(t *testing.T) {
	w := newScenario(t, nil)
	for i := range 2 * maxPoints {
		r := generator.Report{Began: w.now, Ended: w.now}
		for overlay, n := range map[string]int{"still": 1, "wild": i % 2, fmt.Sprint("gone-", i/maxPoints): 0} {
			r.Result.Decisions = append(r.Result.Decisions, decided(overlay, w.now, plan.Figures{Pending: n}))
		}
		w.history.addTick(r)
		w.now = w.now.Add(30 * time.Second)
	}
	if n := len(w.history.tracks["wild"].points); n > maxPoints {
		t.Errorf("%d points", n)
	}
	if n := len(w.history.tracks["still"].points); n != 1 {
		t.Errorf("%d points of an overlay that never changes", n)
	}
	if w.history.tracks["gone-0"] != nil {
		t.Error("an overlay that went a day ago is known still")
	}
}

// TestAssets asserts that all assets together take less than 150 KB.
func TestAssets(t *testing.T) {
	all, err := assets.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, entry := range all {
		content, err := assets.ReadFile("assets/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		sum += len(content)
	}
	if sum > 150_000 {
		t.Errorf("%d bytes", sum)
	}
}
