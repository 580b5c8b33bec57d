// Package page serves the status page of muster run: the state of each overlay with its reasons,
// a timeline of a day, and problems.
//
//	Generator.Run ──Report──▶ Page ──▶ HTML, SVG, JSON, events
//	git's log ────ledger────▶
//
// [WriteReport] writes the page of muster report from the same parts.
package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/cmd/output"
	"muster/generator"
	"muster/generator/status"
)

// Config is the configuration of a [Page].
type Config struct {
	// Status returns the current status, and Now the time.
	Status func() status.Snapshot
	Now    func() time.Time
	// Overlays is the directory of overlays, as in "overlays".
	Overlays string
	// Commits is the history of the timeline before the start; nil: the timeline begins with
	// the start.
	Commits Commits
}

// Page serves the status page. It is a [generator.Watcher] and must be notified of a tick after
// the watcher that provides Config.Status.
type Page struct {
	cfg     Config
	history *history
	load    *loader
	events  *events
	links   links
	end     context.CancelFunc
}

// New returns a page without ticks. The caller closes it.
func New(cfg Config) *Page {
	ctx, end := context.WithCancel(context.Background())
	s := cfg.Status()
	p := &Page{
		cfg: cfg, history: newHistory(cfg.Overlays, 2*s.Interval()+time.Minute), events: newEvents(),
		links: newLinks(s.Muster.Repository, s.Muster.Organisation, s.Muster.CommitURL), end: end,
	}
	p.load = &loader{commits: cfg.Commits, history: p.history, ctx: ctx, onChange: p.events.notify, busy: make(chan struct{}, 1)}
	return p
}

// Began implements [generator.Watcher].
func (p *Page) Began(time.Time) {}

// Ended implements [generator.Watcher].
func (p *Page) Ended(r generator.Report) {
	p.history.addTick(r)
	p.load.tick(r)
	p.events.notify()
}

// HangUp ends the streams of events, so that a server can be shut down.
func (p *Page) HangUp() { p.events.close() }

// Close ends the streams and any read in progress, and returns when they have ended.
func (p *Page) Close() {
	p.HangUp()
	p.end()
	p.load.wait()
}

//go:embed assets
var assets embed.FS

// policy is the page's Content-Security-Policy: no other origins, and no inline scripts or
// styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// AddTo adds the page's paths.
func (p *Page) AddTo(mux *http.ServeMux) {
	mux.Handle("GET /{$}", secured(http.HandlerFunc(p.html)))
	mux.Handle("GET /status.json", secured(http.HandlerFunc(p.json)))
	mux.Handle("GET /timeline.svg", secured(http.HandlerFunc(p.timeline)))
	mux.Handle("GET /timeline.json", secured(http.HandlerFunc(p.timelineJSON)))
	mux.Handle("GET /reasons", secured(http.HandlerFunc(p.reasons)))
	mux.Handle("GET /events", secured(p.events))
	for _, name := range []string{"page.js", "page.css", "uPlot.js", "icon.svg", "icon-good.svg", "icon-warn.svg", "icon-bad.svg", "icon-unknown.svg"} {
		mux.Handle("GET /assets/"+name, secured(asset(name)))
	}
}

// secured sets the headers of all responses.
func secured(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for k, v := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			w.Header().Set(k, v)
		}
		h.ServeHTTP(w, r)
	})
}

// asset serves an embedded file. Browsers revalidate it each time, by its digest.
func asset(name string) http.Handler {
	content, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is not embedded
	}
	sum := sha256.Sum256(content)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", tag)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	})
}

// send responds with the text that write writes, made printable.
func (p *Page) send(w http.ResponseWriter, kind string, write func(io.Writer) error) {
	var text bytes.Buffer
	if err := write(&output.Printable{To: &text}); err != nil {
		http.Error(w, "the page cannot be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", fmt.Sprint(text.Len()))
	_, _ = w.Write(text.Bytes())
}

func (p *Page) json(w http.ResponseWriter, _ *http.Request) {
	p.send(w, "application/json", func(to io.Writer) error { return json.NewEncoder(to).Encode(p.cfg.Status().At(p.cfg.Now())) })
}

// periods are the lengths of a timeline, in hours.
var periods = []int{1, 6, 24}

// usualPeriod is the default.
const usualPeriod = 6

// periodOf returns the hours in a query, the default if it has none of [periods].
func periodOf(query url.Values) int {
	hours, _ := strconv.Atoi(query.Get("hours"))
	if !slices.Contains(periods, hours) {
		return usualPeriod
	}
	return hours
}

// timeline serves the picture of the overlay and the period in the query. The
// Content-Security-Policy allows its style by digest, because a browser that opens the
// picture itself treats it as a page.
func (p *Page) timeline(w http.ResponseWriter, r *http.Request) {
	s, ok := p.requested(w, r)
	if !ok {
		return
	}
	t := s.picture()
	t.Title = output.ShownAs(t.Title)
	for _, b := range t.Bands {
		for i := range b.Marks {
			b.Marks[i].Text = output.ShownAs(b.Marks[i].Text)
		}
	}
	picture := t.SVG()
	_, style, _ := strings.Cut(string(picture), `<style type="text/css">`)
	style, _, _ = strings.Cut(style, "</style>")
	style = strings.NewReplacer("<![CDATA[", "", "]]>", "").Replace(style)
	sum := sha256.Sum256([]byte(style))
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "image/svg+xml")
	_, _ = w.Write(picture)
}

func (p *Page) reasons(w http.ResponseWriter, _ *http.Request) {
	p.send(w, "text/html; charset=utf-8", func(to io.Writer) error { return reasons().Render(to) })
}

// html serves the page of all overlays, or of the one in the query.
func (p *Page) html(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	v, ok := p.view(query.Get("overlay"), periodOf(query))
	if !ok {
		http.Error(w, "there is no such overlay", http.StatusNotFound)
		return
	}
	p.send(w, "text/html; charset=utf-8", func(to io.Writer) error { return v.document().Render(to) })
}
