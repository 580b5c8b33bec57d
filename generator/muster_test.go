package generator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/buildkite/steptime"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/leaktest"
)

// muster is one process of muster, with its own faults. It is the Repository, the Buildkite and the
// Clock of its Generator.
type muster struct {
	w         *scenario
	name      string
	repo      *fleetRepository
	generator *generator.Generator
	client    *buildkite.Client
	times     *steptime.Times // what it has learned of steps where it is shown a snapshot in process
	next      time.Time       // of its ticks
	ticking   bool
	killed    bool
	snapshot  plan.Snapshot           // the last that it was shown
	hidden    int                     // idle agents that were left out of it
	known     map[string]map[int]bool // indexes that it was shown since it started, by dispatch
	good      time.Time               // of its last tick without an error
	ticks     int
	page      string // the agents there were at the last page of their list
	*loop            // nil: the world has its tick called
}

func (w *scenario) newMuster(i int) *muster {
	m := &muster{w: w, name: fmt.Sprintf("muster-%d", i+1), repo: w.fleet}
	m.next = scenarioStart().Add(time.Duration(i) * w.stagger)
	m.good = scenarioStart()
	m.start()
	return m
}

// start begins a new process, which remembers nothing.
func (m *muster) start() {
	m.killed, m.known = false, map[string]map[int]bool{}
	client, err := buildkite.New(buildkite.Config{
		Org: "acme", Token: m.token(), Metrics: m.counter(),
		HTTP: troubledTransport{m, m.w.server.Transport()}, PerPage: m.w.perPage, Stacks: m.stacks(), Log: leaktest.Log(m.w.audit.fail, nil),
		Clock:   sleeplessClock{m},
		Timeout: time.Hour, // the machine's clock is not the world's: a busy machine must change nothing
	})
	if err != nil {
		panic(err)
	}
	m.client, m.times = client, nil
	cfg := generator.Config{Repository: m, Buildkite: m, Clock: m, Overlays: "overlays", Log: leaktest.Log(m.w.audit.fail, nil)}
	m.beginLoop(&cfg)
	m.generator = generator.New(cfg)
}

// tick is one tick of the real Generator.
func (m *muster) tick() {
	if m.ticking {
		return
	}
	if m.loop != nil {
		m.interrupt()
		return
	}
	m.ticking = true
	defer func() { m.ticking = false }()
	m.ticks++
	m.hidden = 0
	m.ticked(m.generator.Tick(context.Background()))
}

// ticked is called when a tick has ended.
func (m *muster) ticked(result generator.Result, err error) {
	switch {
	case m.killed:
		m.w.trace("%s: killed, starts again", m.name)
		m.start()
	case err != nil:
		m.w.trace("%s: %v", m.name, err)
		m.w.audit.tickFailed(m, err)
	case m == m.w.other:
		m.good = m.w.server.Now()
	default:
		m.good = m.w.server.Now()
		m.w.audit.tickDone(m, result)
		m.w.audit.inferred(m, result)
	}
}

// sleeplessClock tells the client the world's time, and does not wait before a failed request is
// repeated. Without a clock, the client counts requests by whole seconds, and can send too many.
type sleeplessClock struct{ *muster }

// Sleep implements buildkite.Clock.
func (sleeplessClock) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// Now implements generator.Clock.
func (m *muster) Now() time.Time { return m.w.server.Now() }

// Sleep implements generator.Clock. How long a back-off takes is the
// generator's own dice; here, the seed's.
func (m *muster) Sleep(ctx context.Context, d time.Duration) error {
	if m.loop != nil && !m.ticking {
		return m.pause(ctx, d)
	}
	if m.w.instant {
		return nil
	}
	m.w.server.Advance(time.Duration(m.w.faults.Int64N(int64(time.Second))))
	return nil
}

// hit draws whether something happens now.
func (w *scenario) hit(rate float64) bool { return rate > 0 && w.faults.Float64() < rate }

// die is a point at which the process may be killed. A dead process does
// nothing more, whatever it asks.
func (m *muster) die() error {
	if !m.killed && m.w.hit(m.w.now.kill) {
		m.killed = true
	}
	if m.killed {
		return errCrashed
	}
	return nil
}

