package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/testdata/e2e/process"
)

// exchanges are the HTTP requests that the suite's servers were sent since the last call of begin.
type exchanges struct {
	mu      sync.Mutex
	noticed bool
	all     []exchange
}

type exchange struct {
	host, path   string
	began, ended time.Time
}

// seen are the requests to Buildkite's REST API, the git host and the syncers' webhooks.
var seen exchanges

// note notes the requests to a server.
func (e *exchanges) note(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchange{host: r.Host, path: r.URL.Path, began: time.Now()}
		next.ServeHTTP(w, r)
		x.ended = time.Now()
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.noticed {
			e.all = append(e.all, x)
		}
	})
}

func (e *exchanges) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.noticed, e.all = true, nil
}

// with are the requests to a host whose path ends so, in the order of their ends.
func (e *exchanges) with(address, suffix string) []exchange {
	host, _, _ := strings.Cut(strings.TrimPrefix(address, "http://"), "/")
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.all), func(x exchange) bool {
		return x.host != host || !strings.HasSuffix(x.path, suffix)
	})
}

// traceParts are the parts of the way from a job to its agent, and on what each depends.
var traceParts = []struct{ text, on string }{
	{"Buildkite's webhook arrives", "physics: network; what Buildkite itself takes is not in it"},
	{"muster collects further webhooks", "muster"},
	{"muster polls Buildkite", "physics: its requests, here on loopback"},
	{"muster reads git and decides", "muster"},
	{"muster pushes", "physics: git host"},
	{"the syncer is notified", "syncer"},
	{"the syncer fetches the commit", "syncer"},
	{"the syncer creates the Job", "syncer"},
	{"the Job gets a pod", "physics: Kubernetes"},
	{"the pod gets a node", "physics: Kubernetes"},
	{"container and agent start, the agent connects", "physics: node, agent"},
	{"the agent accepts the job", "physics: agent, Buildkite"},
}

// traced is a muster whose steps are seen from outside.
type traced struct {
	*world
	git, notified string // where it reaches the git host and the syncer

	mu   sync.Mutex
	hook time.Time // when it had accepted the last webhook
}

// TestNotifiedTrace: the seconds from job.scheduled to the agent that runs the job, part by part, with
// webhooks, notifications and the default interval.
func TestNotifiedTrace(t *testing.T) {
	w := shared.world
	w.muster.Stop(10 * time.Second)
	defer func() { must(t, w.muster.Start()) }()
	o, pods := options{}, "each pod a process: no container starts"
	if noContainers() == nil {
		withNodes(t, 1)
		o.patch = onRealNode(w)
		pods = "kubelet " + w.suite.programs["kubelet"].Version + " and containerd, with the image on the node"
	}
	results.traceOn(pods)
	for _, name := range syncers() {
		t.Run(name, func(t *testing.T) {
			v := w.addOverlay(t, "trace", w.syncers[name], o)
			d := &traced{world: w}
			defer d.run(t, v.syncer)()
			var all [][]time.Duration
			for i := range 7 {
				seen.begin()
				began := time.Now()
				build := v.start(fakebuildkite.Step{Command: "true"})
				v.passes(i + 1)
				trace, err := d.of(v, build, began)
				must(t, err)
				t.Logf("%v", trace)
				all = append(all, trace)
				time.Sleep(10 * time.Second) // webhooks are three seconds apart
			}
			results.traced(name, median(all))
			v.complete()
			v.account()
		})
	}
}

// run starts muster for one syncer; stop ends it.
func (d *traced) run(t *testing.T, s syncer) (stop func()) {
	fields := strings.Split(s.notify(), ",")
	at := slices.IndexFunc(fields, func(f string) bool { return strings.HasPrefix(f, "url=") })
	target, err := url.Parse(strings.TrimPrefix(fields[at], "url="))
	must(t, err)
	proxy := httptest.NewServer(seen.note(httputil.NewSingleHostReverseProxy(target)))
	d.notified = proxy.URL
	fields[at] = "url=" + proxy.URL
	repository, err := d.world.git.listen("127.0.0.1")
	must(t, err)
	d.git = repository
	secret := filepath.Join(d.suite.dir, "webhook-secret")
	must(t, os.WriteFile(secret, []byte(tellSecret), 0o600))
	listen := fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])
	p, err := process.Start(d.suite.logs, process.Command{
		Name: "muster-traced-" + s.name(), Path: d.suite.muster, Dir: d.suite.dir,
		Args: []string{
			"run", "--repo", repository, "--buildkite-org", "acme", "--buildkite-url", d.buildkite.url, "--startup-jitter", "0s", "--log-format", "json",
			"--listen", listen, "--buildkite-webhook-secret-file", secret, "--notify", strings.Join(append(fields, "repository="+d.world.git.url), ","),
		},
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.suite.dir, "BUILDKITE_API_TOKEN=test-token"},
	})
	must(t, err)
	must(t, eventually(d.ctx, time.Minute, "muster listens", func() error {
		c, err := net.Dial("tcp", listen)
		if err == nil {
			err = c.Close()
		}
		return err
	}))
	over := false
	d.buildkite.AddWebhook(fakebuildkite.Webhook{Events: []string{"job.scheduled"}, Token: tellSecret, Deliver: func(r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if over {
			return
		}
		r.URL.Host = listen
		answer, err := http.DefaultClient.Do(r)
		if err == nil && answer.StatusCode == http.StatusOK {
			d.hook = time.Now()
		}
		if err == nil {
			answer.Body.Close()
		}
	}})
	return func() {
		d.mu.Lock()
		over = true
		d.mu.Unlock()
		p.Stop(10 * time.Second)
		proxy.Close()
	}
}

