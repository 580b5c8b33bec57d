package buildkite_test

import (
	"context"
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

// mayGraphQL is a token that may ask GraphQL.
var mayGraphQL = buildkite.Token{Scopes: []string{"graphql"}}

// TestLargeGraphQLAnswers: what GraphQL answers is about 500 jobs at most. More than
// 1 MiB is an error, also when it is small on the wire, and the rest is not read.
func TestLargeGraphQLAnswers(t *testing.T) {
	unraced.Only(t)
	const size = 256 << 20
	text := func(head, filler string) io.Reader {
		return io.LimitReader(io.MultiReader(strings.NewReader(head), &repeated{text: strings.Repeat(filler, 1<<10)}), size)
	}
	jobs := func() io.Reader {
		return text(`{"data":{"organization":{"jobs":{"edges":[`, `{"node":{"uuid":"01981111-7d9f-495e-a17b-000000000001","state":"LIMITED"}},`)
	}
	packed := bomb(t, size)
	const tooLarge = "GraphQL: the answer has a value of more than 1 MiB"
	for name, c := range map[string]struct {
		body io.Reader
		gzip bool
		want string
	}{
		"many jobs":   {jobs(), false, tooLarge},
		"one string":  {text(`{"data":"`, "x"), false, tooLarge},
		"a message":   {text(`{"errors":[{"message":"`, "x"), false, tooLarge},
		"blanks":      {text("", " "), false, "GraphQL: the answer is larger than 64 MiB"},
		"a gzip bomb": {strings.NewReader(string(packed)), true, tooLarge},
		"no JSON":     {strings.NewReader("<html>"), false, "GraphQL: the answer is not whole JSON"},
		"no object":   {strings.NewReader("[]"), false, "GraphQL: the answer is not what was asked for"},
		"more of it":  {strings.NewReader(`{"data":{"organization":{}}} {}`), false, "GraphQL: the answer is not whole JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.gzip {
					w.Header().Set("Content-Encoding", "gzip")
				}
				_, _ = io.Copy(w, c.body)
			}))
			defer server.Close()
			client := newClient(t, buildkite.WithBiggest(buildkite.Config{URL: server.URL, Timeout: time.Hour}, 64<<20))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := client.CompareLimited(context.Background(), mayGraphQL, plan.Snapshot{})
			runtime.ReadMemStats(&after)
			checkError(t, name, err, c.want)
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 16<<20 {
				t.Errorf("%d MiB were allocated", allocated>>20)
			}
		})
	}
}

// TestGraphQLWaitsNoLonger: a large answer that is refused costs no more than was read
// of it: the sender does not get rid of the rest.
func TestGraphQLWaitsNoLonger(t *testing.T) {
	read := int64(0)
	api := roundTrip(func(r *http.Request) (*http.Response, error) {
		response := (&static{}).answer(r, "", "")
		body := io.MultiReader(strings.NewReader(`{"data":"`), io.LimitReader(&repeated{text: "x"}, 1<<30))
		response.Body = &untilDone{r.Context(), io.TeeReader(body, counter{&read})}
		return response, nil
	})
	_, err := newClient(t, buildkite.Config{HTTP: api}).CompareLimited(context.Background(), mayGraphQL, plan.Snapshot{})
	checkError(t, "a large answer", err, "more than 1 MiB")
	if read > 2<<20 {
		t.Errorf("%d MiB of it were read", read>>20)
	}
}

// untilDone is a body that ends with its request, as the standard transport's does.
type untilDone struct {
	ctx context.Context
	io.Reader
}

func (b *untilDone) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.Reader.Read(p)
}

func (*untilDone) Close() error { return nil }
