package fakebuildkite

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// The endpoints that create, change and delete: docs apis/rest_api/pipelines.md, builds.md, clusters/queues.md and
// agents.md. What the documentation does not name is decided here: deleting a pipeline cancels its builds, and a
// queue with connected agents cannot be deleted.

// pipeline is a pipeline that was created over HTTP.
type pipeline struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Slug        string `json:"slug"`
	Description string `json:"description"`
	ClusterID   string `json:"cluster_id"`
	steps       []Step
}

// Pipelines returns the slugs of the pipelines that were created over HTTP and not deleted.
func (s *Server) Pipelines() (slugs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pipelines {
		slugs = append(slugs, p.Slug)
	}
	return slugs
}

// Queues returns the keys of a cluster's queues.
func (s *Server) Queues(clusterID string) (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.cluster(clusterID).queues {
		keys = append(keys, q.key)
	}
	return keys
}

var (
	done    = answer{status: http.StatusNoContent}
	missing = message(http.StatusNotFound, "Not Found")
)

func invalid(why string) answer { return message(http.StatusUnprocessableEntity, why) }

// scopes are the scopes of requests, by the first part of the path: of those that read, and of others.
var scopes = map[string][2]string{
	"agents": {"read_agents", "write_agents"}, "builds": {"read_builds", ""},
	"clusters": {"read_clusters", "write_clusters"}, "pipelines": {"read_pipelines", "write_pipelines"},
	"teams": {"read_teams", ""},
}

// WriteScopes are the scopes of a token that may send every request of muster-sim live --write.
var WriteScopes = []string{
	"read_agents", "read_builds", "read_clusters", "read_pipelines", "write_agents", "write_builds", "write_clusters", "write_pipelines",
}

// scopeOf returns the scope of a request; empty if no such request exists.
func scopeOf(r *http.Request, path []string) string {
	read, write := scopes[path[0]][0], scopes[path[0]][1]
	if path[0] == "pipelines" && len(path) > 2 && path[2] == "builds" {
		read, write = "read_builds", "write_builds"
	}
	if r.Method == http.MethodGet {
		return read
	}
	return write
}

// change answers a request that creates, changes or deletes.
func (s *Server) change(r *http.Request, path []string, body []byte) answer {
	var fields struct {
		Name, Description, Configuration, Key string
		Cluster                               string `json:"cluster_id"`
		Branch, Message, Commit               string
	}
	if len(body) > 0 && json.Unmarshal(body, &fields) != nil {
		return message(http.StatusBadRequest, "the body is no JSON object")
	}
	kind := r.Method + " " + path[0] + strings.Repeat("/", len(path)-1)
	if len(path) == 4 || len(path) == 5 {
		kind += " " + path[len(path)-1]
	}
	at := slices.IndexFunc(s.pipelines, func(p *pipeline) bool { return len(path) > 1 && p.Slug == path[1] })
	switch kind {
	case "POST pipelines":
		return s.createPipeline(fields.Name, fields.Description, fields.Cluster, fields.Configuration)
	case "DELETE pipelines/":
		if at < 0 {
			return missing
		}
		for _, b := range s.builds {
			if b.spec.Pipeline == path[1] {
				s.cancelBuild(b)
				b.deleted = true
			}
		}
		s.pipelines = slices.Delete(s.pipelines, at, at+1)
		return done
	case "POST pipelines//":
		if at < 0 || path[2] != "builds" {
			return missing
		}
		p := s.pipelines[at]
		b := s.createBuild(Build{Pipeline: p.Slug, Cluster: p.ClusterID, Branch: fields.Branch, Message: fields.Message, Steps: p.steps}, nil)
		return answer{status: http.StatusCreated, body: s.encodeBuild(b, false, false)}
	case "PUT pipelines//// cancel":
		i := slices.IndexFunc(s.builds, func(b *build) bool { return b.spec.Pipeline == path[1] && strconv.Itoa(b.number) == path[3] })
		switch {
		case at < 0 || i < 0:
			return missing
		case s.builds[i].over() && !s.builds[i].blocked:
			return invalid("Build can't be canceled because it's already finished.")
		}
		s.cancelBuild(s.builds[i])
		return answer{status: http.StatusOK, body: s.encodeBuild(s.builds[i], false, false)}
	case "PUT agents//":
		a := s.agentByID[path[1]]
		switch {
		case a == nil || path[2] != "pause":
			return missing
		case a.state != "connected" || a.paused:
			return invalid("Only connected agents may be paused")
		}
		s.pauseAgent(a)
		return done
	}
	if path[0] == "clusters" && len(path) > 2 && path[2] == "queues" {
		return s.changeQueue(r.Method, path, fields.Key, fields.Description)
	}
	return message(http.StatusMethodNotAllowed, "The simulator has no such request.")
}

