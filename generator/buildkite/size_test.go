package buildkite_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite"
	"muster/generator/plan"
	"muster/gitops/unraced"
)

// bulk writes pages of builds as they are read, so that they take no memory. It
// is the API of an organisation with nothing else.
type bulk struct {
	builds, jobs, perPage int
	job                   func(b []byte, build, job int) []byte
	bytes                 int // written
	sample                func()
}

func (b *bulk) RoundTrip(r *http.Request) (*http.Response, error) {
	response := (&static{}).answer(r, "[]", "")
	if !strings.HasSuffix(r.URL.Path, "/builds") {
		return response, nil
	}
	var page int
	if _, err := fmt.Sscan(r.URL.Query().Get("page"), &page); err != nil {
		return nil, err
	}
	from, to := (page-1)*b.perPage, min(page*b.perPage, b.builds)
	if to < b.builds {
		response.Header.Set("Link", fmt.Sprintf(`<https://x/?page=%d>; rel="next"`, page+1))
	}
	response.Body = io.NopCloser(&bulkPage{bulk: b, build: from, to: to})
	return response, nil
}

type bulkPage struct {
	*bulk
	build, to int
	next      int // job
	room      []byte
	pending   []byte // part of room
	ended     bool
}

// Read implements [io.Reader].
func (p *bulkPage) Read(into []byte) (int, error) {
	if len(p.pending) == 0 {
		p.room = p.more(p.room[:0])
		p.pending = p.room
		if p.sample != nil && p.next%100 == 1 {
			p.sample()
		}
	}
	if len(p.pending) == 0 {
		return 0, io.EOF
	}
	n := copy(into, p.pending)
	p.pending = p.pending[n:]
	p.bytes += n
	return n, nil
}

func (p *bulkPage) more(b []byte) []byte {
	switch {
	case p.ended:
		return nil
	case p.build == p.to:
		p.ended = true
		return append(b, ']')
	case p.next == 0:
		before := byte(',')
		if p.build%p.perPage == 0 {
			before = '['
		}
		b = append(b, before)
		b = fmt.Appendf(b, `{"id":"b%08d","state":"running","jobs":[`, p.build)
	}
	if p.next < p.jobs {
		if p.next > 0 {
			b = append(b, ',')
		}
		p.next++
		return p.job(b, p.build, p.next)
	}
	p.build++
	p.next = 0
	return append(b, "]}"...)
}

// signature is as long as a step's is.
const signature = "eyJhbGciOiJIUzUxMiJ9eyJhbGciOiJIUzUxMiJ9eyJhbGciOiJIUzUxMiJ9eyJhbGciOiJIUzUxMiJ9eyJhbGciOiJIUzUxMiJ9eyJhbGci"

// largeJob is a job of some 1,330 bytes, as the documentation's samples are: of
// four, two are pending, one runs and one has ended.
func largeJob(b []byte, build, job int) []byte {
	var room [64]byte
	id := fmt.Appendf(room[:0], "0198%04x-7d9f-495e-a17b-%012x", build, job)
	state := [...]string{"running", "passed", "scheduled", "scheduled"}[job%4]
	var some [512]byte
	agent := append(some[:0], `"agent":null`...)
	if job%4 < 2 {
		agent = fmt.Appendf(some[:0], `"agent":{"id":"0199%04x-7d9f-495e-a17b-%012x","name":"default-7f3k9c2b-%d","meta_data":["queue=default","dispatch=default-7f3k9c2b","index=%d","overlay=default"],"hostname":"node","user_agent":"buildkite-agent/3.138.2"}`, build, job, job, job)
	}
	return fmt.Appendf(b, `{"id":%q,"graphql_id":"Sm9iLS0tMTQ4YWQ0MzgtM2E2My00YWIxLWIzMjItNzIxM2Y3YzJhMWFi","type":"script","name":":package: build","step_key":"package",`+
		`"step":{"id":"018c0f56-c87c-47e9-95ee-aa47397b4496","signature":{"value":%q,"algorithm":"HS512","signed_fields":["command","env","plugins"]}},`+
		`"priority":{"number":0},"agent_query_rules":["queue=default","os=linux"],"state":%q,"build_url":"https://api.buildkite.com/v2/organizations/acme/pipelines/app/builds/%d",`+
		`"web_url":"https://buildkite.com/acme/app/builds/%d#%s","log_url":"https://api.buildkite.com/v2/organizations/acme/pipelines/app/builds/%d/jobs/%s/log",`+
		`"command":"scripts/build.sh","soft_failed":false,"exit_status":null,"artifact_paths":"","created_at":"2026-01-05T07:58:00.000Z","scheduled_at":"2026-01-05T07:58:00.000Z",`+
		`"runnable_at":"2026-01-05T07:59:00.000Z","started_at":null,"finished_at":null,"retried":false,"retries_count":0,"parallel_group_index":%d,"cluster_id":"42f1a7da-812d-4430-93d8-1cc7c33a6bcf","cluster_queue_id":"01885682-55a7-44f5-84f3-0402fb452e66",%s}`,
		id, signature, state, build, build, id, build, id, job, agent)
}

