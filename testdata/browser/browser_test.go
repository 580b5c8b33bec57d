// Package browser tries muster's status page and its reports in Chromium.
package browser

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/cmd/page"
	"muster/generator"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/status"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var pictures = flag.String("pictures", "", "write screenshots into this directory")

// must ends a test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fleet is a page of a made-up day, and the ticks that are reported to it.
type fleet struct {
	page   *page.Page
	status *status.Recorder
	server *httptest.Server
	names  []string
	now    time.Time
	mu     sync.Mutex // of now
}

func (f *fleet) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

const hostile = `team/<img src=x onerror=alert(1)>"'`

// names are those of n overlays: one is hostile, and one as long as a name can be.
func names(n int) []string {
	all := []string{"default", "gpu/large", "macos", hostile, strings.Repeat("long-name-", 20)}
	for i := len(all); i < n; i++ {
		all = append(all, fmt.Sprintf("team-%03d/linux", i))
	}
	return all[:min(n, len(all))]
}

// newFleet has lived through some hours.
func newFleet(t *testing.T) (*fleet, string) {
	t.Helper()
	return newFleetOf(t, 4, 1200)
}

// newFleetOf has n overlays, and has lived through some ticks.
func newFleetOf(t *testing.T, n, ticks int) (*fleet, string) {
	t.Helper()
	f := &fleet{names: names(n), now: time.Date(2026, time.January, 5, 2, 0, 0, 0, time.UTC)}
	f.status = status.NewRecorder(status.Config{Started: f.now, Interval: 15 * time.Second, Longest: time.Hour,
		Muster: status.Muster{Version: "v0.3.0", Commit: "0123456789ab", Repository: "git@github.com:acme/fleet.git", Branch: "main", Overlays: "overlays", Organisation: "acme"},
		Services: func() []status.Service {
			return []status.Service{{Name: "buildkite", Requests: 1234, Limits: []status.Limit{{Scope: "rest", Limit: 200, Remaining: 187}}}, {Name: "git", Requests: 900, Failures: 1}}
		}})
	f.page = page.New(page.Config{Status: f.status.Snapshot, Now: f.clock, Overlays: "overlays"})
	t.Cleanup(f.page.Close)
	for i := range ticks {
		f.tick(i)
	}
	mux := http.NewServeMux()
	f.page.AddTo(mux)
	f.server = httptest.NewServer(mux)
	t.Cleanup(f.server.Close)
	t.Cleanup(f.page.HangUp)
	return f, f.server.URL
}

// tick is one of 15 seconds, the i-th.
func (f *fleet) tick(i int) {
	now := f.clock()
	r := generator.Report{Began: now, Ended: now.Add(400 * time.Millisecond), Next: now.Add(15 * time.Second), Git: now, Buildkite: now, Outcome: generator.Unchanged}
	r.Result.Head.Commit, r.Result.Input.Snapshot.At = "tip", now
	for n, name := range f.names {
		s := wave(i, n)
		if n > 8 && n%6 > 0 { // most overlays are idle
			s = plan.Figures{Max: 60}
		}
		o := plan.Overlay{Name: name, Policy: plan.Policy{Queue: strings.Split(name, "/")[0], Max: 60}}
		d := plan.Decision{Overlay: name, Queue: o.Policy.Queue, Figures: s, Observation: plan.Observation{At: now, Queue: o.Policy.Queue, Jobs: []plan.Demand{{Overlays: []string{name}, Pending: s.Pending, Oldest: &now}}}}
		if s.Dispatch > 0 {
			d.Dispatch = []plan.Dispatch{{ID: fmt.Sprintf("o%d-%08d", n, i), Purpose: plan.ForDemand, Agents: s.Dispatch}}
			r.Result.Operations = append(r.Result.Operations, ledger.Draft{Kind: ledger.Dispatch, Path: "overlays/" + name, Decision: d})
			r.Outcome = generator.Committed
		}
		r.Result.Input.Overlays = append(r.Result.Input.Overlays, o)
		r.Result.Decisions = append(r.Result.Decisions, d)
	}
	if len(f.names) > 1 {
		r.Result.Suspended = []generator.Suspended{{Overlay: "macos", Why: plan.Suspension{Code: plan.Paused}}, {Overlay: "broken", Why: plan.Suspension{Code: plan.Invalid, Finding: "overlays/broken/scaling.yaml:3: unknown field \"mx\": did you mean \"max\"?"}}}
	}
	r.Conditions = r.Result.Conditions(now)
	f.status.Ended(r)
	f.page.Ended(r)
	f.mu.Lock()
	f.now = now.Add(15 * time.Second)
	f.mu.Unlock()
}