// changeQueue creates, deletes, pauses or resumes a queue.
func (s *Server) changeQueue(method string, path []string, key, description string) answer {
	i := slices.IndexFunc(s.clusters, func(c *cluster) bool { return c.id == path[1] })
	if i < 0 {
		return missing
	}
	c := s.clusters[i]
	if method == http.MethodPost && len(path) == 3 {
		if q := c.byKey[key]; key == "" || q != nil && q.id != "" {
			return invalid("Validation failed: Key is empty or taken")
		}
		q := s.addQueue(c, key)
		q.description = description
		return answer{status: http.StatusCreated, body: q.encode()}
	}
	i = slices.IndexFunc(c.queues, func(q *queue) bool { return len(path) > 3 && q.id == path[3] })
	if i < 0 {
		return missing
	}
	q := c.queues[i]
	switch action := strings.Join(path[4:], "/"); {
	case method == http.MethodDelete && action == "":
		if slices.ContainsFunc(s.connected, func(a *agent) bool { return slices.Contains(a.queues, q) }) {
			return invalid("Queue has connected agents")
		}
		c.queues = slices.Delete(c.queues, i, i+1)
		q.id, q.paused = "", false
		return done
	case method == http.MethodPost && action == "pause_dispatch":
		q.paused = true
	case method == http.MethodPost && action == "resume_dispatch":
		s.resumeQueue(q)
	default:
		return missing
	}
	return answer{status: http.StatusOK, body: q.encode()}
}

func (s *Server) createPipeline(name, description, clusterID, configuration string) answer {
	slug := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(name), "-"), "-")
	steps, err := parseSteps(configuration)
	switch {
	case err != nil:
		return invalid("Validation Failed: " + err.Error())
	case slug == "" || slices.ContainsFunc(s.pipelines, func(p *pipeline) bool { return p.Slug == slug }):
		return invalid("Validation Failed: Name is empty or taken")
	case !slices.ContainsFunc(s.clusters, func(c *cluster) bool { return c.id == clusterID }):
		return invalid("Validation Failed: Cluster does not exist")
	}
	p := &pipeline{ID: s.id('9'), Name: name, Slug: slug, Description: description, ClusterID: clusterID, steps: steps}
	s.pipelines = append(s.pipelines, p)
	return answer{status: http.StatusCreated, body: encode(p)}
}

// listPipelines lists the pipelines whose names contain a text.
func (s *Server) listPipelines(r *http.Request) answer {
	name := strings.ToLower(r.URL.Query().Get("name"))
	all := slices.DeleteFunc(slices.Clone(s.pipelines), func(p *pipeline) bool { return !strings.Contains(strings.ToLower(p.Name), name) })
	return s.page(r, "pipelines", len(all), func(i int) []byte { return encode(all[i]) })
}

// buildsOf lists the builds of a pipeline.
func (s *Server) buildsOf(slug string, query url.Values) ([]*build, error) {
	builds, err := s.listBuilds(query)
	return slices.DeleteFunc(builds, func(b *build) bool { return b.spec.Pipeline != slug }), err
}

// parseSteps reads the steps of a pipeline: docs pipelines/configure/step_types. Only what this package can do is
// accepted. A command "sleep N" takes N seconds, and one that ends in "exit 1" fails, unless an agent that
// connected over HTTP runs it.
func parseSteps(configuration string) ([]Step, error) {
	var spec struct {
		Steps []struct {
			Wait, Block       *string
			ContinueOnFailure bool `json:"continue_on_failure"`

			Command, Label, Key, Timeout string
			Agents                       map[string]string
			Parallelism                  int
			Concurrency                  int
			ConcurrencyGroup             string `json:"concurrency_group"`
			Minutes                      int    `json:"timeout_in_minutes"`
		}
	}
	if err := yaml.UnmarshalStrict([]byte(configuration), &spec); err != nil {
		return nil, err
	}
	var steps []Step
	for _, from := range spec.Steps {
		to := Step{
			Key: from.Key, Label: cmp.Or(from.Label, from.Command), Parallelism: from.Parallelism, Command: from.Command,
			ConcurrencyGroup: from.ConcurrencyGroup, Concurrency: from.Concurrency, ContinueOnFailure: from.ContinueOnFailure,
		}
		var seconds int
		if _, err := fmt.Sscanf(from.Command, "sleep %d", &seconds); err == nil {
			to.Duration = time.Duration(seconds) * time.Second
		}
		switch {
		case from.Block != nil:
			to.Type = Block
		case from.Command == "":
			to.Type = Wait
		case strings.HasSuffix(from.Command, "exit 1"):
			to.Fail = -1
		}
		for key, value := range from.Agents {
			to.Agents = append(to.Agents, key+"="+value)
		}
		slices.Sort(to.Agents)
		steps = append(steps, to)
	}
	return steps, nil
}
