package fakebuildkite_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// TestPipelines asserts that pipelines, builds and queues are created, changed and deleted over HTTP, with the scopes
// of docs apis/rest_api, and that without these nothing changes.
func TestPipelines(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{Scopes: []string{"write_agents", "write_builds", "write_clusters", "write_pipelines", "read_pipelines", "read_builds"}})
	c := s.AddCluster("one")
	s.AddQueue(c, "default")
	request := func(want int, line, body string) (fields struct {
		ID, Slug, State string
		Number          int
	}) {
		t.Helper()
		method, path, _ := strings.Cut(line, " ")
		response, text := ask(t, s, "Bearer test-token", method+" https://api.buildkite.com/v2/organizations/acme/"+path, body)
		if response.StatusCode != want {
			t.Fatalf("%s: the status is %d, want %d: %s", line, response.StatusCode, want, text)
		}
		_ = json.Unmarshal([]byte(text), &fields) // a list has no fields
		return fields
	}
	queue := request(http.StatusCreated, "POST clusters/"+c+"/queues", `{"key":"own","description":"mine"}`).ID
	request(http.StatusUnprocessableEntity, "POST clusters/"+c+"/queues", `{"key":"own"}`)
	spec, err := json.Marshal(map[string]string{"name": "My Pipeline", "cluster_id": c, "configuration": `
steps:
  - {command: "sleep 5", key: first, agents: {queue: own}, parallelism: 2}
  - {wait: ~, continue_on_failure: true}
  - {command: "sleep 5; exit 1", agents: {queue: own}}
  - {block: "Release"}
`})
	if err != nil {
		t.Fatal(err)
	}
	request(http.StatusUnprocessableEntity, "POST pipelines", `{"name":"x","cluster_id":"`+c+`","configuration":"steps: [{plugins: []}]"}`)
	request(http.StatusUnprocessableEntity, "POST pipelines", `{"name":"x","cluster_id":"none","configuration":"steps: []"}`)
	slug := request(http.StatusCreated, "POST pipelines", string(spec)).Slug
	request(http.StatusUnprocessableEntity, "POST pipelines", string(spec))
	if slug != "my-pipeline" || !slices.Equal(s.Pipelines(), []string{slug}) {
		t.Errorf("the slug is %q, the pipelines are %q", slug, s.Pipelines())
	}
	build := request(http.StatusCreated, "POST pipelines/"+slug+"/builds", `{"branch":"b"}`)
	agent, err := s.Connect(fakebuildkite.Agent{Cluster: c, Tags: []string{"queue=own"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Advance(10 * time.Second)
	states := func() (all []string) {
		for _, j := range s.Jobs() {
			all = append(all, j.State)
		}
		return all
	}
	s.Advance(10 * time.Second)
	if got := states(); !slices.Equal(got, []string{"passed", "passed", "failed"}) {
		t.Errorf("the states are %q", got)
	}
	request(http.StatusUnprocessableEntity, "PUT pipelines/"+slug+"/builds/1/cancel", "")
	request(http.StatusCreated, "POST pipelines/"+slug+"/builds", "")
	if got := request(http.StatusOK, "PUT pipelines/"+slug+"/builds/2/cancel", ""); got.State != "canceled" || build.Number != 1 {
		t.Errorf("the build is %+v", got)
	}
	request(http.StatusOK, "POST clusters/"+c+"/queues/"+queue+"/pause_dispatch", "{}")
	request(http.StatusOK, "POST clusters/"+c+"/queues/"+queue+"/resume_dispatch", "{}")
	request(http.StatusUnprocessableEntity, "DELETE clusters/"+c+"/queues/"+queue, "")
	request(http.StatusNoContent, "PUT agents/"+agent+"/pause", "{}")
	request(http.StatusUnprocessableEntity, "PUT agents/"+agent+"/pause", "{}")
	s.StopAgent(agent)
	request(http.StatusNoContent, "DELETE clusters/"+c+"/queues/"+queue, "")
	request(http.StatusNoContent, "DELETE pipelines/"+slug, "")
	if _, list := ask(t, s, "Bearer test-token", "GET https://api.buildkite.com/v2/organizations/acme/builds", ""); list != "[]" || s.Pipelines() != nil {
		t.Errorf("after the deletion of the pipeline, the builds are %s, the pipelines %q", list, s.Pipelines())
	}
	for _, line := range []string{
		"DELETE pipelines/" + slug, "POST pipelines/none/builds", "PUT pipelines/none/builds/1/cancel", "PUT agents/none/pause",
		"DELETE clusters/" + c + "/queues/" + queue, "POST clusters/none/queues", "POST clusters/" + c + "/queues/" + queue + "/other", "POST builds",
	} {
		request(http.StatusNotFound, line, "")
	}
	request(http.StatusMethodNotAllowed, "PATCH pipelines/"+slug, "")
	reading := fakebuildkite.New(fakebuildkite.Options{})
	for _, line := range []string{"POST pipelines", "POST pipelines/x/builds", "POST clusters/x/queues", "PUT agents/x/pause", "DELETE pipelines/x"} {
		method, path, _ := strings.Cut(line, " ")
		if response, _ := ask(t, reading, "Bearer test-token", method+" https://api.buildkite.com/v2/organizations/acme/"+path, "{}"); response.StatusCode != http.StatusForbidden {
			t.Errorf("%s without the scope: %d", line, response.StatusCode)
		}
	}
}
