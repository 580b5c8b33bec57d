package buildkite

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"muster/generator/buildkite/steptime"
	"muster/generator/plan"
)

// readBuild is what is kept of a build.
type readBuild struct {
	state, cluster    string
	created, finished moment // finished is zero if the build has not finished, or has no finished_at
	// active reports whether the build is unfinished, so that its jobs may need agents.
	active bool
	jobs   []keptJob
	agents []keptAgent
	timed  *steptime.Build // all of its jobs, if some are upcoming or expected and the overlays look ahead
}

// keptJob is a job that may need an agent. Until the queues are read, its rules and its
// cluster are those in the list, and its State may be [noRunnableAt].
type keptJob struct {
	plan.Job
	queue string // identifier
	place int    // index in the build's timed jobs
	// behindWait reports whether a wait step before the job has not passed and does not
	// continue on failure.
	behindWait bool
}

// keptAgent is the agent that a job has or had.
type keptAgent struct {
	id, name       string
	tags           []string
	cluster, queue string // identifiers; set only if its tags name no queue
	running        bool
	started        time.Time // start of its job; zero if unknown
	waited         time.Duration
}

// maxKept limits the jobs and agents of a poll, to protect the machine's memory. No
// organisation has half a million unfinished jobs.
const maxKept = 500_000

// buildReader reads builds. It is used for one call of [Client.Snapshot], so
// that its memory is freed after each tick.
type buildReader struct {
	s      *session
	job    jobRecord
	jobs   []keptJob
	agents []keptAgent
	// behindWait is that of the following jobs, see [keptJob].
	behindWait bool
	home       string // the cluster of the first job that has one
	listed     bool   // the build has a list of jobs
	// Most jobs of a build have the same times.
	created, runnable, started, finished lastTime
	timed                                []steptime.Job // of the current build
	words                                map[string]string
	lists                                map[string][]string
}

func newBuildReader(s *session) *buildReader {
	r := &buildReader{s: s, words: map[string]string{}, lists: map[string][]string{}}
	r.job.Agent.Tags.reader = r
	return r
}

// maxWords limits the strings and the lists that a buildReader shares.
const maxWords = 10000

// read reads one build; why is set when it is invalid. Invalid jobs are reported
// and left out. So are jobs that will not run: a failing build has a job that failed
// and is not retried, and nothing behind a wait step that has not passed runs after that,
// unless the step continues on failure (docs apis/rest_api/builds.md "failing_at",
// pipelines/configure/step_types/wait_step.md "Continuing on failure").
func (r *buildReader) read(d *decoder) (id text, b *readBuild, why string, err error) {
	b = &readBuild{}
	var state, cluster text
	var pipeline optional[struct {
		Cluster text `json:"cluster_id"`
	}]
	r.clear()
	_, err = object(d, func(name []byte) json.UnmarshalerFrom {
		switch string(name) {
		case "id":
			return &id
		case "state":
			return &state
		case "created_at":
			return &b.created
		case "finished_at":
			return &b.finished
		case "cluster_id":
			return &cluster
		case "jobs":
			return jobList{r}
		case "pipeline": // it is excluded, but a proxy may not pass that on
			return &pipeline
		}
		return nil
	})
	switch {
	case err != nil:
		return id, nil, "", err
	case id == "":
		return id, nil, "it has no id", nil
	case state == "":
		return id, nil, "it has no state", nil
	case !r.listed:
		return id, nil, "it has no list of jobs", nil
	}
	// A pipeline is in one cluster, and so are the jobs of its builds.
	b.state, b.cluster = r.word([]byte(state)), cmp.Or(r.word([]byte(cmp.Or(cluster, pipeline.value.Cluster))), r.home)
	if b.state == "failing" {
		r.jobs = slices.DeleteFunc(r.jobs, func(j keptJob) bool { return j.behindWait && j.State == plan.JobUpcoming })
	}
	b.jobs = append([]keptJob(nil), r.jobs...)
	b.agents = append([]keptAgent(nil), r.agents...)
	return id, b, "", r.learn(id, b)
}