// TestMemory: a hundred builds of a thousand jobs, a page of 133 MiB, are read in
// less than 64 MB of memory, and nothing of that is kept.
func TestMemory(t *testing.T) {
	unraced.Only(t)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var peak uint64
	api := &bulk{builds: 100, jobs: 1000, perPage: 100, job: largeJob, sample: func() { peak = max(peak, heap()) }}
	runtime.GC()
	before := heap()
	c := newClient(t, buildkite.Config{HTTP: api})
	snapshot, err := c.Snapshot(context.Background(), plan.Query{At: now})
	peak = max(peak, heap())
	if err != nil {
		t.Fatal(err)
	}
	if len(snapshot.Jobs) != 50_000 || len(snapshot.Sightings) != 50_000 {
		t.Errorf("%d jobs, %d sightings", len(snapshot.Jobs), len(snapshot.Sightings))
	}
	size := api.bytes
	snapshot.Jobs, snapshot.Sightings = nil, nil
	runtime.GC()
	left := heap()
	runtime.KeepAlive(c)
	t.Logf("%d MiB were read; the heap was %d KiB before, at most %d MiB, and %d KiB after", size>>20, before>>10, peak>>20, left>>10)
	if peak-min(peak, before) > 64_000_000 {
		t.Errorf("the heap grew by %d bytes", peak-before)
	}
	if left > before+1<<20 {
		t.Errorf("%d bytes are kept", left-before)
	}
}

// TestAnswersAreBounded: a client that is given no bound has one.
func TestAnswersAreBounded(t *testing.T) {
	if got := buildkite.Biggest(newClient(t, buildkite.Config{})); got != buildkite.BiggestAnswer {
		t.Errorf("at most %d bytes of an answer are read, want %d", got, buildkite.BiggestAnswer)
	}
}

// TestLargeAnswers: an answer or a value of more than the bound is an error, also when it is
// small on the wire, and takes little memory.
func TestLargeAnswers(t *testing.T) {
	unraced.Only(t)
	const most, size = 64 << 20, 128 << 20 // 640 MiB take too long with the race detector
	endless := func(text string) io.Reader {
		return io.LimitReader(&repeated{text: strings.Repeat(text, 1<<16/len(text)+1)}, size)
	}
	for name, body := range map[string]func(w http.ResponseWriter){
		"one list": func(w http.ResponseWriter) {
			_, _ = io.Copy(w, io.MultiReader(strings.NewReader(`[0`), endless(`,"`+strings.Repeat("x", 10_000)+`"`)))
		},
		"one string": func(w http.ResponseWriter) { _, _ = io.Copy(w, io.MultiReader(strings.NewReader(`["`), endless("x"))) },
		"blanks":     func(w http.ResponseWriter) { _, _ = io.Copy(w, endless(" ")) },
		"a gzip bomb": func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb(t, size))
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { body(w) }))
			defer server.Close()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := newClient(t, buildkite.WithBiggest(buildkite.Config{URL: server.URL, Timeout: time.Hour}, most)).Snapshot(context.Background(), plan.Query{At: time.Now()})
			runtime.ReadMemStats(&after)
			want := "the answer has a value of more than 4 MiB"
			if name == "one list" {
				want = "the answer is larger than 64 MiB"
			}
			checkError(t, name, err, "listing agents: page 1: "+want)
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 32<<20 && name != "a gzip bomb" {
				t.Errorf("%d MiB were allocated", allocated>>20)
			}
		})
	}
}

// repeated is a text over and over.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	for i := 0; i < len(p); {
		n := copy(p[i:], r.text[r.at:])
		i += n
		r.at = (r.at + n) % len(r.text)
	}
	return len(p), nil
}

// bomb is a page of one string that unpacks to that size.
func bomb(t *testing.T, size int) []byte {
	t.Helper()
	pack := func(text string) []byte {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return packed.Bytes()
	}
	const part = 1 << 24
	// Files of gzip one after another are one.
	return append(pack(`["`), bytes.Repeat(pack(strings.Repeat("x", part)), size/part)...)
}

// TestLargeMessage: an error's message is read so far and no further, in each of five attempts.
func TestLargeMessage(t *testing.T) {
	read := int64(0)
	api := roundTrip(func(r *http.Request) (*http.Response, error) {
		response := (&static{}).answer(r, "", "")
		response.StatusCode = http.StatusBadGateway
		response.Body = io.NopCloser(io.TeeReader(io.LimitReader(&repeated{text: "<p>"}, 1<<30), counter{&read}))
		return response, nil
	})
	_, err := newClient(t, buildkite.Config{HTTP: api}).Snapshot(context.Background(), plan.Query{At: now})
	checkError(t, "a large message", err, "502 Bad Gateway")
	if read > 10<<20 {
		t.Errorf("%d MiB of it were read", read>>20)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type counter struct{ n *int64 }

func (c counter) Write(p []byte) (int, error) {
	*c.n += int64(len(p))
	return len(p), nil
}

// TestTooManyJobs: the size of a snapshot is limited.
func TestTooManyJobs(t *testing.T) {
	unraced.Only(t)
	api := &bulk{builds: 200, jobs: 4000, perPage: 100, job: func(b []byte, build, job int) []byte {
		return fmt.Appendf(b, `{"id":"%d-%d","type":"script","state":"waiting"}`, build, job)
	}}
	_, err := newClient(t, buildkite.Config{HTTP: api}).Snapshot(context.Background(), plan.Query{At: now})
	checkError(t, "too many jobs", err, "more than 500000 jobs and agents")
}
