package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/generator/ledger"
	"muster/gitops/branch"
)

// Writing are the settings of the beliefs that only writing shows.
type Writing struct {
	// ID identifies the run in the names of all that it creates: lower-case letters and digits.
	ID string
	// Start starts an agent. If it is nil, NoAgents is the reason.
	Start    func(context.Context, Agent) (Process, error)
	NoAgents string
	// Host is the name of the agents' host.
	Host string
	// Log reports what is removed.
	Log func(text string)
}

// What writing sends in addition to reading: requests to the REST API with those that remove, to the Agent API and to
// the git host; and how long it takes at most, without the removal.
const (
	WriteRequests      = 130
	WriteAgentRequests = 80
	WriteGitRequests   = 30
	WriteTime          = 15 * time.Minute

	removalRequests = 40
	// spareRequests of a limit's minute suffice for the removal after an interruption, which cannot wait for the next.
	spareRequests = 20
)

// prefix begins the names of all that live creates, branches excepted.
const prefix = "muster-live-"

// marker is the description of what a run creates.
func marker(id string) string {
	return "Created by muster-sim live --write, run " + id + ", which removes it at its end or at its next start"
}

// The pipelines of a run.
const (
	partJobs    = "jobs"
	partFailing = "failing"
	partBlocked = "blocked"
)

var parts = []string{partJobs, partFailing, partBlocked}

// roleTag is the tag of a job and its agents; anyTag is one whose value a job does not name.
const (
	roleTag = "muster-live"
	anyTag  = "muster-live-any"
)

// steps returns the steps of a pipeline, in YAML.
func steps(part, id string) string {
	var text strings.Builder
	text.WriteString("steps:\n")
	job := func(command, role, more string) {
		fmt.Fprintf(&text, "  - {command: %q, agents: {queue: %q, %s: %q%s, timeout_in_minutes: 10}\n", command, prefix+id, roleTag, role, cmp.Or(more, "}"))
	}
	switch part {
	case partJobs:
		job("sleep 10", "pass", "}, parallelism: 2")
		job("sleep 30", "uptime", "}, parallelism: 2")
		job("sleep 30", "hook", "")
		job("sleep 300", "busy", ", "+anyTag+`: "*"}`)
		job("sleep 1", "limited", fmt.Sprintf("}, parallelism: 2, concurrency: 1, concurrency_group: %q", prefix+id))
		text.WriteString("  - {wait: ~}\n")
	case partFailing:
		job("sleep 10; exit 1", "fail", "")
		text.WriteString("  - {wait: ~, continue_on_failure: true}\n")
	case partBlocked:
		job("sleep 1", "priority", "")
		text.WriteString("  - {block: \"nobody unblocks it\"}\n")
	}
	job("sleep 1", "behind", "")
	return text.String()
}

// Plan describes what a run creates, changes and costs.
func Plan(c Config) string {
	id := c.Write.ID
	var text strings.Builder
	fmt.Fprintf(&text, "in Buildkite's cluster of the agent token,\nthe queue and the stack %s%s, and three pipelines with a build each.\nlive pauses that queue once. Others have no jobs or agents in it.\n", prefix, id)
	for _, part := range parts {
		fmt.Fprintf(&text, "\n%s%s-%s\n%s", prefix, id, part, steps(part, id))
	}
	lasts := "six minutes"
	if agents := len(agentsOf(id)); c.Write.Start != nil {
		fmt.Fprintf(&text, "\nIt starts %d agents on this machine, which count against your plan and run six of these\njobs, and cancels the others.\n", agents)
	} else {
		lasts = "one minute"
		fmt.Fprintf(&text, "\nIt starts no agents (%s),\nso that no job runs.\n", c.Write.NoAgents)
	}
	if c.Git != nil {
		fmt.Fprintf(&text, "In the repository: the branch %s%s, with four commits without parents in\nother branches, and one file of 4 MiB.\n", branchPrefix, id)
	}
	if c.GitHub != nil {
		text.WriteString("By the GitHub App, two commits on that branch, with 2 MB.\n")
	}
	fmt.Fprintf(&text, "At most %d requests to Buildkite's REST API, %d to its Agent API", c.Budget+WriteRequests, AgentRequests+WriteAgentRequests)
	if c.Git != nil {
		fmt.Fprintf(&text, ", %d to the git host", GitRequests+WriteGitRequests)
	}
	if c.GitHub != nil {
		fmt.Fprintf(&text, ", %d to GitHub's API", gitHubRequests)
	}
	fmt.Fprintf(&text, "; about %s,\nat most %d minutes, and then the removal.\n", lasts, int(WriteTime.Minutes()))
	return text.String()
}

