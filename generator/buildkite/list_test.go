package buildkite_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"muster/generator/buildkite"
	"muster/generator/plan"
)

// TestEndlessLists: a list that always names a next page ends after a thousand,
// and one whose pages do not follow each other, so that the reading goes back time
// and again, after two thousand requests.
func TestEndlessLists(t *testing.T) {
	for name, c := range map[string]struct {
		path  string
		fresh bool // every third page has no agent that was read
		most  int
	}{
		"builds":             {"/builds", false, 1000},
		"agents that shift":  {"/agents", true, 2000},
		"agents that do not": {"/agents", false, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			api := roundTrip(func(r *http.Request) (*http.Response, error) {
				if !strings.HasSuffix(r.URL.Path, c.path) {
					return (&static{}).answer(r, "[]", ""), nil
				}
				if asked++; asked > 2*c.most {
					return (&static{}).answer(r, "[]", ""), nil // an end, should nothing else be one
				}
				page := 0
				if _, err := fmt.Sscan(r.URL.Query().Get("page"), &page); err != nil {
					return nil, err
				}
				id := "same"
				if c.fresh && asked%3 == 0 {
					id = fmt.Sprint("fresh", asked)
				}
				return (&static{}).answer(r, fmt.Sprintf(`[{"id":%q,"state":"running","connection_state":"connected"}]`, id), fmt.Sprintf(`<https://x/?page=%d>; rel="next"`, page+1)), nil
			})
			_, err := newClient(t, buildkite.Config{HTTP: api}).Snapshot(context.Background(), plan.Query{At: now})
			checkError(t, name, err, "the list continues after 1000 pages")
			if asked > c.most {
				t.Errorf("%d pages were asked for, want at most %d", asked, c.most)
			}
		})
	}
}
