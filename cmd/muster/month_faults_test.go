package main

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/branch"
)

// fault is a fault at one time. The zero value is none.
type fault struct {
	name string
	// Faults of the git server: it is unavailable; the response to a push is lost; it fails
	// before it accepts a push; another writer pushes first.
	gitUnavailable, answerLost, pushFails, conflict bool
	// neverRegistered is the share of pods whose agents never register.
	noShow float64
	// begin and end simulate other faults; may be nil.
	begin, end func(p *production)
}

// longestFault is the maximum duration of a fault. It is shorter than a lease less the start-up
// time, so that no agent is overdue.
const longestFault = 10 * time.Minute

// whatGoesWrong lists the faults, which occur one at a time. None removes a job for which an
// agent was ordered, so no agent may be unused.
var whatGoesWrong = []fault{
	{
		name:  "Buildkite answers with 503",
		begin: func(p *production) { p.buildkite.Fail(fakebuildkite.Fault{Times: -1, Status: 503}) },
		end:   func(p *production) { p.buildkite.Recover() },
	},
	{
		name:  "one page in ten of Buildkite's breaks off",
		begin: func(p *production) { p.buildkite.Fail(fakebuildkite.Fault{Times: 50, Skip: 10, Half: true}) },
		end:   func(p *production) { p.buildkite.Recover() },
	},
	{name: "git is away", gitUnavailable: true},
	{name: "the answers to pushes are lost", answerLost: true},
	{name: "pushes fail", pushFails: true},
	{name: "people push at the same time", conflict: true},
	{name: "one pod in five never registers", noShow: 0.2},
	{
		name:  "nodes are lost",
		begin: func(p *production) { p.loseNodes() },
	},
	{
		name:  "the syncer is down",
		begin: func(p *production) { p.stopped = true },
		end:   func(p *production) { p.stopped = false },
	},
}

// schedule schedules builds, the syncer, a fault in each hour, and git gc at night.
func (p *production) schedule() {
	for i := range p.queues {
		p.builds(i)
	}
	p.every(30*time.Second, p.sync)
	turn := p.random.Perm(len(whatGoesWrong))
	for at, i := time.Duration(0), 0; at < p.length; at, i = at+time.Hour, i+1 {
		x := whatGoesWrong[turn[i%len(turn)]]
		begin := p.begin.Add(at + time.Duration(p.random.Int64N(int64(40*time.Minute))))
		p.buildkite.At(begin, func() { p.start(x) })
		p.buildkite.At(begin.Add(time.Minute+time.Duration(p.random.Int64N(int64(longestFault-time.Minute)))), func() { p.stop(x) })
	}
	p.every(24*time.Hour, func() {
		if _, err := p.repo.Git("gc", "--quiet"); err != nil {
			p.t.Error(err)
		}
	})
}

func (p *production) since() time.Duration { return p.buildkite.Now().Sub(p.begin) }

// every calls f periodically.
func (p *production) every(turn time.Duration, f func()) {
	p.buildkite.At(p.buildkite.Now().Add(turn), func() {
		f()
		p.every(turn, f)
	})
}

func (p *production) start(x fault) {
	p.problems[x.name]++
	p.problem.Store(&x)
	if x.begin != nil {
		x.begin(p)
	}
}

func (p *production) stop(x fault) {
	p.problem.Store(&fault{})
	if x.end != nil {
		x.end(p)
	}
}

// builds schedules the builds of a queue: most on afternoons of working days, at most about one
// an hour, and on the second Thursday at three one with more jobs than max.
func (p *production) builds(i int) {
	turn := func() time.Duration { return time.Duration(p.random.ExpFloat64() * float64(time.Hour)) }
	for at := turn(); at < p.length; at += turn() {
		if p.random.Float64() < busyness(p.begin.Add(at)) {
			p.build(at, i, p.jobs/2+p.random.IntN(p.jobs))
		}
	}
	const release = 10*24*time.Hour + 15*time.Hour
	if release < p.length {
		p.build(release, i, 150)
	}
}

func (p *production) build(at time.Duration, i, jobs int) {
	between := func(low, high int) time.Duration { return time.Duration(low+p.random.IntN(high-low)) * time.Second }
	b := fakebuildkite.Build{
		Pipeline: "app", Cluster: p.kept, Branch: "main", Message: "A change",
		Steps: []fakebuildkite.Step{
			{Label: "lint", Agents: []string{"queue=" + p.queues[i]}, Duration: between(60, 300), Retries: 5},
			{Type: fakebuildkite.Wait},
			{Label: "test", Agents: []string{"queue=" + p.queues[i]}, Parallelism: jobs, Duration: between(1200, 3600), Retries: 5},
		},
	}
	p.buildkite.At(p.begin.Add(at), func() { p.buildkite.CreateBuild(b) })
}

// busyness is the share of the busiest time's builds.
func busyness(at time.Time) float64 {
	hour := float64(at.Hour()) + float64(at.Minute())/60
	busy := 0.03 + 0.97*math.Pow(math.Max(0, math.Cos((hour-14)/24*2*math.Pi)), 2)
	if d := at.Weekday(); d == time.Saturday || d == time.Sunday {
		return busy / 10
	}
	return busy
}

// sync checks out the head, if it is a new one, and applies it to the cluster.
func (p *production) sync() {
	p.most = max(p.most, p.cluster.Connected())
	if p.stopped {
		return
	}
	head, err := p.repo.Head()
	if err != nil {
		p.t.Error(err)
		return
	}
	if head == p.synced {
		return
	}
	if _, err := p.repo.Git("--work-tree", p.checkout, "read-tree", "-u", "--reset", head); err != nil {
		p.t.Error(err)
		return
	}
	p.synced = head
	for _, queue := range p.queues {
		if err := p.cluster.Sync(os.DirFS(p.checkout), path.Join("overlays", queue)); err != nil {
			p.t.Error(err)
		}
	}
}

// loseNodes ends one in ten of the agents with a job; Buildkite retries their jobs.
func (p *production) loseNodes() {
	for _, a := range p.buildkite.Agents() {
		if pod := p.cluster.Pod(a.ID); pod != nil && a.Job != "" && p.random.IntN(10) == 0 {
			p.cluster.Kill(pod)
		}
	}
}

// disturb simulates the faults of the git server.
func (p *production) disturb(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := p.problem.Load()
		push := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack")
		switch {
		case x.gitUnavailable, push && x.pushFails:
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		case push && x.answerLost:
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case push && x.conflict:
			p.raise(r.ContentLength)
		}
		next.ServeHTTP(w, r)
	})
}

// raise commits a change of a policy, before muster pushes.
func (p *production) raise(salt int64) {
	file := path.Join("overlays", p.queues[int(salt)%len(p.queues)], "scaling.yaml")
	before, err := p.repo.ReadFile(file)
	if err != nil {
		panic(err)
	}
	after := bytes.Replace(before, []byte("max: 100 "), []byte("max: 101 "), 1)
	if bytes.Equal(before, after) {
		after = bytes.Replace(before, []byte("max: 101 "), []byte("max: 100 "), 1)
	}
	if _, err := p.repo.Commit(fmt.Sprintf("%s: change max", file), p.buildkite.Now(), branch.Change{Path: file, Content: after}); err != nil {
		panic(err)
	}
}