// scopesOfWriting are the scopes that writing needs in addition to those of reading.
var scopesOfWriting = []string{"read_pipelines", "write_pipelines", "write_builds", "write_clusters"}

// writer creates what shows beliefs, and removes it.
type writer struct {
	*reader
	name         string // of the run
	started      time.Time
	cluster      string
	queue        string // its identifier
	git          gitHost
	pipelines    map[string]string // slugs, by part
	builds       map[string]string // identifiers, by part
	numbers      map[string]int
	limited      []string // jobs of a concurrency group
	defaultQueue bool     // the stack is registered with the default queue
	registered   bool
	created      bool // or about to be
	agents       map[string]*started
	found        map[string]finding
	logging      sync.Mutex
}

func newWriter(r *reader, git gitHost) *writer {
	return &writer{
		reader: r, git: git, name: prefix + r.Write.ID, started: r.Clock.Now(), found: map[string]finding{}, agents: map[string]*started{},
		pipelines: map[string]string{}, builds: map[string]string{}, numbers: map[string]int{},
	}
}

// missing sets the findings of beliefs that have none.
func (w *writer) missing(why string, ids ...string) {
	for _, id := range ids {
		if _, ok := w.found[id]; !ok {
			w.found[id] = unreachable(why)
		}
	}
}

// request sends a request about the organisation. It returns an error unless the status is one of 2xx.
func (w *writer) request(ctx context.Context, method, path string, body any) (record, error) {
	x, err := w.send(ctx, w.rest, method, w.base+path, "Bearer "+w.token, body)
	if err != nil {
		return nil, err
	}
	answer := decode(x.body)
	if x.status < 200 || x.status > 299 {
		return answer, refusal{statusError{method, x.status}, branch.OneLine(answer.text("message"), 200, w.token)}
	}
	return answer, nil
}

// refusal is an error status with Buildkite's message.
type refusal struct {
	error
	message string
}

func (e refusal) Unwrap() error { return e.error }

func hasStatus(err error, status int) bool {
	var s statusError
	return errors.As(err, &s) && s.status == status
}