// jobList reads the jobs of a build into the reader's memory.
type jobList struct{ *buildReader }

func (r *buildReader) clear() {
	clear(r.jobs)
	clear(r.agents)
	r.jobs, r.agents, r.home, r.timed = r.jobs[:0], r.agents[:0], "", r.timed[:0]
	r.behindWait, r.listed = false, false
}

func (r jobList) UnmarshalJSONFrom(d *decoder) (err error) {
	r.clear()
	behind := false // an unreleased block step stands before, in the build's order
	r.listed, err = list(d, func() error {
		j := &r.job
		if err := j.UnmarshalJSONFrom(d); err != nil {
			return err
		}
		if why := j.invalid(); why != "" {
			r.s.reportInvalid("job", why)
			return nil
		}
		if r.home == "" {
			r.home = r.word(j.Cluster)
		}
		if err := r.time(j); err != nil {
			return err
		}
		if string(j.Type) == "manual" && !released(string(j.State)) {
			behind = true
		}
		if string(j.Type) == "waiter" && !released(string(j.State)) && !bool(j.ContinueOnFailure) {
			r.behindWait = true
		}
		if string(j.Type) != script {
			return nil
		}
		if err := r.keepAgent(j); err != nil {
			return err
		}
		if bool(j.Retried) {
			return nil
		}
		state, wanting := wants(j, behind)
		switch {
		case wanting:
			return r.keepJob(j, state)
		case !known(string(j.State)):
			r.s.reportInvalid("job", "its state is not documented")
		}
		return nil
	})
	return err
}

func (r *buildReader) keepJob(j *jobRecord, state plan.JobState) error {
	rules, err := r.list(j.Rules)
	if err != nil {
		return err
	}
	url := string(j.WebURL)
	id := url[max(0, len(url)-len(j.ID)):] // the URL ends with it, so that both share memory
	if id != string(j.ID) {
		id = string(j.ID)
	}
	kept := keptJob{queue: r.word(j.Queue), place: len(r.timed) - 1, behindWait: r.behindWait, Job: plan.Job{
		ID: id, URL: url, Cluster: r.word(j.Cluster), Rules: rules, State: state, Created: r.created.of(j.CreatedAt),
	}}
	if state == plan.JobPending || state == noRunnableAt {
		if kept.Since = r.runnable.of(j.RunnableAt); kept.Since.IsZero() {
			kept.Since = kept.Created
		}
	}
	r.jobs = append(r.jobs, kept)
	return r.s.keep(1)
}

// keepAgent keeps the agent of a job that runs or has ended. Its tags are in the job: other
// programs read meta_data there, although the samples of docs apis/rest_api/builds.md lack it.
func (r *buildReader) keepAgent(j *jobRecord) error {
	running := occupied(string(j.State))
	if !j.Agent.there || len(j.Agent.ID) == 0 || !running && !ended(string(j.State)) {
		return nil
	}
	kept := keptAgent{running: running}
	started, runnable := r.started.of(j.StartedAt), r.runnable.of(j.RunnableAt)
	if !runnable.IsZero() && !started.Before(runnable) {
		kept.started, kept.waited = started, started.Sub(runnable)
	}
	if connected, ok := r.s.poll.agents[string(j.Agent.ID)]; ok {
		kept.id, kept.name = string(connected.ID), string(connected.Name)
		if kept.name != string(j.Agent.Name) {
			kept.name = string(j.Agent.Name)
		}
	} else {
		kept.id, kept.name = string(j.Agent.ID), string(j.Agent.Name)
		kept.tags = append([]string(nil), j.Agent.Tags.list...)
		if !hasQueue(kept.tags) {
			kept.cluster, kept.queue = place(string(j.Agent.WebURL), string(j.Agent.Cluster))
		}
	}
	r.agents = append(r.agents, kept)
	return r.s.keep(1)
}

// keep adds n to the jobs and agents that the poll keeps. It returns an error if they exceed
// maxKept.
func (s *session) keep(n int) error {
	if s.poll.kept += n; s.poll.kept > maxKept {
		return &syntaxError{text: fmt.Sprintf("there are more than %d jobs and agents in the builds under way", maxKept)}
	}
	return nil
}

