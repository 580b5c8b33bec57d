package agent

import (
	"context"
	"embed"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/base"
	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/fleet"
	"muster/generator/plan"
	"muster/overlays"
)

// binary is the agent.
var binary string

func TestMain(m *testing.M) {
	var err error
	if binary, err = Build(context.Background(), "../../bin"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// must ends a test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const agentToken = "bkct_3f7Q-secret"

// world is a simulated Buildkite in real time, on a socket with TLS, and what
// muster makes of it.
type world struct {
	*fakebuildkite.Server
	t       *testing.T
	http    *httptest.Server
	cluster string
	cert    string // path of the certificate that the agent is to trust
	began   time.Time
	client  *buildkite.Client
	seen    plan.Registrations

	mu    sync.Mutex
	asked []string                 // the agents' requests
	gates map[string]chan struct{} // requests that wait
}

// newWorld starts a Buildkite whose clock follows the machine's: an agent lives
// in real time. Nothing in it falls due faster than that.
func newWorld(t *testing.T, options fakebuildkite.Options) *world {
	t.Helper()
	w := &world{t: t, began: time.Now(), gates: map[string]chan struct{}{}}
	options.Now, options.AgentInterval, options.BeforeRequest = w.began, time.Second, w.note
	w.Server = fakebuildkite.New(options)
	w.cluster = w.AddCluster("one")
	w.AddQueue(w.cluster, "default")
	w.AddAgentToken(w.cluster, agentToken)
	w.http = httptest.NewUnstartedServer(w.Server)
	w.http.EnableHTTP2 = true // streaming is gRPC
	w.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.http.StartTLS()
	w.cert = filepath.Join(t.TempDir(), "cert.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.http.Certificate().Raw})
	must(t, os.WriteFile(w.cert, text, 0o600))
	var err error
	w.client, err = buildkite.New(buildkite.Config{
		Org: "acme", URL: w.http.URL, HTTP: w.http.Client().Transport,
		Token: func() (string, error) { return "test-token", nil },
	})
	must(t, err)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case now := <-tick.C:
				w.AdvanceTo(now)
			}
		}
	}()
	t.Cleanup(func() {
		for _, path := range []string{"/ping", "/StreamPings", "/accept", "/disconnect"} {
			w.release(path)
		}
		w.http.CloseClientConnections()
		w.http.Close()
		close(stop)
		<-stopped
	})
	return w
}

// note writes down an agent's request, and lets it wait at a closed gate.
func (w *world) note(r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/v2/") {
		return
	}
	w.mu.Lock()
	w.asked = append(w.asked, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
	var gate chan struct{}
	for path, g := range w.gates {
		if strings.HasSuffix(r.URL.Path, path) {
			gate = g
		}
	}
	w.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	}
}

// hold lets requests whose path ends so wait until release.
func (w *world) hold(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gates[path] = make(chan struct{})
}

func (w *world) release(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if gate, ok := w.gates[path]; ok {
		close(gate)
		delete(w.gates, path)
	}
}

// count is how often agents have made a request, by the last part of its path.
func (w *world) count(request string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, asked := range w.asked {
		if asked == request {
			n++
		}
	}
	return n
}

// requests are what agents have asked, without what repeats by the clock.
func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.asked), func(asked string) bool {
		return slices.Contains([]string{"ping", "heartbeat", "StreamPings", "chunks", "header_times"}, asked) ||
			strings.HasPrefix(asked, "d0000000-") // a job's state
	})
}

// order adds a dispatch to the overlay that "muster init" writes, and returns
// the overlay and the Job's manifest.
func (w *world) order(d plan.Dispatch) (plan.Overlay, []byte) {
	w.t.Helper()
	dir := w.t.TempDir()
	for name, files := range map[string]embed.FS{"base": base.Files, "overlays": overlays.Files} {
		must(w.t, os.CopyFS(filepath.Join(dir, name), files))
	}
	loaded, err := fleet.NewLoader("overlays").Load(os.DirFS(dir))
	must(w.t, err)
	next, changes, err := loaded[0].Add([]plan.Dispatch{d})
	must(w.t, err)
	for _, c := range changes {
		if strings.HasSuffix(c.Path, "/"+d.ID+".yaml") {
			return next.Overlay, c.Content
		}
	}
	w.t.Fatalf("no manifest of %s among the changes", d.ID)
	return plan.Overlay{}, nil
}

// counts is what muster makes of an observation, as far as agents matter.
type counts struct {
	// Own agents are connected; of them Busy have a job, and Spare wait for one.
	Own, Busy, Spare int
	// Stopping agents are connected and take no more jobs.
	Stopping int
	// Registered indexes have been seen, now or before.
	Registered int
	// Worked says that one of them has had a job.
	Worked bool
}

// look reads Buildkite as muster does, and counts.
func (w *world) look(overlay plan.Overlay) (plan.Snapshot, counts) {
	w.t.Helper()
	snapshot, err := w.client.Snapshot(w.t.Context(), plan.Query{At: time.Now(), Since: w.began})
	must(w.t, err)
	w.seen.Note(snapshot)
	observed := plan.Observe([]plan.Overlay{overlay}, snapshot, &w.seen)
	if len(observed) != 1 || len(observed[0].Overlays) != 1 {
		w.t.Fatalf("observed %+v, want one overlay of one queue", observed)
	}
	supply := observed[0].Overlays[0]
	d := overlay.Dispatches[0]
	seen := supply.Dispatches[d.ID]
	spare := 0
	for _, g := range observed[0].Idle {
		if g.Overlay == overlay.Name {
			spare += g.Agents
		}
	}
	return snapshot, counts{
		Own: supply.Own, Busy: supply.Busy, Spare: spare, Stopping: supply.Stopping,
		Registered: seen.Registered.Below(d.Agents), Worked: seen.HadJob > 0,
	}
}