// explain returns an error with Buildkite's message.
func explain(doing string, err error) error {
	var answer refusal
	var status statusError
	if errors.As(err, &answer) && errors.As(err, &status) {
		return fmt.Errorf("%s: Buildkite answers %d %s: %s", doing, status.status, http.StatusText(status.status), answer.message)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// create removes what earlier runs left, and creates the queue and the pipelines.
func (w *writer) create(ctx context.Context) error {
	var lacking []string
	for _, scope := range scopesOfWriting {
		if !slices.Contains(w.o.scopes, scope) {
			lacking = append(lacking, scope)
		}
	}
	if lacking != nil {
		return fmt.Errorf("the API token lacks the scopes %s, which --write needs", strings.Join(lacking, ", "))
	}
	x, err := w.agentAPI(ctx, http.MethodGet, "metrics", nil)
	if err != nil {
		return fmt.Errorf("reading the cluster of the agent token: %w", err)
	}
	if x.status == http.StatusUnauthorized {
		return errors.New("agent token refused by Buildkite (401): agent tokens are on the page of the Buildkite cluster, under Agent Tokens")
	}
	name := decode(x.body).object("cluster").text("name")
	clusters, _, _, err := w.list(ctx, "clusters", mostPages)
	if err != nil {
		return fmt.Errorf("reading the clusters: %w", err)
	}
	for _, c := range clusters {
		if c.text("name") != name || name == "" {
			continue
		}
		if w.cluster != "" {
			return errors.New("two clusters have the name of the agent token's cluster")
		}
		w.cluster = c.text("id")
	}
	if w.cluster == "" {
		return fmt.Errorf("no cluster of the organisation is that of the agent token (its metrics have the status %d)", x.status)
	}
	if err := w.sweep(ctx, true); err != nil {
		return err
	}
	w.created = true
	queue, err := w.request(ctx, http.MethodPost, "clusters/"+w.cluster+"/queues", map[string]any{"key": w.name, "description": marker(w.Write.ID)})
	if err != nil {
		return explain("creating the queue "+w.name, err)
	}
	w.queue = queue.text("id")
	for _, part := range parts {
		p, err := w.request(ctx, http.MethodPost, "pipelines", map[string]any{
			"name": w.name + "-" + part, "description": marker(w.Write.ID), "cluster_id": w.cluster,
			"repository": "https://example.com/muster-live.git", "configuration": steps(part, w.Write.ID),
		})
		if err != nil {
			return explain("creating the pipeline "+w.name+"-"+part, err)
		}
		w.pipelines[part] = p.text("slug")
	}
	return nil
}

// play creates what shows beliefs, reads Buildkite meanwhile, and removes everything.
func (w *writer) play(ctx context.Context) (err, unremoved error) {
	limited, cancel := context.WithTimeout(ctx, WriteTime)
	defer cancel()
	defer func() {
		if ctx.Err() == nil && limited.Err() != nil {
			err = fmt.Errorf("it took more than %s", WriteTime)
		}
		if w.created {
			unremoved = w.remove(ctx)
		}
	}()
	w.Doing("creating a queue and pipelines")
	if err := w.create(limited); err != nil {
		return err, nil
	}
	w.pushes(limited)
	w.stack(limited, w.waiting(limited))
	w.watch(limited)
	if err := w.read(limited); err != nil {
		return err, nil
	}
	w.later(limited)
	w.states(limited)
	return ctx.Err(), nil
}

// build starts a build of a pipeline.
func (w *writer) build(ctx context.Context, part string) error {
	b, err := w.request(ctx, http.MethodPost, "pipelines/"+w.pipelines[part]+"/builds", map[string]any{"commit": "HEAD", "branch": w.name, "message": w.name + " " + part})
	w.builds[part] = b.text("id")
	number, _ := b["number"].(float64)
	w.numbers[part] = int(number)
	return err
}

var (
	ourPipeline = regexp.MustCompile(`^` + prefix + `([a-z0-9]+)-(` + strings.Join(parts, "|") + `)$`)
	ourQueue    = regexp.MustCompile(`^` + prefix + `([a-z0-9]+)$`)
)

// ours returns the run that has created an object with a name and a description; empty if no run has.
func ours(form *regexp.Regexp, name, description string) string {
	if m := form.FindStringSubmatch(name); m != nil && description == marker(m[1]) {
		return m[1]
	}
	return ""
}

// log reports what is removed.
func (w *writer) log(text string) {
	w.logging.Lock()
	defer w.logging.Unlock()
	w.Write.Log(text)
}

// sweep removes what this run and earlier ones have created. Its error has what remains.
func (w *writer) sweep(ctx context.Context, earlier bool) error {
	fromGit := make(chan []string)
	go func() { fromGit <- w.sweepGit(ctx, earlier) }() // one service may hang
	left, err := w.sweepBuildkite(ctx, earlier)
	if left = append(<-fromGit, left...); err != nil {
		left = append(left, fmt.Sprintf("what begins with %s and has the description %q (%v): delete it by hand", prefix, marker("..."), err))
	}
	if left == nil {
		return nil
	}
	return errors.New("not removed:\n  " + strings.Join(left, "\n  ") + "\nThe next start with --write tries again")
}

func (w *writer) sweepBuildkite(ctx context.Context, earlier bool) (left []string, err error) {
	remains := func(what, how string, err error) {
		if err != nil && !hasStatus(err, http.StatusNotFound) {
			left = append(left, fmt.Sprintf("%s (%v): %s", what, reasonOfRefusal(err), how))
		}
	}
	pipelines, _, _, err := w.list(ctx, "pipelines?name="+prefix, mostPages)
	if err != nil {
		return nil, fmt.Errorf("listing the pipelines: %w", err)
	}
	queues, _, _, err := w.list(ctx, "clusters/"+w.cluster+"/queues", mostPages)
	if err != nil {
		return nil, fmt.Errorf("listing the queues: %w", err)
	}
	runs, slugs, ids := map[string]bool{}, map[string]string{}, map[string]string{}
	if w.registered {
		runs[w.Write.ID] = true
	}
	for part, slug := range w.pipelines { // the list may lag
		slugs[slug] = w.name + "-" + part
	}
	if w.queue != "" {
		ids[w.queue] = w.name
	}
	for _, p := range pipelines {
		if id := ours(ourPipeline, p.text("name"), p.text("description")); id != "" {
			runs[id], slugs[p.text("slug")] = true, p.text("name")
		}
	}
	for _, q := range queues {
		if id := ours(ourQueue, q.text("key"), q.text("description")); id != "" {
			runs[id], ids[q.text("id")] = true, q.text("key")
		}
	}
	if earlier && len(runs) > 0 {
		w.log("Removing what earlier runs left: " + strings.Join(slices.Sorted(maps.Keys(runs)), ", "))
	}
	for _, slug := range slices.Sorted(maps.Keys(slugs)) {
		name, path := slugs[slug], "pipelines/"+url.PathEscape(slug)
		builds, _, _, err := w.list(ctx, path+"/builds?state[]=scheduled&state[]=running&state[]=failing&state[]=blocked", 1)
		if err != nil && !hasStatus(err, http.StatusNotFound) {
			remains("a build of the pipeline "+name, "cancel it on its page", err)
		}
		for _, b := range builds {
			number, _ := b["number"].(float64)
			if _, err := w.request(ctx, http.MethodPut, fmt.Sprintf("%s/builds/%d/cancel", path, int(number)), map[string]any{}); !hasStatus(err, http.StatusUnprocessableEntity) {
				remains("a build of the pipeline "+name, "cancel it on its page", err)
			}
		}
		_, err = w.request(ctx, http.MethodDelete, path, nil)
		remains("the pipeline "+name, fmt.Sprintf("delete it at https://buildkite.com/%s/%s/settings", w.Org, slug), err)
	}
	for id := range runs {
		x, err := w.agentAPI(ctx, http.MethodPost, "stacks/"+prefix+id+"/deregister", map[string]any{})
		if err == nil && x.status > 299 {
			err = statusError{"the request", x.status}
		}
		remains("the stack "+prefix+id, "Buildkite removes it once it is unused", err)
	}
	for id, key := range ids {
		longest := longestLag // agents may be about to disconnect
		if earlier {
			longest += lostWithin
		}
		err := w.until(ctx, longest, func() (bool, error) {
			_, err := w.request(ctx, http.MethodDelete, "clusters/"+w.cluster+"/queues/"+url.PathEscape(id), nil)
			if hasStatus(err, http.StatusUnprocessableEntity) {
				return false, nil
			}
			return true, err
		})
		if errors.Is(err, errLate) {
			err = absent("agents may still be connected")
		}
		remains("the queue "+key, fmt.Sprintf("delete it on its page, in https://buildkite.com/organizations/%s/clusters", w.Org), err)
	}
	return left, ctx.Err()
}

// reasonOfRefusal returns the reason of an error, with Buildkite's message.
func reasonOfRefusal(err error) string {
	var answer refusal
	if errors.As(err, &answer) && answer.message != "" {
		return answer.message
	}
	return reason(err)
}

// removalTime limits the removal, and stopTime what is left of it after an interruption: the process ends then.
const (
	removalTime = 3 * time.Minute
	stopTime    = 20 * time.Second

	removalTries = 3
)

// remove ends the agents and removes all that the run has created. It continues for stopTime if the context is or
// becomes canceled.
func (w *writer) remove(run context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(run), removalTime)
	defer cancel()
	defer context.AfterFunc(run, func() {
		select {
		case <-ctx.Done():
		case <-time.After(stopTime):
			cancel()
		}
	})()
	w.Doing("removing what was created")
	for _, a := range w.agents {
		a.process.Stop()
	}
	w.rest.mu.Lock()
	w.rest.left, w.rest.spare = w.rest.left+removalRequests, 0
	w.rest.mu.Unlock()
	err := w.sweep(ctx, false)
	for try := 1; err != nil && try < removalTries && w.Clock.Sleep(ctx, lagPause) == nil; try++ {
		err = w.sweep(ctx, false)
	}
	for _, a := range w.agents {
		a.process.Kill()
	}
	return err
}

// The time that a list may lag behind, and how often live polls meanwhile.
const (
	longestLag = 30 * time.Second
	lagPause   = 3 * time.Second
)

// errLate means that a condition did not occur in time.
var errLate = errors.New("it did not occur in time")

// until repeats a poll until it returns true or an error, for a time.
func (w *writer) until(ctx context.Context, longest time.Duration, poll func() (bool, error)) error {
	for waited := time.Duration(0); ; waited += lagPause {
		if done, err := poll(); err != nil || done {
			return err
		}
		if waited >= longest {
			return errLate
		}
		if err := w.Clock.Sleep(ctx, lagPause); err != nil {
			return err
		}
	}
}

// roleOf returns the role of a job; empty without one.
func roleOf(job record) string {
	rules, _ := job.texts("agent_query_rules")
	for _, rule := range rules {
		if role, ok := strings.CutPrefix(rule, roleTag+"="); ok {
			return role
		}
	}
	return ""
}

// jobsOf returns the jobs for agents of the run's builds in a list, by role.
func (w *writer) jobsOf(ctx context.Context, path string) (map[string][]record, error) {
	builds, _, _, err := w.list(ctx, path+"&"+jobsWhole, 1)
	if err != nil {
		return nil, err
	}
	jobs := map[string][]record{}
	for _, b := range builds {
		if slices.Contains(slices.Collect(maps.Values(w.builds)), b.text("id")) {
			for _, j := range b.jobs() {
				if j.text("type") == "script" {
					jobs[roleOf(j)] = append(jobs[roleOf(j)], j)
				}
			}
		}
	}
	return jobs, nil
}

func runnable(job record) bool {
	return job.text("state") == "scheduled" && !job.time("runnable_at").IsZero()
}

// waiting creates builds that no agent can take, and checks how REST lists their jobs. It returns the identifiers of
// those that an agent could take, without one of a concurrency group.
func (w *writer) waiting(ctx context.Context) (waiting []string) {
	const first, second, third = "rest-job-runnable-at", "rest-job-limited", "rest-unfinished-builds"
	begun := w.Clock.Now()
	for _, part := range []string{partJobs, partFailing} {
		if err := w.build(ctx, part); err != nil {
			w.missing("a build cannot be created: "+reason(err), first, second)
			return nil
		}
	}
	var jobs map[string][]record
	expected := map[string]int{"pass": 2, "uptime": 2, "hook": 1, "busy": 1, "fail": 1}
	err := w.until(ctx, longestLag, func() (ready bool, err error) {
		jobs, err = w.jobsOf(ctx, "builds?state[]=scheduled&state[]=running&state[]=failing")
		ready = len(jobs["limited"]) == 2 && slices.ContainsFunc(jobs["limited"], runnable)
		for role, n := range expected {
			ready = ready && len(jobs[role]) == n && !slices.ContainsFunc(jobs[role], func(j record) bool { return !runnable(j) })
		}
		return ready, err
	})
	if err != nil && !errors.Is(err, errLate) {
		w.missing(reason(err), first, second)
		return nil
	}
	if len(jobs["pass"]) == 0 || len(jobs["fail"]) == 0 {
		w.found[third] = contradicted("a new build is not listed after %s", longestLag)
		w.missing("the new builds are not listed", first, second)
		return nil
	}
	var t tally
	for role := range expected {
		for _, j := range jobs[role] {
			waiting = append(waiting, j.text("id"))
			t.add(runnable(j), "a job that waits for an agent has the state %s and runnable_at is %s", word(j.text("state")), j.kind("runnable_at"))
		}
	}
	w.found[first] = t.finding("waiting job", fmt.Sprintf("with runnable_at, %s after the builds were created", w.Clock.Now().Sub(begun).Round(time.Second)), "no job waits")
	n := 0
	for _, j := range jobs["limited"] {
		w.limited = append(w.limited, j.text("id"))
		if runnable(j) {
			n++
		}
	}
	switch n {
	case 1:
		w.found[second] = confirmed("of two jobs of a concurrency group, one has runnable_at")
	case 2:
		w.found[second] = contradicted("both jobs of a concurrency group for one are scheduled and have runnable_at")
	default:
		w.missing("no job of a concurrency group is listed as runnable", second)
	}
	return waiting
}

// stackBeliefs are the beliefs about stacks that need one.
var stackBeliefs = []string{"stacks-register", "stacks-paging", "stacks-runnable", "stacks-any-queue", "stacks-paused", "stacks-notifications", "stacks-rate-limits", "stacks-job-states"}

// stack registers a stack, and compares its list with the jobs that an agent could take.
func (w *writer) stack(ctx context.Context, waiting []string) {
	register := func(queue string) (exchange, error) {
		return w.agentAPI(ctx, http.MethodPost, "stacks/register", map[string]any{"key": w.name, "type": "custom", "queue_key": queue, "metadata": map[string]string{"muster": "live"}})
	}
	queue := "__default__"
	w.registered = true // also if the response is lost
	x, err := register(queue)
	if w.defaultQueue = x.status != http.StatusNotFound; err == nil && !w.defaultQueue {
		queue = w.name
		x, err = register(queue)
	}
	if err != nil || x.status > 299 {
		w.missing(fmt.Sprintf("no stack can be registered (the status is %d)", x.status), stackBeliefs...)
		return
	}
	again, err := register(queue)
	switch {
	case err != nil:
		w.missing(reason(err), "stacks-register")
	case x.status != http.StatusCreated || again.status != http.StatusOK || decode(x.body).text("id") != decode(again.body).text("id"):
		w.found["stacks-register"] = contradicted("a new stack has the status %d, and the same key again %d, or another id", x.status, again.status)
	default:
		w.found["stacks-register"] = confirmed("a new stack has the status 201, and the same key again 200 and the same id")
	}
	w.listed(ctx, waiting)
	w.notify(ctx, waiting)
	w.pause(ctx)
	w.limit(ctx)
}

const stackPage = 3 // small, for several pages

// page reads a page of the jobs of the run's queue.
func (w *writer) page(ctx context.Context, limit int, after string) (exchange, record, error) {
	query := url.Values{"queue_key": {w.name}, "limit": {fmt.Sprint(limit)}}
	if after != "" {
		query.Set("after", after)
	}
	x, err := w.agentAPI(ctx, http.MethodGet, "stacks/"+w.name+"/scheduled-jobs?"+query.Encode(), nil)
	return x, decode(x.body), err
}

// listed compares the list of jobs of a stack with the jobs that an agent could take.
func (w *writer) listed(ctx context.Context, waiting []string) {
	const any, paging, jobs = "stacks-any-queue", "stacks-paging", "stacks-runnable"
	var ids []string
	pages := 0
	err := w.until(ctx, longestLag, func() (bool, error) {
		ids, pages = nil, 0
		for after := ""; ; {
			x, page, err := w.page(ctx, stackPage, after)
			info, list := page.object("page_info"), page.jobs()
			switch {
			case err != nil:
				return false, err
			case x.status != http.StatusOK && w.defaultQueue && pages == 0:
				w.found[any] = contradicted("the list of a queue that the stack was not registered with has the status %d", x.status)
				return false, statusError{"the list of jobs", x.status}
			case x.status != http.StatusOK:
				w.found[paging] = contradicted("the next page has the status %d", x.status)
			case len(list) > stackPage:
				w.found[paging] = contradicted("a page of %d jobs has %d", stackPage, len(list))
			case info.kind("has_next_page") != "true" && info.kind("has_next_page") != "false":
				w.found[paging] = contradicted("has_next_page is %s", info.kind("has_next_page"))
			case info.kind("has_next_page") == "true" && info.text("end_cursor") == "":
				w.found[paging] = contradicted("has_next_page is true, and end_cursor is %s", info.kind("end_cursor"))
			case slices.ContainsFunc(list, func(j record) bool { return slices.Contains(ids, j.text("id")) }):
				w.found[paging] = contradicted("the next page has a job of the page before")
			}
			if w.found[paging].verdict == Contradicted {
				return true, nil
			}
			for _, j := range list {
				ids = append(ids, j.text("id"))
			}
			if pages++; info.kind("has_next_page") == "false" {
				break
			}
			after = info.text("end_cursor")
		}
		others := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(w.limited, id) })
		slices.Sort(others)
		slices.Sort(waiting)
		return slices.Equal(others, waiting) && len(others) == len(ids)-1, nil
	})
	switch {
	case err != nil && !errors.Is(err, errLate):
		w.missing(reason(err), any, paging, jobs)
	case waiting == nil:
		w.missing("the jobs are unknown", any, paging, jobs)
	case w.found[paging].verdict == Contradicted:
		w.missing("the pages are not readable", any, jobs)
	case err != nil && len(ids) == 0 && w.defaultQueue:
		w.found[any] = contradicted("of a queue that the stack was not registered with, no job is listed")
		w.missing("no job is listed", paging, jobs)
	case err != nil:
		w.found[jobs] = contradicted("%d jobs are listed, and agents could take %d, or others", len(ids), len(waiting)+1)
	default:
		w.found[jobs] = confirmed("the %d jobs that an agent could take, without one that is limited and two that wait", len(ids))
	}
	if pages > 1 {
		w.missingConfirmed(paging, "%d pages, with has_next_page and the cursor of the next", pages)
	}
	if w.defaultQueue && len(ids) > 0 {
		w.missingConfirmed(any, "jobs of a queue that the stack was not registered with")
	}
	w.missing("the list has one page", paging)
	w.missing("the cluster has no default queue to register with", any)
}

