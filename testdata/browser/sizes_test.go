package browser

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var axe = flag.String("axe", "../../bin/axe-4.14.1.js", "the script of axe-core")

// violations returns what axe finds, a line for each rule and its first elements.
const violations = `axe.run({ resultTypes: ["violations"] }).then((r) =>
  r.violations.map((v) => v.id + ": " + v.nodes.slice(0, 3).map((n) => n.target + " " + n.failureSummary).join(" | ")).join("\n"))`

// accessible asserts that axe finds nothing wrong with the page.
func (b *browser) accessible(t *testing.T, name string) {
	t.Helper()
	script, err := os.ReadFile(*axe)
	must(t, err)
	var found string
	b.run(t, chromedp.Evaluate(string(script)+"; 0", nil),
		chromedp.Evaluate(violations, &found, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	for line := range strings.SplitSeq(found, "\n") {
		if line != "" {
			t.Errorf("%s: %s", name, line)
		}
	}
}

// TestSizes opens the pages of a fleet of 0, 1, 40 and 400 overlays on a phone and a screen, light and dark.
func TestSizes(t *testing.T) {
	for n, ticks := range map[int]int{0: 1, 1: 1000, 40: 600, 400: 40} {
		_, origin := newFleetOf(t, n, ticks)
		b := open(t, origin)
		drawn := chromedp.WaitVisible(".plots canvas", chromedp.ByQuery)
		if n == 0 {
			drawn = chromedp.WaitReady("body", chromedp.ByQuery)
		}
		paths := map[string]string{"front": "/"}
		if n > 0 {
			paths["overlay"] = "/?overlay=" + url.QueryEscape("default")
		}
		if n >= 40 {
			paths["hostile"] = "/?hours=1&overlay=" + url.QueryEscape(names(n)[4])
		}
		for _, width := range []int64{390, 1280} {
			for _, light := range []string{"light", "dark"} {
				for what, path := range paths {
					name := fmt.Sprintf("%s-%d-%d-%s", what, n, width, light)
					var wide int64
					b.run(t, log.Enable(), chromedp.EmulateViewport(width, 900), scheme(light), chromedp.Navigate(origin+path), chromedp.WaitVisible(`//p[@id="live"][text()="live"]`),
						drawn, chromedp.Evaluate(`document.documentElement.scrollWidth`, &wide))
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
}