// wave is a made-up load: pushes come every so often, agents a minute later.
func wave(i, n int) plan.Figures {
	period := 90 + 37*n
	at, size := i%period, (7+5*n)*(1+i/period%3)/(1+n%2)
	s := plan.Figures{Max: 60, Buffer: 2, Idle: 2}
	switch {
	case at == 0:
		s.Pending, s.Missing, s.Desired, s.Dispatch, s.Demand = size, size, size, size, size
	case at < 5:
		s.Pending, s.InFlight = size, size
	case at < 8:
		s.Pending, s.InFlight, s.Busy = size/2, size/2, size-size/2
	case at < 50:
		s.Busy = size - size*(at-8)/42
		s.Idle += (at - 8) / 12
	}
	s.Current = s.Busy + s.Idle + s.InFlight
	s.Desired, s.Room = max(s.Desired, s.Current), s.Max-s.Current
	return s
}

// browser is one Chromium, and what it complained of or asked for.
type browser struct {
	ctx   context.Context
	mu    sync.Mutex
	wrong []string
}

// open starts Chromium, which must be there: a test that says nothing is none.
func open(t *testing.T, origin string) *browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && program == "" {
			program = found
		}
	}
	if program == "" {
		t.Fatal("there is no chromium on the PATH")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WSURLReadTimeout(5*time.Minute), chromedp.Flag("font-render-hinting", "none"))
	allocator, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	b := &browser{ctx: ctx}
	chromedp.ListenTarget(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			b.wrong = append(b.wrong, fmt.Sprintf("console: %s %v", e.Type, e.Args))
		case *runtime.EventExceptionThrown:
			b.wrong = append(b.wrong, "exception: "+e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			b.wrong = append(b.wrong, fmt.Sprintf("log: %s %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, origin+"/") && !strings.HasPrefix(e.Request.URL, "data:") {
				b.wrong = append(b.wrong, "asked for "+e.Request.URL)
			}
		}
	})
	return b
}

func (b *browser) run(t *testing.T, actions ...chromedp.Action) {
	t.Helper()
	must(t, chromedp.Run(b.ctx, actions...))
}

// quiet fails where the page complained, or asked somebody else.
func (b *browser) quiet(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.wrong {
		t.Error(w)
	}
	b.wrong = nil
}

// picture keeps a screenshot of the whole page.
func (b *browser) picture(t *testing.T, name string) []byte {
	t.Helper()
	var shot []byte
	b.run(t, chromedp.FullScreenshot(&shot, 100))
	if *pictures != "" {
		must(t, os.WriteFile(filepath.Join(*pictures, name+".png"), shot, 0o644))
	}
	return shot
}

// scheme is light or dark, without smooth scrolling: a click hits what it aims at.
func scheme(name string) chromedp.Action {
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}})
}

// painted counts the pixels of the pictures that have the colour of a variable of the page.
const painted = `((variable) => {
  const box = document.createElement("canvas").getContext("2d");
  box.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
  box.fillRect(0, 0, 1, 1);
  const want = box.getImageData(0, 0, 1, 1).data;
  let n = 0;
  for (const i of document.querySelectorAll("figure img, figure canvas")) {
    const width = i.naturalWidth ?? i.width, height = i.naturalHeight ?? i.height;
    const copy = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d", { willReadFrequently: true });
    copy.drawImage(i, 0, 0);
    const all = copy.getImageData(0, 0, width, height).data;
    for (let k = 0; k < all.length; k += 4) if ([0, 1, 2].every((c) => Math.abs(all[k + c] - want[c]) < 3) && all[k + 3] > 250) n++;
  }
  return n;
})`

// ordersBelow counts the pixels of markers of orders below the areas of the chart of agents.
const ordersBelow = `(() => {
  const canvas = [...document.querySelectorAll("figure canvas")].at(-1), areas = canvas.parentElement.querySelector(".u-over");
  const box = document.createElement("canvas").getContext("2d");
  box.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
  box.fillRect(0, 0, 1, 1);
  const want = box.getImageData(0, 0, 1, 1).data;
  const all = canvas.getContext("2d").getImageData(0, (areas.offsetTop + areas.offsetHeight + 3) * devicePixelRatio, canvas.width, 9 * devicePixelRatio).data;
  let n = 0;
  for (let k = 0; k < all.length; k += 4) if ([0, 1, 2].every((c) => Math.abs(all[k + c] - want[c]) < 3) && all[k + 3] > 250) n++;
  return n;
})()`