// missingConfirmed confirms a belief that has no finding.
func (w *writer) missingConfirmed(id, format string, args ...any) {
	if _, ok := w.found[id]; !ok {
		w.found[id] = confirmed(format, args...)
	}
}

// The maxima of one request to the Stacks API.
const (
	mostNotifications = 1000
	longestDetail     = 256
	mostStates        = 1000
)

// unknownJob is the identifier of a job that does not exist.
func unknownJob(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }

// notify sends one notification of the run's own job, and others of jobs that do not exist.
func (w *writer) notify(ctx context.Context, waiting []string) {
	const id = "stacks-notifications"
	if waiting == nil {
		w.missing("the jobs are unknown", id)
		return
	}
	detail := strings.Repeat("muster-live ", longestDetail)[:longestDetail]
	all := []map[string]string{{"job_uuid": waiting[0], "detail": detail}}
	for i := range mostNotifications - 1 {
		all = append(all, map[string]string{"job_uuid": unknownJob(i), "detail": detail})
	}
	x, err := w.agentAPI(ctx, http.MethodPost, "stacks/"+w.name+"/notifications", map[string]any{"notifications": all})
	if err != nil {
		w.missing(reason(err), id)
		return
	}
	indexes := map[int]bool{}
	list, _ := decode(x.body)["errors"].([]any)
	for _, e := range list {
		object, _ := e.(map[string]any)
		numbers, _ := object["indexes"].([]any)
		for _, n := range numbers {
			n, _ := n.(float64)
			indexes[int(n)] = true
		}
	}
	if x.status != http.StatusOK || indexes[0] || len(indexes) != mostNotifications-1 {
		w.found[id] = contradicted("of %d notifications, with one of a job that exists, the response with the status %d refuses %d", mostNotifications, x.status, len(indexes))
		return
	}
	w.found[id] = confirmed("of %d notifications, the response refuses those of jobs that do not exist", mostNotifications)
}

