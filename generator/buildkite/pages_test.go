package buildkite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"muster/generator/buildkite"
	"muster/generator/plan"
)

// TestEndlessLists: a list that always names a next page ends after a thousand,
// and one whose pages do not follow each other, so that the reading goes back time
// and again, after two thousand requests. One that never continues the page before is
// an error sooner.
func TestEndlessLists(t *testing.T) {
	for name, c := range map[string]struct {
		path  string
		fresh int // every n-th page has no agent that was read; zero: none
		most  int
		want  string
	}{
		"builds":                    {"/builds", 0, 1000, "the list continues after 1000 pages"},
		"agents that shift":         {"/agents", 3, 2000, "the list continues after 1000 pages"},
		"agents that do not":        {"/agents", 0, 2000, "the list continues after 1000 pages"},
		"other agents on each page": {"/agents", 1, 200, "changes faster than it can be read"},
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
				if c.fresh > 0 && asked%c.fresh == 0 {
					id = fmt.Sprint("fresh", asked)
				}
				return (&static{}).answer(r, fmt.Sprintf(`[{"id":%q,"state":"running","connection_state":"connected"}]`, id), fmt.Sprintf(`<https://x/?page=%d>; rel="next"`, page+1)), nil
			})
			_, err := newClient(t, buildkite.Config{HTTP: api}).Snapshot(context.Background(), plan.Query{At: now})
			checkError(t, name, err, c.want)
			if asked > c.most {
				t.Errorf("%d pages were asked for, want at most %d", asked, c.most)
			}
		})
	}
}

// FuzzDecode feeds any answer to both lists: there is an error or a snapshot
// whose every record can be used.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `[]`, `[{}]`, `{"message":"x"}`, `[1,"x",null,[]]`, `[{"id":"x"`,
		`[{"id":"a","connection_state":"connected","meta_data":["queue=q",1],"priority":"x","job":{"state":"running"}}]`,
		`[{"id":"b","state":"running","author":"x","jobs":[{"id":"j","type":"script","state":"scheduled","runnable_at":"2026-01-05T07:00:00Z","agent_query_rules":["*"]}]}]`,
		`[{"id":"b","state":"running","jobs":[{"id":"j","type":"script","state":"running","agent":{"id":"a","web_url":"/clusters/"}}]}]`,
		`[{"ID":"b","State":"running","JOBS":[{}],"jobs":7}]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		api := &static{lists: map[string]string{"agents": body, "builds": body}}
		c := newClient(t, buildkite.Config{HTTP: api})
		s, err := c.Snapshot(context.Background(), plan.Query{At: now, Since: now})
		if err != nil {
			if json.Valid([]byte(body)) && strings.HasPrefix(strings.TrimSpace(body), "[") {
				t.Errorf("a list was refused: %v", err)
			}
			return
		}
		if !json.Valid([]byte(body)) || !strings.HasPrefix(strings.TrimSpace(body), "[") {
			t.Errorf("no list, and no error")
		}
		for _, a := range s.Agents {
			if a.ID == "" || a.State == "" || len(a.Tags) == 0 {
				t.Errorf("agent %+v", a)
			}
		}
		for _, j := range s.Jobs {
			if j.ID == "" || j.State == "" || len(j.Rules) == 0 {
				t.Errorf("job %+v", j)
			}
		}
		for _, g := range s.Sightings {
			if g.Agent == "" {
				t.Errorf("sighting %+v", g)
			}
		}
	})
}
