package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/cmd/page"
	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/condition"
	"muster/generator/metrics"
	"muster/generator/status"
	"muster/generator/webhook"

	"github.com/spf13/cobra"
)

// endpoints are the HTTP endpoints of muster run.
type endpoints struct {
	clock   generator.Clock
	status  *status.Recorder
	metrics *metrics.Metrics
	page    *page.Page
	hooks   *webhook.Receiver // nil: no webhooks
}

// newEndpoints returns endpoints without a tick. commits is the history of the fleet
// repository; nil: no history. The caller closes the page.
func newEndpoints(clock generator.Clock, c status.Config, commits page.Commits) (*endpoints, error) {
	e := &endpoints{clock: clock, status: status.NewRecorder(c)}
	e.page = page.New(page.Config{
		Status: e.status.Snapshot, Now: clock.Now, Overlays: c.Muster.Overlays, Commits: commits,
	})
	var err error
	e.metrics, err = metrics.New(e.status.Snapshot, clock.Now)
	return e, err
}

// watcher returns the watcher that updates the endpoints.
func (e *endpoints) watcher() generator.Watcher {
	all := watchers{e.status, e.metrics, e.page}
	if e.hooks != nil {
		all = append(all, e.hooks)
	}
	return all
}

// handler serves probes, metrics, the status page and webhooks.
func (e *endpoints) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		var problems []string
		if stuck := e.status.Snapshot().Stuck(e.clock.Now()); stuck != "" {
			problems = []string{stuck}
		}
		answer(w, len(problems) == 0, problems)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready(w, e.status.Snapshot().At(e.clock.Now()))
	})
	mux.Handle("GET /metrics", e.metrics.Handler(output.ShownAs))
	e.page.AddTo(mux)
	if e.hooks != nil {
		e.hooks.AddTo(mux)
	}
	return mux
}

// ready answers /readyz: "ok", or why muster is not ready. The conditions of overlays that do not
// affect that follow.
func ready(w http.ResponseWriter, s status.Snapshot) {
	blocking := s.NotReady()
	lines := blocking
	for _, c := range s.Problems() {
		if line := c.String(); c.Type != condition.Ready && !slices.Contains(blocking, line) {
			lines = append(lines, line)
		}
	}
	answer(w, len(blocking) == 0, lines)
}

