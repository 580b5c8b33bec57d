package browser

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"muster/cmd/page"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/report"
	"muster/gitops/branch"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

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

// base is the commit that each decision was made on.
const base = "0123456789abcdef0123456789abcdef01234567"

// act is an order, and six minutes later its end.
func (w *week) act(at time.Time, name, id string, agents int) {
	oldest := at.Add(-time.Duration(agents) * time.Second)
	o := plan.Observation{At: at, Queue: "q", Jobs: []plan.Demand{{Overlays: []string{name}, Pending: agents, Oldest: &oldest}}, Overlays: []plan.Capacity{{Overlay: name, Busy: agents, Own: agents + 1}}, Idle: []plan.IdleAgents{{Agents: 1, Overlay: name}}}
	d := plan.Decision{Overlay: name, Queue: "q", Observation: o, Figures: plan.Figures{Pending: agents, Missing: agents, Max: 100, Current: agents, Busy: agents, Dispatch: agents, Demand: agents}}
	d.Dispatch = []plan.Dispatch{{ID: "x-" + id, Agents: agents, Purpose: plan.ForDemand, NotAfter: at.Add(15 * time.Minute)}}
	w.add(at, "muster", ledger.Message(ledger.Draft{Kind: ledger.Dispatch, Path: "overlays/" + name, Base: base, Decision: d}, "v0.3.0"))
	at = at.Add(6 * time.Minute)
	seen := plan.Observed{HadJob: min(agents%3, 1), Connected: agents}
	for i := range agents {
		if i > 0 || agents%5 > 0 {
			seen.Registered.Add(i)
		}
	}
	o = plan.Observation{At: at, Queue: "q", Idle: []plan.IdleAgents{{Agents: agents, Overlay: name}}, Overlays: []plan.Capacity{{Overlay: name, Busy: agents, Own: 2 * agents, Dispatches: map[string]plan.Observed{"x-" + id: seen}}}}
	d = plan.Decision{Overlay: name, Queue: "q", Observation: o, Retire: []plan.Retirement{{ID: "x-" + id, Agents: agents, Registered: seen.Registered.Below(agents), Reason: plan.AllRegistered}}}
	w.add(at, "muster", ledger.Message(ledger.Draft{Kind: ledger.Retire, Path: "overlays/" + name, Base: base, Decision: d}, "v0.3.0"))
}

func (w *week) add(at time.Time, author, message string) {
	c := branch.Commit{ID: fmt.Sprintf("%012x%028x", len(w.commits)+1, 0), Author: author, At: at, Message: message}
	if len(w.commits) > 0 {
		c.Parents = []string{w.commits[0].ID}
	}
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

// weekOf is a week in which each of n overlays orders twice.
func weekOf(n int) *week {
	begin := time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)
	w := &week{end: begin.Add(7 * 24 * time.Hour)}
	for i := range 2 * n {
		w.act(begin.Add(time.Duration(i+1)*7*24*time.Hour/time.Duration(2*n+2)+24*time.Hour/2), names(n)[i%n], fmt.Sprintf("a%07d", i), 1+i%9)
	}
	return w
}

// written writes a report of a week, and returns its directory.
func written(t *testing.T, w *week) string {
	t.Helper()
	c := report.Config{Overlays: "overlays", From: w.end.Add(-6 * 24 * time.Hour), Now: w.end, Edits: func(commits []branch.Commit, _ map[string]string) ([]branch.Edits, error) {
		const policy = "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec:\n  queue: q\n  max: %d\n"
		all := make([]branch.Edits, len(commits))
		for i := range all {
			all[i].Files = []branch.Edit{{Path: "overlays/" + hostile + "/scaling.yaml", Before: fmt.Appendf(nil, policy, 10), After: fmt.Appendf(nil, policy, 40)}}
		}
		return all, nil
	}}
	r, err := c.Read(ledger.Read("overlays", w.read()))
	must(t, err)
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "report.html"))
	must(t, err)
	defer f.Close()
	must(t, page.WriteReport(f, r, report.Price{PerHour: 0.04, Currency: "EUR"}, "git@github.com:acme/fleet.git"))
	return dir
}

// TestReport: a report looks as it should; it asks nobody for anything, and no name becomes markup.
func TestReport(t *testing.T) {
	origin := "file://" + written(t, newWeek())
	b := open(t, origin)
	report := chromedp.Navigate(origin + "/report.html")
	b.looks(t, "report", 1440, 4, report, func(name string) {
		var images, policies int64
		b.run(t, chromedp.Evaluate(`document.querySelectorAll("img").length - document.querySelectorAll("figure img").length`, &images),
			chromedp.Evaluate(`document.querySelectorAll("meta[http-equiv=Content-Security-Policy]").length`, &policies))
		if images != 0 || policies != 1 {
			t.Errorf("%s: %d images that are no chart, %d policies", name, images, policies)
		}
		b.accessible(t, name)
	})
}

// TestReportSizes opens reports of 0, 1, 40 and 400 overlays on a phone and a screen, light and dark.
func TestReportSizes(t *testing.T) {
	for _, n := range []int{0, 1, 40, 400} {
		origin := "file://" + written(t, weekOf(n))
		b := open(t, origin)
		for _, width := range []int64{390, 1280} {
			for _, light := range []string{"light", "dark"} {
				name := fmt.Sprintf("report-%d-%d-%s", n, width, light)
				var wide int64
				b.run(t, log.Enable(), chromedp.EmulateViewport(width, 900), scheme(light), chromedp.Navigate(origin+"/report.html"),
					chromedp.Evaluate(`document.documentElement.scrollWidth`, &wide))
				if wide > width {
					t.Errorf("%s: %d pixels wide", name, wide)
				}
				b.picture(t, name)
				b.accessible(t, name)
				b.quiet(t)
			}
		}
	}
}

// TestReportOnPaper: printed, a report has its pictures and its whole tables.
func TestReportOnPaper(t *testing.T) {
	origin := "file://" + written(t, newWeek())
	b := open(t, origin)
	var shown bool
	b.run(t, log.Enable(), chromedp.EmulateViewport(1280, 1000), chromedp.Navigate(origin+"/report.html"), loaded(),
		emulation.SetEmulatedMedia().WithMedia("print"),
		chromedp.Evaluate(`getComputedStyle(document.querySelector("#overlays table")).display === "table" && document.documentElement.scrollWidth <= document.documentElement.clientWidth`, &shown))
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
