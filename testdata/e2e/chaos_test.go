package e2e

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/testdata/e2e/node"
	"muster/testdata/e2e/process"
)

var (
	chaosFor  = flag.Duration("chaos", 10*time.Minute, "for how long TestChaos kills")
	chaosSeed = flag.Uint64("seed", 1, "what TestChaos kills and when")
)

// TestChaos kills syncers, the control plane and muster, and takes git and Buildkite
// away, at random, and starts them again: nothing runs twice, nobody is killed, all
// settles.
func TestChaos(t *testing.T) {
	w := shared.world
	random := rand.New(rand.NewPCG(*chaosSeed, 0))
	var fleet []*overlay
	for _, name := range syncers() {
		for i := range 3 {
			fleet = append(fleet, w.addOverlay(t, fmt.Sprintf("chaos-%d", i), w.syncers[name], options{policy: map[string]string{"lease": "3m"}}))
		}
	}
	c := &chaos{world: w, t: t, random: random, killed: map[string]int{}, twins: map[string]string{}, spare: map[string]int{}}
	end := time.Now().Add(*chaosFor)
	nextKill, nextJobs := time.Now().Add(5*time.Second), time.Now()
	jobs := 0
	for time.Now().Before(end) {
		time.Sleep(200 * time.Millisecond)
		c.revive()
		if time.Now().After(nextKill) {
			c.kill()
			nextKill = time.Now().Add(time.Duration(5+random.IntN(20)) * time.Second)
		}
		if time.Now().After(nextJobs) {
			jobs += c.work(fleet[random.IntN(len(fleet))])
			nextJobs = time.Now().Add(time.Duration(5+random.IntN(15)) * time.Second)
		}
	}
	c.peace()
	say("killed, or away, in %s: %v; %d jobs", *chaosFor, c.killed, jobs)
	for _, v := range fleet {
		v.until("every job has passed", func() error {
			for state, n := range v.counts() {
				if state != "passed" {
					return fmt.Errorf("%d are %s", n, state)
				}
			}
			return nil
		})
		v.leavesGit()
		v.isWell()
		c.accountLoosely(v)
	}
	say("indexes of Jobs that Kubernetes made two pods for: %d", c.doubled)
	for _, name := range syncers() {
		results.note(t, fmt.Sprintf("Parts killed at random for %s (seed %d, %d kills, %d jobs): no job runs twice, no agent is killed. Indexes with two pods: %d",
			*chaosFor, *chaosSeed, sum(c.killed), jobs, c.doubled), name)
	}
}

func sum(counts map[string]int) int {
	total := 0
	for n := range maps.Values(counts) {
		total += n
	}
	return total
}

// chaos kills and revives.
type chaos struct {
	*world
	t      *testing.T
	random *rand.Rand
	killed map[string]int
	due    []revival
	// When the API server or etcd was killed, or had ended: from the signal to its end.
	outages [][2]time.Time
	doubled int               // indexes of Jobs that had two pods
	twins   map[string]string // those pods by UID, to their index: the Job controller ends all but one
	spare   map[string]int    // how many of an index's it may end
}

type revival struct {
	at    time.Time
	what  string
	start func() error
}

// targets are what can be killed, by name.
func (c *chaos) targets() map[string]*process.Process {
	all := map[string]*process.Process{"muster": c.muster}
	for name, p := range c.cluster.processes {
		all[name] = p
	}
	for _, s := range c.syncers {
		maps.Copy(all, s.parts())
	}
	return all
}

func (c *chaos) isDown(name string) bool {
	return slices.ContainsFunc(c.due, func(r revival) bool { return r.what == name })
}

// kill kills one thing, and says when it is back.
func (c *chaos) kill() {
	targets := c.targets()
	names := append(slices.Sorted(maps.Keys(targets)), "git", "buildkite", "muster", "muster")
	name := names[c.random.IntN(len(names))]
	down := time.Duration(c.random.IntN(30)) * time.Second
	if c.isDown(name) {
		return
	}
	c.killed[name]++
	say("chaos: %s for %s", name, down)
	r := revival{at: time.Now().Add(down), what: name}
	switch name {
	case "git":
		c.git.away.Store(true)
		r.start = func() error { c.git.away.Store(false); return nil }
	case "buildkite":
		c.buildkite.goAway()
		r.start = func() error { c.buildkite.comeBack(); return nil }
	default:
		from := time.Now()
		targets[name].Kill()
		c.noteOutage(name, from)
		r.start = targets[name].Start
	}
	c.due = append(c.due, r)
}

// noteOutage notes that something was killed, from a moment until now.
func (c *chaos) noteOutage(name string, from time.Time) {
	if name == "kube-apiserver" || name == "etcd" {
		c.outages = append(c.outages, [2]time.Time{from, time.Now()})
	}
}

