package browser

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/cmd/laboratory"
	"muster/cmd/page"
	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/status"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
)

var readme = flag.String("readme", "", "write the screenshots of README.md into this directory")

// watchers notifies each in turn.
type watchers []generator.Watcher

func (w watchers) Began(at time.Time) {
	for _, each := range w {
		each.Began(at)
	}
}

func (w watchers) Ended(r generator.Report) {
	for _, each := range w {
		each.Ended(r)
	}
}

// TestDemo: the page of the demo's morning, in its busiest minute, lists both overlays as well.
func TestDemo(t *testing.T) {
	d := laboratory.NewDemo(filepath.Join(t.TempDir(), "demo"), 98*time.Minute)
	git, err := d.Open(t.Context())
	must(t, err)
	defer git.Close()
	client, err := buildkite.New(buildkite.Config{Org: "acme", Token: func() (string, error) { return "test-token", nil }, HTTP: d.Buildkite.Transport(), Timeout: time.Hour})
	must(t, err)
	clock := d.Clock()
	recorder := status.NewRecorder(status.Config{Started: clock.Now(), Interval: laboratory.DemoInterval, Longest: time.Hour,
		Muster:   status.Muster{Version: "v0.3.0", Repository: "https://git.example.com/acme/fleet.git", Branch: "main", Overlays: "overlays", Organisation: "acme"},
		Services: func() []status.Service { return nil }})
	p := page.New(page.Config{Status: recorder.Snapshot, Now: clock.Now, Overlays: "overlays"})
	defer p.Close()
	must(t, d.Loop(t.Context(), "v0.3.0", generator.Config{Buildkite: client, Watch: watchers{recorder, p}}))
	mux := http.NewServeMux()
	p.AddTo(mux)
	server := httptest.NewServer(mux)
	defer server.Close()
	defer p.HangUp()

	b := open(t, server.URL)
	for _, light := range []string{"light", "dark"} {
		var verdict, table string
		var shot []byte
		b.run(t, log.Enable(), chromedp.EmulateViewport(1280, 1180), scheme(light), chromedp.Navigate(server.URL+"/?hours=1"), chromedp.WaitVisible(`//p[@id="live"][text()="live"]`), loaded(),
			chromedp.Text("#verdict-head", &verdict, chromedp.ByQuery), chromedp.Text("table", &table, chromedp.ByQuery), chromedp.CaptureScreenshot(&shot))
		if verdict != "All well" || !strings.Contains(table, "default") || !strings.Contains(table, "large") {
			t.Errorf("the verdict is %q, and the overlays are\n%s", verdict, table)
		}
		if *readme != "" {
			must(t, os.WriteFile(filepath.Join(*readme, "page-"+light+".png"), shot, 0o644))
		}
		b.quiet(t)
	}
}