// kept returns how much the poll keeps, and keepOnly sets that again: a page is read once more if
// its response was cut.
func (s *session) kept() int {
	if s.poll == nil {
		return 0
	}
	return s.poll.kept
}

func (s *session) keepOnly(n int) {
	if s.poll != nil {
		s.poll.kept = n
	}
}

// word returns a string; equal ones share their memory.
func (r *buildReader) word(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if w, ok := r.words[string(b)]; ok {
		return w
	}
	w := string(b)
	if len(r.words) < maxWords {
		r.words[w] = w
	}
	return w
}

// list returns the rules in a list of strings. Equal lists share their memory.
func (r *buildReader) list(raw []byte) ([]string, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if l, ok := r.lists[string(raw)]; ok {
		return l, nil
	}
	var read texts
	if err := json.Unmarshal(raw, &read, lenient); err != nil {
		return nil, err
	}
	l := withoutStar(read)
	if len(r.lists) < maxWords {
		r.lists[string(raw)] = l
	}
	return l, nil
}

// withoutStar returns rules without the rule "*", which the samples of docs
// apis/rest_api/builds.md show where a job has no rules.
func withoutStar(rules []string) []string {
	return slices.DeleteFunc(slices.Clone(rules), func(rule string) bool { return rule == "*" })
}

// lastTime parses times in JSON. It keeps the last one, because many equal the one before.
type lastTime struct {
	raw []byte
	at  time.Time
}

// of returns the time in raw; zero if raw contains no valid time.
func (l *lastTime) of(raw []byte) time.Time {
	if len(raw) == 0 {
		return time.Time{}
	}
	if !bytes.Equal(raw, l.raw) {
		var m moment
		_ = json.Unmarshal(raw, &m, lenient) // the decoder has read it as valid
		l.raw, l.at = append(l.raw[:0], raw...), m.at
	}
	return l.at
}

// script is the only type of job that an agent runs (docs apis/rest_api/builds.md "Job data
// model").
const script = "script"

// occupied reports whether a job in the state has an agent. States:
// docs pipelines/configure/defining_steps.md "Job states".
func occupied(state string) bool {
	return slices.Contains([]string{"assigned", "accepted", "running", "canceling", "timing_out"}, state)
}

// ended reports whether a job in the state is over (same page). REST returns
// passed or failed for finished.
func ended(state string) bool {
	return slices.Contains([]string{
		"passed", "failed", "finished", "canceled", "timed_out", "skipped", "broken", "expired",
	}, state)
}

// released reports whether the jobs behind a block step in the state may run.
func released(state string) bool {
	return state == "unblocked" || state == "unblocked_failed" || ended(state)
}

// noRunnableAt is the state of a job that is listed as scheduled and has no
// runnable_at, until [Config].CountLimited is applied.
const noRunnableAt plan.JobState = "scheduled without runnable_at"

// wants returns the state of a job of type script that needs an agent, now or later; false if
// it needs none. Behind reports whether a block step before it was not released.
func wants(r *jobRecord, behind bool) (plan.JobState, bool) {
	switch string(r.State) {
	case "scheduled":
		if len(r.RunnableAt) == 0 || string(r.RunnableAt) == "null" || string(r.RunnableAt) == `""` {
			return noRunnableAt, true
		}
		return plan.JobPending, true
	case "limiting", "limited", "platform_limiting", "platform_limited", "reserved":
		return plan.JobLimited, true
	case "blocked":
		return plan.JobBlocked, true
	case "waiting":
		if behind {
			return plan.JobBlocked, true
		}
		return plan.JobUpcoming, true
	}
	return "", false
}

// known reports whether a job in the state is known to need no agent, now or later.
func known(state string) bool {
	return slices.Contains([]string{"pending", "waiting_failed", "blocked_failed"}, state) ||
		occupied(state) || released(state)
}

// hasQueue reports whether tags or rules name a queue.
func hasQueue(tags []string) bool {
	return slices.ContainsFunc(tags, func(tag string) bool {
		return strings.HasPrefix(tag, "queue=")
	})
}