// loaded waits until all pictures of the page have been loaded, or are replaced by charts.
func loaded() chromedp.Action {
	return chromedp.Poll(`document.querySelector("figure img, figure canvas") && [...document.images].every((i) => i.complete && i.naturalWidth > 0)
  && [...document.querySelectorAll("[data-chart]")].every((c) => c.classList.contains("drawn"))`, nil)
}

// looks opens a page at the widths of a phone and of a large screen, light and dark. It asserts that the
// charts have their colours, that nothing is wider than the page, and that the browser logs no error.
// more makes further assertions.
func (b *browser) looks(t *testing.T, kind string, wall int64, colours int, open chromedp.Action, more func(string)) {
	t.Helper()
	for _, width := range []int64{390, wall} {
		for _, light := range []string{"light", "dark"} {
			name := fmt.Sprintf("%s-%d-%s", kind, width, light)
			b.run(t, log.Enable(), chromedp.EmulateViewport(width, 1000), scheme(light), open, loaded())
			b.picture(t, name)
			for i := range colours {
				var n int
				b.run(t, chromedp.Evaluate(fmt.Sprintf(`%s("--s%d")`, painted, i), &n))
				if n < 50 {
					t.Errorf("%s: %d pixels in the colour --s%d", name, n, i)
				}
			}
			var room, wide int64
			var background string
			b.run(t, chromedp.Evaluate(`document.documentElement.scrollWidth`, &wide), chromedp.Evaluate(`document.documentElement.clientWidth`, &room),
				chromedp.Evaluate(`getComputedStyle(document.body).backgroundColor`, &background))
			if wide > room {
				t.Errorf("%s: %d pixels wide in a window of %d", name, wide, room)
			}
			if dark := background != "rgb(255, 255, 255)"; dark != (light == "dark") {
				t.Errorf("%s: the background is %s", name, background)
			}
			more(name)
			b.quiet(t)
		}
	}
}

// TestPage: the page looks as it should, and no name becomes markup.
func TestPage(t *testing.T) {
	_, origin := newFleet(t)
	b := open(t, origin)
	live := chromedp.Tasks{chromedp.Navigate(origin + "/"), chromedp.WaitVisible(`//p[@id="live"][text()="live"]`)}
	b.looks(t, "page", 1920, 5, live, func(name string) {
		var page string
		b.run(t, chromedp.OuterHTML("html", &page))
		if strings.Contains(page, "<img src=\"x\"") {
			t.Errorf("%s: a name became markup", name)
		}
	})
}

// TestLive: a tick changes the page without a reload, its charts too; what is opened stays open; the
// links to other periods change the charts, whose orders are below the areas; and the arrow keys read
// their values.
func TestLive(t *testing.T) {
	f, origin := newFleet(t)
	b := open(t, origin)
	var before, after, first, tick, hour, key, title string
	foot := func(into *string) chromedp.Action { return chromedp.Text("#foot", into, chromedp.ByQuery) }
	readout := func(into *string) chromedp.Action { return chromedp.Text(".readout", into, chromedp.ByQuery) }
	b.run(t, log.Enable(), chromedp.EmulateViewport(1280, 1000), scheme("light"), chromedp.Navigate(origin+"/?overlay="+url.QueryEscape("default")),
		chromedp.WaitVisible(`//p[@id="live"][text()="live"]`), loaded(), chromedp.Title(&title),
		chromedp.Click("#decisions summary", chromedp.ByQuery), foot(&before), readout(&first))
	f.tick(1200)
	b.run(t, chromedp.WaitVisible(`//footer[contains(., "1201 ticks")]`), foot(&after), chromedp.WaitVisible(`//*[@id="decisions"]//details[@open]`),
		chromedp.Poll(fmt.Sprintf(`document.querySelector(".readout").textContent !== %q`, first), nil), readout(&tick))
	if before == after || !strings.HasPrefix(tick, "Now, 07:00:15 UTC: ") {
		t.Errorf("%q, then %q; the chart %q, then %q", before, after, first, tick)
	}
	if !strings.HasPrefix(title, "All well · default") {
		t.Errorf("the title is %q", title)
	}
	b.run(t, chromedp.Click(`//nav/a[text()="last 1 h"]`), chromedp.WaitVisible(`//nav/a[text()="last 1 h"][@aria-current="page"]`), loaded(),
		chromedp.AttributeValue("[data-chart]", "data-chart", &hour, nil), chromedp.Focus(".plots", chromedp.ByQuery), chromedp.KeyEvent(kb.Home), readout(&key))
	b.picture(t, "hour")
	var orders int
	if b.run(t, chromedp.Evaluate(ordersBelow, &orders)); orders < 20 {
		t.Errorf("markers of orders have %d pixels below the areas", orders)
	}
	if !strings.Contains(hour, "hours=1&") || !strings.Contains(hour, "overlay=default") {
		t.Errorf("the chart of the last hour is %q", hour)
	}
	if !strings.HasPrefix(key, "06:00:") {
		t.Errorf("the first value is %q", key)
	}
	b.quiet(t)
}