// meanwhile lets others act in the middle of this muster's tick.
func (m *muster) meanwhile() {
	if m.w.hit(m.w.now.interleave) {
		m.w.musters[m.w.faults.IntN(len(m.w.musters))].tick()
	}
	if m.w.hit(m.w.now.meddle) {
		m.w.meddle()
	}
}

// Head implements generator.Repository.
func (m *muster) Head(context.Context) (branch.Head, error) {
	if err := m.die(); err != nil {
		return branch.Head{}, err
	}
	if m.w.hit(m.w.now.unreachable) {
		return branch.Head{}, errUnreachable
	}
	head := m.repo.head()
	if head.parent != nil && m.w.hit(m.w.now.stale) {
		head = head.parent // a mirror that lags behind
	}
	m.meanwhile()
	return head.head(), m.die()
}

// Commit implements generator.Repository.
func (m *muster) Commit(_ context.Context, head branch.Head, ops []ledger.Draft) (branch.Head, error) {
	m.meanwhile()
	if err := m.die(); err != nil {
		return branch.Head{}, err
	}
	if m.w.hit(m.w.now.refused) {
		return branch.Head{}, errors.New("the server refused the push")
	}
	if m.w.hit(m.w.now.moved) {
		return branch.Head{}, branch.ErrMoved
	}
	c, err := m.repo.push(m.name, head.Commit, ops)
	if err != nil {
		return branch.Head{}, err
	}
	m.w.trace("%s: %s", m.name, kinds(ops))
	if err := m.die(); err != nil {
		return branch.Head{}, err
	}
	if m.w.hit(m.w.now.swallowed) {
		return branch.Head{}, &branch.Unsettled{Before: head.Commit, After: c.id, Err: errors.New("the connection broke off")}
	}
	if m.w.hit(m.w.now.overtaken) {
		// It has landed, and somebody else's push on top of it.
		return branch.Head{}, &branch.Unsettled{Before: head.Commit, After: c.id, Err: branch.ErrMoved}
	}
	return c.head(), nil
}

// Limits implements generator.Repository.
func (m *muster) Limits() branch.Limits { return branch.Limits{} }

// HasBranch implements generator.Repository.
func (m *muster) HasBranch(context.Context, string) (bool, error) { return false, nil }

// Commits implements branch.History.
func (m *muster) Commits(_ context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error] {
	if err := m.past(); err != nil {
		return func(yield func(branch.Commit, error) bool) { yield(branch.Commit{}, err) }
	}
	return m.repo.commits(from, limit)
}

// File implements branch.History.
func (m *muster) File(_ context.Context, commit, name string) ([]byte, error) {
	if err := m.past(); err != nil {
		return nil, err
	}
	return m.repo.file(commit, name)
}

// Edits implements branch.History.
func (m *muster) Edits(_ context.Context, commits []branch.Commit, _ map[string]string, look branch.Selection) ([]branch.Edits, error) {
	if err := m.past(); err != nil {
		return nil, err
	}
	return m.repo.edits(commits, look)
}

// past is what may go wrong when the past is read.
func (m *muster) past() error {
	if m.w.hit(m.w.now.unreachable) {
		return errUnreachable
	}
	return m.die()
}

// Snapshot implements generator.Buildkite.
func (m *muster) Snapshot(ctx context.Context, query plan.Query) (plan.Snapshot, error) {
	if err := m.die(); err != nil {
		return plan.Snapshot{}, err
	}
	m.hidden = 0
	var s plan.Snapshot
	if m.w.http {
		var err error
		if s, err = m.client.Snapshot(ctx, query); err != nil {
			return s, errors.Join(err, m.die())
		}
	} else {
		if m.w.hit(m.w.now.broken) {
			return s, errors.New("Buildkite answers 500")
		}
		switch {
		case !query.Lookahead():
			m.times = nil
		case m.times == nil:
			m.times = &steptime.Times{}
		}
		s = m.w.server.SnapshotWithTimes(m.times, query.Since)
		s.At = query.At
		s.Agents = m.hide(s.Agents)
	}
	shuffle(m.w.order, s.Agents)
	shuffle(m.w.order, s.Jobs)
	shuffle(m.w.order, s.Sightings)
	m.learn(s)
	m.meanwhile()
	return s, m.die()
}