// pause pauses the run's queue and resumes it.
func (w *writer) pause(ctx context.Context) {
	const stacks, rest = "stacks-paused", "rest-queue-paused"
	path := "clusters/" + w.cluster + "/queues/" + w.queue
	if _, err := w.request(ctx, http.MethodPost, path+"/pause_dispatch", map[string]any{"dispatch_paused_note": marker(w.Write.ID)}); err != nil {
		w.missing("the queue cannot be paused: "+reason(err), stacks, rest)
		return
	}
	var page, ours record
	err := w.until(ctx, longestLag, func() (ok bool, _ error) {
		x, p, err := w.page(ctx, 1, "")
		if page = p; err == nil && x.status != http.StatusOK {
			err = statusError{"the list of jobs", x.status}
		}
		ok = page.object("cluster_queue").kind("dispatch_paused") == "true" || page.object("cluster_queue").kind("paused") == "true"
		return ok, err
	})
	w.judge(err, stacks, "cluster_queue has the field while the queue is paused", "dispatch_paused is %s and paused is %s while the queue is paused",
		page.object("cluster_queue").kind("dispatch_paused"), page.object("cluster_queue").kind("paused"))
	err = w.until(ctx, longestLag, func() (bool, error) {
		queues, _, _, err := w.list(ctx, "clusters/"+w.cluster+"/queues", mostPages)
		for _, q := range queues {
			if q.text("id") == w.queue {
				ours = q
			}
		}
		return ours.kind("dispatch_paused") == "true", err
	})
	w.judge(err, rest, "dispatch_paused is true while the queue is paused", "dispatch_paused is %s while the queue is paused", ours.kind("dispatch_paused"))
	if _, err := w.request(ctx, http.MethodPost, path+"/resume_dispatch", map[string]any{}); err != nil {
		w.Write.NoAgents, w.Write.Start = "the queue cannot be resumed: "+reason(err), nil
	}
}

