package browser

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"muster/cmd/muster/page"
	"muster/generator/plan"
	"muster/generator/report"
	"muster/gitops/branch"
	"muster/gitops/ledger"
)

// awaited waits for a promise.
func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// week is a made-up week of commits, the newest first.
type week struct {
	commits []branch.Commit
	end     time.Time
}

func newWeek() *week {
	begin := time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)
	w := &week{end: begin.Add(7 * 24 * time.Hour)}
	for i := range 7 * 72 {
		at := begin.Add(time.Duration(i) * 20 * time.Minute)
		if i%100 == 30 {
			w.add(at.Add(-time.Minute), hostile, "Raise max\n\nReason: "+hostile+"\n")
		}
		for n, name := range []string{"default", "gpu/large", "macos", hostile} {
			hour := at.Hour()
			agents := 2 + (i*7+n*5)%9
			if hour > 7 && hour < 19 && at.Weekday() != time.Sunday {
				agents *= 4 - n%3
			} else if i%4 != n {
				continue
			}
			w.act(at.Add(time.Duration(n)*time.Second), name, fmt.Sprintf("%c%07d", 'a'+n, i), agents)
		}
	}
	return w
}

// act is an order, and six minutes later its end.
func (w *week) act(at time.Time, name, id string, agents int) {
	oldest := at.Add(-time.Duration(agents) * time.Second)
	o := plan.Observation{At: at, Queue: "q", Jobs: []plan.Demand{{Overlays: []string{name}, Pending: agents, Oldest: &oldest}}, Overlays: []plan.Supply{{Overlay: name, Busy: agents, Own: agents + 1}}, Idle: []plan.IdleAgents{{Agents: 1, Overlay: name}}}
	d := plan.Decision{Overlay: name, Queue: "q", Observation: o, Sum: plan.Sum{Pending: agents, Missing: agents, Max: 100, Current: agents, Busy: agents, Dispatch: agents, Demand: agents}}
	d.Dispatch = []plan.Dispatch{{ID: "x-" + id, Agents: agents}}
	w.add(at, "muster", ledger.Message(ledger.Act{Kind: ledger.Dispatch, Path: "overlays/" + name, Decision: d}, "v0.3.0"))
	at = at.Add(6 * time.Minute)
	seen := plan.Seen{HadJob: min(agents%3, 1), Connected: agents}
	for i := range agents {
		if i > 0 || agents%5 > 0 {
			seen.Registered.Add(i)
		}
	}
	o = plan.Observation{At: at, Queue: "q", Idle: []plan.IdleAgents{{Agents: agents, Overlay: name}}, Overlays: []plan.Supply{{Overlay: name, Busy: agents, Own: 2 * agents, Dispatches: map[string]plan.Seen{"x-" + id: seen}}}}
	d = plan.Decision{Overlay: name, Queue: "q", Observation: o, Retire: []plan.Retirement{{ID: "x-" + id, Agents: agents, Registered: seen.Registered.Below(agents), Reason: plan.AllRegistered}}}
	w.add(at, "muster", ledger.Message(ledger.Act{Kind: ledger.Retire, Path: "overlays/" + name, Decision: d}, "v0.3.0"))
}

func (w *week) add(at time.Time, author, message string) {
	c := branch.Commit{ID: fmt.Sprintf("%012x%028x", len(w.commits)+1, 0), Author: author, At: at, Message: message}
	w.commits = append([]branch.Commit{c}, w.commits...)
}

