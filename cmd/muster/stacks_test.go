package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/branch"
)

// firstPause is a simulated Buildkite's clock that stops a run at its first long pause.
type firstPause struct {
	*fakebuildkite.Server
	stop func()
}

func (c firstPause) Sleep(ctx context.Context, d time.Duration) error {
	if d > 2*time.Second {
		c.stop()
		return context.Canceled
	}
	return c.Server.Sleep(ctx, d)
}

// TestStacksWithManyQueues asserts that with 25 queues and 30 ms for each request every
// command decides within five simulated seconds, and that no request is refused, with and
// without an API token.
func TestStacksWithManyQueues(t *testing.T) {
	w, p, stdout, stderr := fleetProgram(t)
	changes, err := starterChanges(func(text []byte) []byte { return text })
	if err != nil {
		t.Fatal(err)
	}
	var more []branch.Change
	for i := range 24 {
		queue := fmt.Sprint("queue-", i)
		w.buildkite.AddQueue(w.cluster.BuildkiteCluster, queue)
		for _, c := range changes {
			if name, ok := strings.CutPrefix(c.Path, "overlays/default/"); ok {
				content := bytes.ReplaceAll(c.Content, []byte("queue: default"), []byte("queue: "+queue))
				content = bytes.ReplaceAll(content, []byte("muster-default"), []byte("muster-"+queue))
				more = append(more, branch.Change{Path: "overlays/" + queue + "/" + name, Content: content})
			}
		}
	}
	if _, err := w.repo.Commit("Add queues", start.Add(-time.Hour), more...); err != nil {
		t.Fatal(err)
	}
	slow := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.buildkite.Advance(30 * time.Millisecond)
		w.buildkite.ServeHTTP(rw, r)
	}))
	t.Cleanup(slow.Close)
	token := agentTokenFile(t)
	for i, command := range []string{"check", "plan", "run --once", "run --startup-jitter 0s"} {
		api := i%2 == 0
		stdout.Reset()
		stderr.Reset()
		w.buildkite.CreateBuild(fakebuildkite.Build{Cluster: w.cluster.BuildkiteCluster, Steps: []fakebuildkite.Step{{Agents: []string{"queue=queue-7"}, Duration: time.Hour}}})
		w.buildkite.Advance(time.Minute) // the stack's last requests, by another process, are long ago
		began := w.buildkite.Now()
		ctx, stop := context.WithCancel(t.Context())
		q := p
		q.args = append(strings.Fields(command), "--source", "stacks", "--agent-token-file", token, "--agent-endpoint", slow.URL)
		q.environ = append(q.environ, "MUSTER_BUILDKITE_URL="+slow.URL+"/")
		if !api {
			q.environ = append(q.environ, "BUILDKITE_API_TOKEN=")
		}
		q.clock = firstPause{w.buildkite, stop}
		code := q.run(ctx)
		stop()
		want := exitOK
		if command == "plan" {
			want = exitChanges
		}
		if took := w.buildkite.Now().Sub(began); code != want || took > 5*time.Second {
			t.Errorf("%s, API token %v: exit code %d after %s:\n%s%s", command, api, code, took, stdout, stderr)
		}
		if strings.HasPrefix(command, "run") && strings.Count(stderr.String(), "msg=dispatched") != 1 {
			t.Errorf("%s, API token %v ordered nothing:\n%s", command, api, stderr)
		}
	}
	if n := w.buildkite.Stats().Limited; n > 0 {
		t.Errorf("%d requests were refused", n)
	}
}
