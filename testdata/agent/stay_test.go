package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// TestReusableAgent: a reusable agent takes one job after another, counts as supply as soon as it has
// finished one, and exits with code 0 without a job.
func TestReusableAgent(t *testing.T) {
	eachMode(t, func(t *testing.T, o fakebuildkite.Options) {
		w := newWorld(t, o)
		w.hold("/disconnect")
		p := w.start(options{idle: 3 * time.Second, uptime: time.Hour})
		p.until("it was connected", func() bool { return len(w.Agents()) == 1 })
		if tags := strings.Join(w.Agents()[0].Tags, " "); !strings.Contains(tags, " muster-uptime=3600 muster-template=") {
			t.Errorf("its tags are %s", tags)
		}
		gate := p.build(2, 0)
		p.until("it ran a job", func() bool { return slices.Contains(w.states(), "running") })
		p.wantCounts(counts{Own: 1, Busy: 1, Registered: 1, Worked: true})
		gate()
		p.until("it ran both jobs", func() bool { return slices.Equal(w.states(), []string{"passed", "passed"}) })
		p.wantCounts(counts{Own: 1, Spare: 1, Registered: 1, Worked: true})
		p.until("it left", func() bool { return w.count("disconnect") == 1 })
		w.release("/disconnect")
		p.ends(0)
		p.wantCounts(counts{Registered: 1, Worked: true})
		p.wantRequests("register", "connect", "accept", "start", "finish", "accept", "start", "finish", "disconnect")
		if a := w.Agents()[0]; a.Jobs != 2 {
			t.Errorf("the agent is %+v", a)
		}
	})
}

// TestUptime: when its uptime is over an idle agent leaves at once, and one that works
// when its job has ended, both with exit code 0. Until it has gone it is no supply.
func TestUptime(t *testing.T) {
	const uptime = 3 * time.Second
	t.Run("idle", func(t *testing.T) {
		eachMode(t, func(t *testing.T, o fakebuildkite.Options) {
			w := newWorld(t, o)
			w.hold("/disconnect")
			p := w.start(options{uptime: uptime})
			p.until("it left", func() bool { return w.count("disconnect") == 1 })
			p.wantCounts(counts{Stopping: 1, Registered: 1})
			w.release("/disconnect")
			p.ends(0)
			p.wantSaid("Agent has exceeded max uptime of 3s")
			p.wantRequests("register", "connect", "disconnect")
		})
	})
	t.Run("working", func(t *testing.T) {
		eachMode(t, func(t *testing.T, o fakebuildkite.Options) {
			w := newWorld(t, o)
			w.hold("/disconnect")
			p := w.start(options{uptime: uptime})
			gate := p.build(1, 0)
			p.until("it ran a job", func() bool { return slices.Contains(w.states(), "running") })
			old := w.Agents()[0].Connected.Add(uptime + time.Second)
			p.until("its uptime was over", func() bool { return w.Now().After(old) })
			p.wantCounts(counts{Own: 1, Busy: 1, Registered: 1, Worked: true})
			gate()
			p.until("it left", func() bool { return w.count("disconnect") == 1 })
			p.wantStates("passed")
			p.wantCounts(counts{Stopping: 1, Registered: 1, Worked: true})
			w.release("/disconnect")
			p.ends(0)
			p.wantRequests("register", "connect", "accept", "start", "finish", "disconnect")
		})
	})
	// Buildkite may have given it another job by then. It takes that one or leaves, as
	// it happens: then the job is another agent's.
	t.Run("working, with more to do", func(t *testing.T) {
		eachMode(t, func(t *testing.T, o fakebuildkite.Options) {
			w := newWorld(t, o)
			p := w.start(options{uptime: uptime})
			gate := p.build(9, 0)
			p.until("it ran a job", func() bool { return slices.Contains(w.states(), "running") })
			old := w.Agents()[0].Connected.Add(uptime + time.Second)
			p.until("its uptime was over", func() bool { return w.Now().After(old) })
			gate()
			p.ends(0)
			passed := 0
			for _, state := range w.states() {
				if state == "passed" {
					passed++
				} else if state != "scheduled" {
					t.Errorf("the jobs are %v", w.states())
				}
			}
			t.Logf("it has had %d jobs", passed)
			if a := w.Agents()[0]; a.Jobs != passed || passed == 0 {
				t.Errorf("%d jobs passed, and the agent is %+v", passed, a)
			}
		})
	})
}