// answer answers a probe: "ok" if there is no problem that fails it, and a line for each.
func answer(w http.ResponseWriter, ok bool, problems []string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if ok {
		problems = append([]string{"ok"}, problems...)
	} else {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = io.WriteString(&output.Printable{To: w}, strings.Join(problems, "\n")+"\n")
}

// profiles serves the profiles of package pprof, except the command line: its flags may contain
// credentials.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// server is an HTTP server with one address.
type server struct {
	log    *slog.Logger
	what   string
	server *http.Server
	done   chan struct{}
}

// serve starts a server. An address that cannot be used is an error.
func serve(ctx context.Context, log *slog.Logger, what, address string, h http.Handler, write time.Duration) (*server, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for %s on %s: %s", what, address, listenProblem(err))
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok && at.IP.IsLoopback() {
		h = localHostsOnly(h)
	}
	s := &server{log: log, what: what, done: make(chan struct{}), server: &http.Server{
		Handler: h, ConnState: (&connections{}).changed, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: write, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}
	log.Info("listening", "for", what, "address", listener.Addr().String())
	go func() {
		defer close(s.done)
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("listening ended", "for", what, "err", err)
		}
	}()
	return s, nil
}

// listenProblem returns why an address cannot be used, and the remedy.
func listenProblem(err error) string {
	_, unknown := errors.AsType[*net.DNSError](err)
	switch {
	case unknown:
		return "there is no such host: give an IP address of this machine, or only a port, as in :8080"
	case errors.Is(err, syscall.EADDRINUSE):
		return "another program uses this port: give a free one"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "this machine does not have the address: give one that it has, or only a port, as in :8080"
	case errors.Is(err, syscall.EACCES):
		return "this user may not use the port: give one from 1024 on"
	}
	return err.Error()
}

// maxConnections is the maximum number of open connections: 64 event streams, and as many
// others. Each takes about 20 kB, and more while it is served.
const maxConnections = 128

// connections limits the open connections of a server. A new connection closes the oldest
// one, so that a client with many connections cannot block probes.
type connections struct {
	mu   sync.Mutex
	open []net.Conn // the oldest first
}

// changed implements [http.Server.ConnState].
func (c *connections) changed(conn net.Conn, to http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch to {
	case http.StateNew:
		if len(c.open) == maxConnections {
			_ = c.open[0].Close()
			c.open = slices.Delete(c.open, 0, 1)
		}
		c.open = append(c.open, conn)
	case http.StateClosed, http.StateHijacked:
		c.open = slices.DeleteFunc(c.open, func(other net.Conn) bool { return other == conn })
	}
}

// localHostsOnly rejects requests for other hosts than this machine: a browser sends a page's
// requests here if the page's host name resolves to 127.0.0.1 (DNS rebinding), with that
// name as Host. All methods are checked, because net/http/pprof serves any. Webhooks are
// exempt: they are signed, and a tunnel may forward them under its own name.
func localHostsOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hook := r.URL.Path == webhook.BuildkitePath || r.URL.Path == webhook.GitPath
		if !hook && !isLocalHost(r.Host) {
			http.Error(w, "this address answers requests for localhost only", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isLocalHost reports whether a Host header has a loopback address or a name that
// resolves to one by definition (RFC 6761, section 6.3).
func isLocalHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	ip := net.ParseIP(host)
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

// stop closes the listener, and completes pending requests for a few seconds at most.
func (s *server) stop() {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		s.log.Debug("closing connections", "for", s.what, "err", err)
		_ = s.server.Close()
	}
	<-s.done
}

// gather is the time from a webhook to the tick that it triggers: a build's jobs are
// scheduled one after another.
const gather = 250 * time.Millisecond

// webhookFlags are the flags of webhooks.
type webhookFlags struct {
	buildkite, git string        // files with secrets; empty: disabled
	interval       time.Duration // only of run
}

func (f *webhookFlags) addTo(c *cobra.Command) {
	c.Flags().StringVar(&f.buildkite, "buildkite-webhook-secret-file", "", "file with the token of the Buildkite webhook, read at each request; enables /webhooks/buildkite of --listen")
	c.Flags().StringVar(&f.git, "git-webhook-secret-file", "", "file with the secret of the git host's webhook, read at each request; enables /webhooks/git of --listen")
}

// enabled reports whether a webhook is enabled.
func (f *webhookFlags) enabled() bool { return f.buildkite+f.git != "" }

// readers returns functions that read the secrets, nil for disabled webhooks, and the errors
// of reading them now.
func (f *webhookFlags) readers() (buildkite, git func() ([]byte, error), invalid []error) {
	reader := func(what, file string) func() ([]byte, error) {
		if file == "" {
			return nil
		}
		read := func() ([]byte, error) {
			secret, err := invocation.ReadSecret(what, file)
			return []byte(secret), err
		}
		if _, err := read(); err != nil {
			invalid = append(invalid, err)
		}
		return read
	}
	buildkite = reader("the secret of Buildkite's webhook", f.buildkite)
	git = reader("the secret of the git host's webhook", f.git)
	return buildkite, git, invalid
}

// webhooks adds the configured webhooks to the endpoints, and returns the triggers of early
// ticks; nil: no webhooks.
func (s *settings) webhooks(f webhookFlags, ends *endpoints, client *buildkite.Client, log *slog.Logger) (*generator.Triggers, error) {
	if !f.enabled() {
		return nil, nil
	}
	buildkiteSecret, gitSecret, invalid := f.readers()
	if len(invalid) > 0 {
		return nil, output.Usage(invalid[0])
	}
	ends.hooks = webhook.New(webhook.Config{
		BuildkiteSecret: buildkiteSecret, GitSecret: gitSecret, Organisation: s.buildkite.Org,
		Branch: s.git.Branch, Now: s.program.Clock.Now, Log: log,
		Count: func(source webhook.Source, result webhook.Result) {
			ends.metrics.Webhooks(string(source), string(result), 1)
		},
	})
	for _, source := range webhook.Sources() {
		if source == webhook.Buildkite && f.buildkite == "" || source != webhook.Buildkite && f.git == "" {
			continue
		}
		for _, result := range webhook.Results() {
			ends.metrics.Webhooks(string(source), string(result), 0)
		}
	}
	triggers := s.triggers(client, f.interval, log)
	triggers.Calls, triggers.Gather, triggers.Problems = ends.hooks.Calls(), gather, ends.hooks.Problems
	return triggers, nil
}

// serve starts the servers that the flags enable. stop ends them.
func (f *runFlags) serve(ctx context.Context, log *slog.Logger, ends *endpoints) (stop func(), err error) {
	var all []*server
	stop = func() {
		if ends != nil {
			ends.page.HangUp()
			defer ends.page.Close()
		}
		for _, s := range all {
			s.stop()
		}
	}
	start := func(what, address string, h http.Handler, write time.Duration) {
		if err == nil {
			var s *server
			if s, err = serve(ctx, log, what, address, h, write); err == nil {
				all = append(all, s)
			}
		}
	}
	if ends != nil {
		what := "the status page, probes and metrics"
		if ends.hooks != nil {
			what = "the status page, probes, metrics and webhooks"
		}
		start(what, f.listen, ends.handler(), 30*time.Second)
	}
	if f.pprof != "" {
		const longestProfile = 5 * time.Minute
		start("profiles", f.pprof, profiles(), longestProfile)
	}
	return stop, err
}