// judge sets the finding of a belief after [writer.until].
func (w *writer) judge(err error, id, good, bad string, args ...any) {
	switch {
	case err == nil:
		w.found[id] = confirmed("%s", good)
	case errors.Is(err, errLate):
		w.found[id] = contradicted(bad, args...)
	default:
		w.missing(reason(err), id)
	}
}

// burst is more than two seconds' requests for lists.
const burst = 21

// limit sends more requests in a second than a stack may.
func (w *writer) limit(ctx context.Context) {
	const id = "stacks-rate-limits"
	if err := w.Clock.Sleep(ctx, 2*time.Second); err != nil {
		return
	}
	type result struct {
		x   exchange
		err error
	}
	results := make(chan result)
	other := *w.reader // without waiting
	other.agent = &recorder{next: w.agent.next, clock: w.Clock, left: burst, flood: true, o: &observations{}}
	begun := w.Clock.Now()
	for range burst {
		go func() {
			x, err := other.agentAPI(ctx, http.MethodGet, "stacks/"+w.name+"/scheduled-jobs?limit=1&queue_key="+w.name, nil)
			results <- result{x, err}
		}()
	}
	good, refused := 0, exchange{}
	for range burst {
		switch r := <-results; {
		case r.err == nil && r.x.status == http.StatusOK:
			good++
		case r.err == nil && r.x.status == http.StatusTooManyRequests:
			refused = r.x
		}
	}
	took := w.Clock.Now().Sub(begun)
	switch {
	case refused.header == nil && good == burst && took < time.Second:
		w.found[id] = contradicted("%d lists within %s are not refused", burst, took.Round(time.Millisecond))
	case refused.header == nil:
		w.found[id] = unreachable(fmt.Sprintf("no request was refused; %d lists took %s", good, took.Round(time.Millisecond)))
	case good < 10, refused.header.Get("RateLimit-Scope") == "", refused.header.Get("RateLimit-Reset") == "":
		w.found[id] = contradicted("%d lists in a second succeed, or a refusal has no RateLimit-Scope or RateLimit-Reset", good)
	default:
		w.found[id] = confirmed("after %d lists in a second, 429 with RateLimit-Scope and RateLimit-Reset; states were not tried", good)
	}
	_ = w.Clock.Sleep(ctx, 2*time.Second) // so that others are not refused; the context ends the rest
}