// TestStale: once muster does not answer, the page is unknown: verdict, title and icon.
func TestStale(t *testing.T) {
	f, origin := newFleet(t)
	b := open(t, origin)
	var title, icon string
	b.run(t, chromedp.EmulateViewport(1280, 1000), scheme("light"), chromedp.Navigate(origin+"/"), chromedp.WaitVisible(`//p[@id="live"][text()="live"]`), loaded())
	f.page.HangUp()
	f.server.CloseClientConnections()
	f.server.Listener.Close()
	b.run(t, chromedp.WaitVisible(`//h2[@id="verdict-head"][starts-with(., "Unknown: no answer for ")]`), chromedp.Title(&title), chromedp.AttributeValue("#icon", "href", &icon, nil))
	b.picture(t, "stale")
	if !strings.HasPrefix(title, "Unknown: no answer for ") || icon != "assets/icon-unknown.svg" {
		t.Errorf("title %q, icon %q", title, icon)
	}
}

// TestFilterAndCopy: the filter finds overlays, also folded ones, and a button copies a command.
func TestFilterAndCopy(t *testing.T) {
	_, origin := newFleetOf(t, 40, 4)
	b := open(t, origin)
	var rows, copied string
	visible := `[...document.querySelectorAll("tr[data-find]")].filter((r) => r.checkVisibility()).map((r) => r.querySelector("a").textContent).join(" ")`
	b.run(t, chromedp.EmulateViewport(1280, 1000), chromedp.Navigate(origin+"/"), chromedp.WaitVisible(`//p[@id="live"][text()="live"]`),
		chromedp.SendKeys("#filter", "team-01 linux", chromedp.ByQuery), chromedp.Evaluate(visible, &rows))
	if want := "team-018/linux team-012/linux team-010/linux team-011/linux team-013/linux team-014/linux team-015/linux team-016/linux team-017/linux team-019/linux"; rows != want {
		t.Errorf("found %s", rows)
	}
	b.run(t, chromedp.Evaluate(`window.setTimeout = () => 0`, nil)) // what the button says stays
	b.run(t, chromedp.Click("button.copy", chromedp.ByQuery), chromedp.WaitVisible(`//button[text()="Copied"]`),
		chromedp.AttributeValue("button.copy", "data-copy", &copied, nil))
	if copied != "muster check" {
		t.Errorf("copied %q", copied)
	}
	b.quiet(t)
}

// TestWithoutScript: the page reads without one, with pictures in place of charts.
func TestWithoutScript(t *testing.T) {
	_, origin := newFleet(t)
	b := open(t, origin)
	var shown bool
	var page string
	b.run(t, log.Enable(), emulation.SetScriptExecutionDisabled(true), chromedp.EmulateViewport(1280, 1000), chromedp.Navigate(origin+"/?overlay=default"),
		chromedp.WaitVisible("figure img", chromedp.ByQuery), chromedp.ScrollIntoView("figure img", chromedp.ByQuery))
	shot := b.picture(t, "without-script")
	b.run(t, chromedp.OuterHTML("html", &page), chromedp.Evaluate(`document.querySelector("figure img").naturalWidth > 0`, &shown))
	if !shown || len(shot) == 0 {
		t.Errorf("picture loaded: %t\n%s", shown, page)
	}
	b.quiet(t)
	b.run(t, chromedp.Navigate(origin+"/timeline.svg?overlay=default"))
	b.picture(t, "svg")
	b.quiet(t)
	answer, err := http.Get(origin + "/timeline.svg?overlay=default") //nolint:noctx // a test
	must(t, err)
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || !bytes.Contains(body, []byte("</svg>")) {
		t.Errorf("%v, %.200s", err, body)
	}
}
