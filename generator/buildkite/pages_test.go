package buildkite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite"
	"muster/generator/plan"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
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

// paged serves fixed records in pages of whatever size is asked for.
type paged map[string][]string

func (p paged) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	records := p[strings.TrimPrefix(r.URL.Path, "/v2/organizations/acme/")]
	if query.Has("finished_from") {
		records = p["finished"]
	}
	page, _ := strconv.Atoi(query.Get("page"))
	size, _ := strconv.Atoi(query.Get("per_page"))
	from, to := min((page-1)*size, len(records)), min(page*size, len(records))
	w := httptest.NewRecorder()
	if to < len(records) {
		query.Set("page", strconv.Itoa(page+1))
		w.Header().Set("Link", fmt.Sprintf(`<https://api.buildkite.com%s?%s>; rel="next"`, r.URL.Path, query.Encode()))
	}
	w.Body.WriteString("[" + strings.Join(records[from:to], ",") + "]")
	response := w.Result()
	response.Request = r
	return response, nil
}

// TestListingDoesNotMatter: neither the order of the lists nor the size of the
// pages changes what is observed.
func TestListingDoesNotMatter(t *testing.T) {
	states := []string{"scheduled", "waiting", "running", "passed", "limited", "blocked"}
	rapid.Check(t, func(t *rapid.T) {
		var lists = paged{"clusters": {`{"id":"c1","name":"x"}`, `{"id":"c2","name":"y"}`}}
		state := rapid.SampledFrom(states)
		draw := func(n int, one func(i int) string) (records []string) {
			for i := range rapid.IntRange(0, n).Draw(t, "records") {
				records = append(records, one(i))
			}
			return records
		}
		lists["agents"] = draw(12, func(i int) string {
			return fmt.Sprintf(`{"id":"a%d","connection_state":"connected","meta_data":["index=%d"]}`, i, i)
		})
		build := func(kind string) func(int) string {
			return func(i int) string {
				jobs := draw(3, func(j int) string {
					return fmt.Sprintf(`{"id":"%s%d-%d","type":%q,"state":%q,"runnable_at":"2026-01-05T07:00:00Z","agent":{"id":"a%d","meta_data":["index=%d"]}}`,
						kind, i, j, rapid.SampledFrom([]string{"script", "manual"}).Draw(t, "type"), state.Draw(t, "state"), i%5, i%5)
				})
				return fmt.Sprintf(`{"id":"%s%d","state":"running","jobs":[%s]}`, kind, i, strings.Join(jobs, ","))
			}
		}
		lists["builds"] = draw(12, build("b"))
		lists["finished"] = draw(12, build("f"))
		observed := func(lists paged, size int) plan.Snapshot {
			c, err := buildkite.New(buildkite.Config{Org: "acme", Token: token(secret), HTTP: lists, PerPage: size})
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.Snapshot(context.Background(), plan.Query{At: now, Since: now.Add(-time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		want := observed(lists, 100)
		shuffled := paged{}
		for _, name := range []string{"agents", "builds", "finished", "clusters"} {
			shuffled[name] = rapid.Permutation(lists[name]).Draw(t, name)
		}
		got := observed(shuffled, rapid.IntRange(1, 5).Draw(t, "size"))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
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