func shuffle[T any](r *rand.Rand, list []T) {
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// hide leaves agents out of a list, or puts them in twice.
func (m *muster) hide(agents []plan.Agent) []plan.Agent {
	if m.w.now.hidden == 0 {
		return agents
	}
	var shown []plan.Agent
	for _, a := range agents {
		if m.w.hit(m.w.now.hidden) {
			m.hidden++
			continue
		}
		shown = append(shown, a)
	}
	return shown
}

// learn keeps what the process can know of indexes.
func (m *muster) learn(s plan.Snapshot) {
	m.snapshot = s
	note := func(tags []string, name string) {
		dispatch, index := tagOf(tags, "dispatch"), tagOf(tags, "index")
		if at := strings.LastIndexByte(name, '-'); len(tags) == 0 && at > 0 {
			dispatch, index = name[:at], name[at+1:]
		}
		if n, err := strconv.Atoi(index); err == nil && dispatch != "" {
			if m.known[dispatch] == nil {
				m.known[dispatch] = map[int]bool{}
			}
			m.known[dispatch][n] = true
		}
	}
	for _, a := range s.Agents {
		note(a.Tags, "")
	}
	for _, g := range s.Sightings {
		note(g.Tags, g.Name)
	}
}

func tagOf(tags []string, key string) string {
	for _, t := range tags {
		if v, ok := strings.CutPrefix(t, key+"="); ok {
			return v
		}
	}
	return ""
}

// troubledTransport stands between a muster and Buildkite.
type troubledTransport struct {
	m    *muster
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t troubledTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := t.m.w
	if err := t.m.die(); err != nil {
		return nil, err
	}
	if w.hit(w.now.hang) {
		w.server.Advance(buildkite.DefaultTimeout)
		return nil, context.DeadlineExceeded
	}
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	t.m.turnPage(r)
	if r.URL.Query().Has("cluster_queue_id") {
		w.seen["by queue"]++
	}
	if response.StatusCode == http.StatusTooManyRequests && w.hooks.on && len(w.musters) == 1 && w.rates.kill == 0 {
		w.audit.failf("%s asks Buildkite more often than it allows", t.m.name)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	switch {
	case w.hit(w.now.limited):
		w.seen["rate limit"]++
		response.StatusCode = http.StatusTooManyRequests
		response.Header.Set("RateLimit-Reset", strconv.Itoa(1+w.faults.IntN(60)))
		body = []byte(`{"message":"slow down"}`)
	case w.hit(w.now.broken):
		response.StatusCode = http.StatusInternalServerError
		body = []byte(`{"message":"sorry"}`)
	case w.hit(w.now.half):
		body = body[:len(body)/2]
	case strings.HasSuffix(r.URL.Path, "/agents") && w.now.hidden > 0:
		body = t.m.hideRecords(body)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	response.ContentLength = int64(len(body))
	return response, nil
}

// turnPage counts the lists of agents that changed between two of their pages.
func (m *muster) turnPage(r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/agents") {
		return
	}
	now := fmt.Sprint(m.w.server.Stats().Connected, m.w.server.Stats().Agents)
	if page := r.URL.Query().Get("page"); page != "" && page != "1" && now != m.page {
		m.w.seen["changed list"]++
	}
	m.page = now
}

// hideRecords leaves records out of a page, and puts others in twice.
func (m *muster) hideRecords(body []byte) []byte {
	var records, shown []json.RawMessage
	if json.Unmarshal(body, &records) != nil {
		return body
	}
	for _, r := range records {
		if m.w.hit(m.w.now.hidden) {
			m.hidden++
			continue
		}
		shown = append(shown, r)
		if m.w.hit(m.w.now.hidden) {
			shown = append(shown, r)
		}
	}
	if shown == nil {
		return []byte("[]")
	}
	again, err := json.Marshal(shown)
	if err != nil {
		return body
	}
	return again
}