func (w *week) read() iter.Seq2[branch.Commit, error] {
	return func(yield func(branch.Commit, error) bool) {
		for _, c := range w.commits {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// written writes a report of the week, and returns its directory.
func written(t *testing.T) string {
	t.Helper()
	w := newWeek()
	c := report.Config{Overlays: "overlays", From: w.end.Add(-6 * 24 * time.Hour), Now: w.end, Edits: func(commits []branch.Commit, _ map[string]string) ([]branch.Edits, error) {
		const policy = "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec:\n  queue: q\n  max: %d\n"
		all := make([]branch.Edits, len(commits))
		for i := range all {
			all[i].Files = []branch.Edit{{Path: "overlays/" + hostile + "/scaling.yaml", Before: fmt.Appendf(nil, policy, 10), After: fmt.Appendf(nil, policy, 40)}}
		}
		return all, nil
	}}
	r, err := c.Read(ledger.Read(w.read()))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := page.WriteReport(f, r, report.Price{PerHour: 0.04, Currency: "EUR"}, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestReport: a report is drawn in its colours, light and dark, and as wide as a phone;
// it asks nobody for anything, and no name becomes markup.
func TestReport(t *testing.T) {
	origin := "file://" + written(t)
	b := open(t, origin)
	for _, c := range []struct {
		width  int64
		scheme string
	}{{390, "light"}, {390, "dark"}, {1440, "light"}, {1440, "dark"}} {
		name := fmt.Sprintf("report-%d-%s", c.width, c.scheme)
		b.run(t, log.Enable(), chromedp.EmulateViewport(c.width, 1000), scheme(c.scheme), chromedp.Navigate(origin+"/report.html"), chromedp.WaitVisible(`html[data-drawn="12"] #zoom`, chromedp.ByQuery))
		b.picture(t, name)
		for _, variable := range []string{"--s0", "--s1", "--s2", "--s3", "--s4"} {
			var n int
			b.run(t, chromedp.Evaluate(painted+`("`+variable+`")`, &n))
			if n < 50 {
				t.Errorf("%s: %d pixels in the colour %s", name, n, variable)
			}
		}
		var room, wide, images, policies int64
		var background string
		b.run(t, chromedp.Evaluate(`document.documentElement.scrollWidth`, &wide), chromedp.Evaluate(`document.documentElement.clientWidth`, &room),
			chromedp.Evaluate(`getComputedStyle(document.body).backgroundColor`, &background),
			chromedp.Evaluate(`document.querySelectorAll("img").length - document.querySelectorAll("figure .plain img").length`, &images),
			chromedp.Evaluate(`document.querySelectorAll("meta[http-equiv=Content-Security-Policy]").length`, &policies))
		if wide > room || images != 0 || policies != 1 {
			t.Errorf("%s: %d pixels wide in a window of %d, %d images that are no chart, %d policies", name, wide, room, images, policies)
		}
		if dark := background != "rgb(255, 255, 255)"; dark != (c.scheme == "dark") {
			t.Errorf("%s: the background is %s", name, background)
		}
		b.quiet(t)
	}
}

// TestReportZooms: a drag zooms into all charts, a mark says its decision, and a click on
// it opens what came of it.
func TestReportZooms(t *testing.T) {
	origin := "file://" + written(t)
	b := open(t, origin)
	var zoomed, opened, said string
	var box []float64
	b.run(t, log.Enable(), chromedp.EmulateViewport(1280, 1000), scheme("light"), chromedp.Navigate(origin+"/report.html"), chromedp.WaitVisible(`html[data-drawn="12"] #zoom`, chromedp.ByQuery),
		chromedp.ScrollIntoView("#lines", chromedp.ByQuery), chromedp.Evaluate(`(({ left, top, width, height }) => [left, top, width, height])(document.querySelectorAll(".u-over")[1].getBoundingClientRect())`, &box))
	mouse := func(kind input.MouseType, part float64) chromedp.Action {
		e := input.DispatchMouseEvent(kind, box[0]+box[2]*part, box[1]+box[3]/2)
		if kind != input.MouseMoved {
			e = e.WithButton(input.Left).WithClickCount(1)
		}
		return e
	}
	b.run(t, mouse(input.MouseMoved, 0.9), mouse(input.MousePressed, 0.9), mouse(input.MouseMoved, 0.95), mouse(input.MouseMoved, 0.99), mouse(input.MouseReleased, 0.99),
		chromedp.WaitVisible(`//div[@id="zoom"][not(button[@aria-pressed="true"])]`), chromedp.Evaluate(`location.hash`, &zoomed))
	b.run(t, chromedp.Evaluate(pointed, &said, awaited))
	if zoomed != "" || !strings.Contains(said, "default: dispatch ") || !strings.Contains(said, "jobs are pending") {
		t.Errorf("a drag goes to %q; a mark says %q", zoomed, said)
	}
	click := `(() => {
  const said = [...document.querySelectorAll("figure")].find((f) => [...f.querySelectorAll(".pointed")].some((p) => p.textContent)); // all charts have one cursor
  const over = said.querySelectorAll(".u-over")[1], at = { bubbles: true, view: window, clientX: over.querySelector(".u-cursor-x").getBoundingClientRect().left, clientY: over.getBoundingClientRect().top + 20 };
  over.dispatchEvent(new MouseEvent("mousedown", at)); over.dispatchEvent(new MouseEvent("mouseup", at)); over.dispatchEvent(new MouseEvent("click", at));
})()`
	b.run(t, chromedp.Evaluate(click, nil), chromedp.Evaluate(`new Promise(requestAnimationFrame).then(() => document.querySelector("details:target[open]")?.textContent ?? location.hash)`, &opened, awaited))
	b.picture(t, "report-zoomed")
	if !strings.Contains(opened, "What came of it: ") {
		t.Errorf("opened is %q", opened)
	}
	b.quiet(t)
}

// TestReportOnPaper: without a script there are pictures and tables, and so on paper.
func TestReportOnPaper(t *testing.T) {
	origin := "file://" + written(t)
	b := open(t, origin)
	var loaded, shown bool
	b.run(t, log.Enable(), emulation.SetScriptExecutionDisabled(true), chromedp.EmulateViewport(1280, 1000), chromedp.Navigate(origin+"/report.html"), chromedp.WaitVisible("figure img", chromedp.ByQuery))
	b.picture(t, "report-without-script")
	b.run(t, chromedp.Evaluate(`[...document.querySelectorAll("figure img")].every((i) => i.naturalWidth > 0)`, &loaded))
	if !loaded {
		t.Error("a picture is not shown")
	}
	b.run(t, emulation.SetScriptExecutionDisabled(false), chromedp.Navigate(origin+"/report.html"), chromedp.WaitVisible(`html[data-drawn="12"] #zoom`, chromedp.ByQuery),
		emulation.SetEmulatedMedia().WithMedia("print"), chromedp.WaitVisible("figure img", chromedp.ByQuery), chromedp.WaitNotVisible("figure .uplot", chromedp.ByQuery),
		chromedp.Evaluate(`getComputedStyle(document.querySelector("#agents table")).display === "table" && document.documentElement.scrollWidth <= document.documentElement.clientWidth`, &shown))
	b.picture(t, "report-paper")
	if !shown {
		t.Error("printed, the tables are not whole")
	}
	b.run(t, emulation.SetEmulatedMedia(), chromedp.ActionFunc(func(ctx context.Context) error {
		paper, _, err := cdppage.PrintToPDF().WithPaperWidth(8.27).WithPaperHeight(11.69).Do(ctx)
		if err == nil && *pictures != "" {
			err = os.WriteFile(filepath.Join(*pictures, "report.pdf"), paper, 0o644)
		}
		return err
	}))
	b.quiet(t)
}