// states cancels a build, and reads the states of jobs that wait and that have ended.
func (w *writer) states(ctx context.Context) {
	const id = "stacks-job-states"
	if !w.registered || w.numbers[partFailing] == 0 {
		return
	}
	path := fmt.Sprintf("pipelines/%s/builds/%d/cancel", w.pipelines[partFailing], w.numbers[partFailing])
	if _, err := w.request(ctx, http.MethodPut, path, map[string]any{}); err != nil {
		w.missing("the build cannot be canceled: "+reason(err), id)
		return
	}
	var jobs map[string][]record
	err := w.until(ctx, longestLag, func() (ok bool, err error) {
		jobs, err = w.jobsOf(ctx, "builds?branch="+w.name)
		return len(jobs["fail"]) > 0 && ended(jobs["fail"][0]) && len(jobs["limited"]) > 0, err
	})
	if err != nil {
		w.missing("the build is not listed as canceled", id)
		return
	}
	all := []string{jobs["fail"][0].text("id"), jobs["limited"][0].text("id")}
	for i := range mostStates - len(all) {
		all = append(all, unknownJob(i))
	}
	x, err := w.agentAPI(ctx, http.MethodPost, "stacks/"+w.name+"/jobs/get-states", map[string]any{"job_uuids": all})
	if err != nil {
		w.missing(reason(err), id)
		return
	}
	states := decode(x.body).object("states")
	over, waits := states.text(all[0]), states.text(all[1])
	if x.status != http.StatusOK || !slices.Contains(endedStates, over) || waits == "" || slices.Contains(endedStates, waits) {
		w.found[id] = contradicted("of %s, the response with the status %d has %s for one that has ended, and %s for one that waits", ledger.Count(mostStates, "job"), x.status, word(over), word(waits))
		return
	}
	w.found[id] = confirmed("of %s, the states of one that has ended and of one that waits", ledger.Count(mostStates, "job"))
}

// writtenBeliefs are the beliefs that writing shows, in addition to those that reading shows.
var writtenBeliefs = slices.Concat(stackBeliefs, agentBeliefs, gitBeliefs, gitHubBeliefs, []string{"rest-job-runnable-at", "rest-job-limited", "rest-queue-paused"})