// revive starts what is due, and what has ended by itself, as a kubelet does. It reports
// whether anything was started.
func (c *chaos) revive() (started bool) {
	c.due = slices.DeleteFunc(c.due, func(r revival) bool {
		if time.Now().Before(r.at) {
			return false
		}
		if err := r.start(); err != nil {
			c.t.Fatal(err)
		}
		started = true
		return true
	})
	for name, p := range c.targets() {
		if err := p.Died(); err != nil {
			said, _, _ := strings.Cut(err.Error(), "\n")
			say("chaos: %s, and is started again", said)
			c.killed[name+", by itself"]++
			if name == "muster" { // it has to tolerate that the others are down
				c.t.Fatal(err)
			}
			c.noteOutage(name, time.Now())
			if err := p.Start(); err != nil {
				c.t.Fatal(err)
			}
			started = true
		}
	}
	return started
}

// peace starts everything, and returns when all has stayed up for a minute: a part may
// end by itself because another one that it needs has just begun to start.
func (c *chaos) peace() {
	for i := range c.due {
		c.due[i].at = time.Now()
	}
	for since := time.Now(); time.Since(since) < time.Minute; time.Sleep(200 * time.Millisecond) {
		if c.revive() {
			since = time.Now()
		}
	}
}

// work adds some jobs to a queue.
func (c *chaos) work(v *overlay) int {
	n := 1 + c.random.IntN(3)
	v.start(fakebuildkite.Step{Parallelism: n, Command: fmt.Sprintf("sleep %d", 1+c.random.IntN(20))})
	return n
}

// accountLoosely is account where answers were lost on the way: every Job came at most
// once, no pod registered twice, nobody was killed, no job ran twice.
func (c *chaos) accountLoosely(v *overlay) {
	v.t.Helper()
	known := map[string]bool{}
	for _, r := range v.dispatches() {
		for _, name := range r.Dispatches {
			known[name] = true
		}
	}
	for name, lives := range v.events.jobsOf(v.name) {
		if len(lives) != 1 || !known[name] {
			v.t.Errorf("%s: the cluster had %d Jobs %s; in the ledger: %v", v.name, len(lives), name, known[name])
		}
		c.accountIndexes(v, name)
	}
	v.expectKills = func(k node.Killed) bool {
		index := c.twins[k.Pod.Metadata.UID]
		c.spare[index]--
		return index != "" && c.spare[index] >= 0
	}
	v.nobodyKilled()
	v.onceEachJob()
}

// accountIndexes holds the agents of a Job against its pods: one each, and one pod for
// each index. Two where the API server or etcd was killed as the first was made: the Job
// controller then takes the pod for not made, and makes another one (pkg/controller/job,
// manageJob, "Decrement the expected number of creates because the informer won't observe
// this pod"; https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
// says that it happens). It ends one of them when it sees both.
func (c *chaos) accountIndexes(v *overlay, job string) {
	v.t.Helper()
	pods, agents := map[int][]seenPod{}, map[int]int{}
	for _, p := range v.events.podsOf(v.name) {
		if p.Job == job {
			pods[p.Index] = append(pods[p.Index], p)
		}
	}
	for _, a := range v.buildkite.agentsOf(job) {
		for _, tag := range a.Tags {
			var index int
			if n, _ := fmt.Sscanf(tag, "index=%d", &index); n == 1 {
				agents[index]++
			}
		}
	}
	for index, n := range agents {
		if n > len(pods[index]) {
			v.t.Errorf("%s: %d agents connected as index %d of %s: agents %+v, pods %+v", v.name, n, index, job, v.buildkite.agentsOf(job), pods[index])
		}
	}
	for index, made := range pods {
		if len(made) == 1 {
			continue
		}
		c.doubled++
		slices.SortFunc(made, func(a, b seenPod) int { return a.Created.Compare(b.Created) })
		for _, p := range made[:len(made)-1] {
			if !c.lostAnswer(p.Created) {
				v.t.Errorf("%s: index %d of %s had %d pods, made while the API server and etcd were there: %+v", v.name, index, job, len(made), made)
			}
		}
		name := fmt.Sprintf("%s-%d", job, index)
		c.spare[name] = len(made) - 1
		for _, p := range made {
			c.twins[p.UID] = name
		}
	}
}

// lostAnswer reports whether the API server or etcd was killed within three seconds of the
// making of a pod, whose time is cut down to the second.
func (c *chaos) lostAnswer(made time.Time) bool {
	return slices.ContainsFunc(c.outages, func(o [2]time.Time) bool {
		return made.After(o[0].Add(-3*time.Second)) && made.Before(o[1])
	})
}