// of returns how long each of traceParts took for the job of a build.
func (d *traced) of(v *overlay, build string, began time.Time) ([]time.Duration, error) {
	jobs := v.buildkite.jobsOf(v.name)
	job := jobs[slices.IndexFunc(jobs, func(j fakebuildkite.JobRecord) bool { return j.Build == build })]
	agents := v.buildkite.Agents()
	agent := agents[slices.IndexFunc(agents, func(a fakebuildkite.AgentRecord) bool { return a.ID == job.Agent })]
	tag := agent.Tags[slices.IndexFunc(agent.Tags, func(tag string) bool { return strings.HasPrefix(tag, "dispatch=") })]
	dispatch := strings.TrimPrefix(tag, "dispatch=")
	lives, pods := v.events.jobsOf(v.name)[dispatch], v.events.podsOf(v.name)
	at := slices.IndexFunc(pods, func(p seenPod) bool { return p.Job == dispatch })
	d.mu.Lock()
	hook := d.hook
	d.mu.Unlock()
	first := func(all []exchange, since time.Time) (x exchange) {
		if i := slices.IndexFunc(all, func(x exchange) bool { return !x.began.Before(since) }); i >= 0 {
			x = all[i]
		}
		return x
	}
	last := func(all []exchange, until time.Time) (x exchange) {
		for _, each := range all {
			if each.ended.Before(until) {
				x = each
			}
		}
		return x
	}
	push := first(seen.with(d.git, "/git-receive-pack"), hook)
	if len(lives) != 1 || at < 0 || push.began.IsZero() {
		return nil, fmt.Errorf("%s has the Jobs %+v, %d pods and the push %+v", dispatch, lives, len(pods), push)
	}
	polls, pod := seen.with(v.buildkite.url, ""), pods[at]
	ends := []time.Time{
		hook, first(polls, hook).began, last(polls, push.began).ended, push.began, push.ended, first(seen.with(d.notified, ""), push.began).ended,
		last(seen.with(d.world.git.url, ""), lives[0].Added).ended, lives[0].Added, pod.Added, pod.Scheduled, agent.Connected, job.Started,
	}
	var parts []time.Duration
	for i, end := range ends {
		if end.IsZero() {
			return nil, errors.New("nobody saw: " + traceParts[i].text)
		}
		// What ended before the part ahead of it took no time of its own: others wait for neither.
		end = end.Round(0)
		parts = append(parts, max(0, end.Sub(began)))
		if end.After(began) {
			began = end
		}
	}
	return parts, nil
}

func total(parts []time.Duration) (sum time.Duration) {
	for _, p := range parts {
		sum += p
	}
	return sum
}

// median is the trace with the median total.
func median(all [][]time.Duration) []time.Duration {
	slices.SortFunc(all, func(a, b []time.Duration) int { return int(total(a) - total(b)) })
	return all[len(all)/2]
}

// traceOn notes on what pods run, and traced a trace.
func (r *table) traceOn(pods string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods, r.traces = pods, map[string][]time.Duration{}
}

func (r *table) traced(syncer string, parts []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.traces[syncer] = parts
}

// trace is the section of docs/explanation/performance.md.
func (r *table) trace(s *suite) string {
	var b strings.Builder
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Fprintf(&b, "Recorded on %s: of seven jobs the one with the median total. Kubernetes %s, %s; pods:\n%s; %d processors, load averages %s.\n\n",
		time.Now().UTC().Format(time.DateOnly), s.programs["controlplane"].Version, filepath.Base(s.agent), r.pods, runtime.NumCPU(), strings.Join(strings.Fields(string(load))[:3], ", "))
	titles := map[string]string{"flux": "Flux", "argocd": "Argo CD"}
	row := func(text, on string, seconds func(parts []time.Duration) time.Duration) {
		fmt.Fprintf(&b, "| %s |", text)
		for _, name := range syncers() {
			fmt.Fprintf(&b, " %.2f s |", seconds(r.traces[name]).Seconds())
		}
		fmt.Fprintf(&b, " %s |\n", on)
	}
	b.WriteString("| part |")
	for _, name := range syncers() {
		fmt.Fprintf(&b, " %s |", titles[name])
	}
	b.WriteString(" depends on |\n|" + strings.Repeat("---|", 2+len(syncers())) + "\n")
	for i, p := range traceParts {
		row(p.text, p.on, func(parts []time.Duration) time.Duration { return parts[i] })
	}
	row("**from `job.scheduled` to the running job**", "", total)
	row("physics in it", "", func(parts []time.Duration) (sum time.Duration) {
		for i, p := range parts {
			if strings.HasPrefix(traceParts[i].on, "physics") {
				sum += p
			}
		}
		return sum
	})
	return b.String()
}
