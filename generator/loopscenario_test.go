package generator_test

import (
	"context"
	"iter"
	"time"

	"muster/generator"
	"muster/generator/plan"
	"muster/generator/webhook"
)

// loop is the real loop of a process, [generator.Generator.Run], and who calls it. It is a
// coroutine: it continues when the simulation resumes it, and stops when it sleeps. So one goroutine
// runs the simulation anyway; the one that waits for triggers during a sleep only ends it.
type loop struct {
	resume  func() (struct{}, bool) // nil: not begun
	stop    func()
	yield   func(struct{}) bool
	ctx     context.Context
	cancel  context.CancelFunc
	running bool

	receiver      *webhook.Receiver // nil where there are no webhooks
	seen          map[string]time.Time
	down          bool        // the process is, until it starts again
	triggered     bool        // a call waits to be seen
	callable      bool        // a call ends the sleep
	calls, seenBy calls       // since the last tick began, and those that it sees
	paced         []time.Time // ticks of this process that calls brought
	interrupted   bool        // by the world
	last          generator.Report
}

// calls are how many calls there were, and the first that the loop could follow.
type calls struct {
	n     int
	first time.Time
}

// looped reports whether the musters of the world run by their loop: where something may
// end the pause between two ticks.
func (w *scenario) looped() bool { return !w.noLoops && (w.metrics.on || w.hooks.on) }

// beginLoop gives a process its loop, where the world has them.
func (m *muster) beginLoop(cfg *generator.Config) {
	if !m.w.looped() || m.repo != m.w.fleet { // the other fleet's
		return
	}
	if m.loop == nil {
		m.loop = &loop{}
	}
	m.last = generator.Report{}
	wake := &generator.Triggers{Every: m.w.hooks.every, Spare: m.client.Spare, Metrics: m.metrics()}
	if m.w.hooks.on {
		m.receiver, m.seen = m.newReceiver(), map[string]time.Time{}
		wake.Gather, wake.Calls = gatherTime, m.receiver.Calls()
	}
	cfg.Triggers, cfg.Watch = wake, m
}

// live runs the loop until the world ends it, anew where the process was killed.
func (m *muster) live() iter.Seq[struct{}] {
	return func(yield func(struct{}) bool) {
		m.yield = yield
		for {
			m.down = false
			m.ctx, m.cancel = context.WithCancel(context.Background())
			err := m.generator.Run(m.ctx, m.w.every, 0)
			m.cancel()
			if err != nil {
				m.w.audit.failf("%s: the loop ends: %v", m.name, err)
			}
			if !m.down {
				return
			}
			m.next = m.w.server.Now().Add(m.w.every)
			if !yield(struct{}{}) {
				return
			}
		}
	}
}

// goOn resumes the loop, until it sleeps.
func (m *muster) goOn() {
	if m.running {
		return
	}
	if m.loop.resume == nil {
		m.loop.resume, m.stop = iter.Pull(m.live())
	}
	m.running = true
	m.loop.resume()
	m.running = false
}

// interrupt has the loop tick now, as SIGHUP does.
func (m *muster) interrupt() {
	m.interrupted = true
	m.goOn()
}

// end ends the loop where it sleeps. The next one begins where it would have gone on.
func (m *muster) end() {
	if m.loop != nil && m.loop.resume != nil {
		m.stop()
		m.loop.resume, m.triggered, m.last = nil, false, generator.Report{}
	}
}

// pause is a sleep between two ticks.
func (m *muster) pause(ctx context.Context, d time.Duration) error {
	if m.callable = ctx != m.ctx; !m.callable || !m.triggered {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.next = m.w.server.Now().Add(d)
		if !m.yield(struct{}{}) {
			m.cancel()
		}
	}
	if m.callable && m.triggered {
		<-ctx.Done() // the call is being seen
		m.triggered = false
	}
	m.callable = false
	return ctx.Err()
}

// Began implements [generator.Watcher].
func (m *muster) Began(at time.Time) {
	if m.receiver != nil {
		m.receiver.Began(at)
	}
	m.ticking = true
	m.ticks++
	m.hidden = 0
	m.triggered = false
	m.calls, m.seenBy = calls{}, m.calls
}

// Ended implements [generator.Watcher].
func (m *muster) Ended(r generator.Report) {
	if m.receiver != nil {
		m.receiver.Ended(r)
	}
	m.ticking = false
	m.w.audit.loopTicked(m, r)
	m.last, m.interrupted = r, false
	if m.receiver != nil && len(m.receiver.Calls()) > 0 { // a webhook during the tick
		m.calls.n = 0
		m.noteCall()
	}
	if m.killed {
		m.down = true
		m.cancel()
	}
	m.ticked(r.Result, r.Err)
}

// noteCall notes that the loop was called.
func (m *muster) noteCall() {
	if m.calls.n++; m.calls.n == 1 {
		m.calls.first = m.w.server.Now()
	}
	m.triggered = true
	if m.callable && !m.running {
		m.next = m.w.server.Now()
	}
}

// loopTicked holds a tick of the loop to the rules of generator/trigger.go: why it began, and
// when (docs/architecture.md, "Triggers").
func (a *audit) loopTicked(m *muster, r generator.Report) {
	w, last := a.w, m.last
	w.seen["tick "+string(r.Cause)]++
	if r.Cause == generator.CauseStart || last.Began.IsZero() {
		m.paced = nil
		return
	}
	webhook := r.Cause == generator.CauseBuildkite || r.Cause == generator.CauseGit
	if webhook && m.seenBy.n == 0 {
		a.failf("%s ticks for %s, and nobody called that knows the secret", m.name, r.Cause)
	}
	if m.interrupted {
		return
	}
	if webhook || r.Cause == generator.CauseMetrics {
		a.paced(m, r, last.Began)
	}
	if last.Err != nil && r.Began.Before(last.Next) {
		a.failf("%s ticks for %s at %s: the last tick failed, and the next was due at %s", m.name, r.Cause, r.Began, last.Next)
	}
	if len(w.musters) > 1 || w.now.drift > 0 || w.other != nil {
		return // a tick of another one, or a request for the metrics, takes time
	}
	due := last.Next
	if called := later(m.seenBy.first.Add(gatherTime), last.Began.Add(w.hooks.every)); m.seenBy.n > 0 && last.Err == nil && !r.Deferred && called.Before(due) {
		due = called
	}
	if r.Began.After(later(due, last.Ended)) {
		a.failf("%s ticks for %s at %s, which was due at %s: %d calls, the first at %s", m.name, r.Cause, r.Began, due, m.seenBy.n, m.seenBy.first)
	}
}

// paced holds a tick that a call brought to the rules of package pace: a second after the
// last one at the earliest, and of six such ticks the last one at least the mean time
// after the first.
func (a *audit) paced(m *muster, r generator.Report, last time.Time) {
	if r.Began.Sub(last) < min(plan.MinTickSpacing, a.w.hooks.every) {
		a.failf("%s ticks for %s %s after its last tick began", m.name, r.Cause, r.Began.Sub(last))
	}
	m.paced = append(m.paced, r.Began)
	if n := len(m.paced) - 6; n >= 0 && r.Began.Sub(m.paced[n]) < a.w.hooks.every {
		a.failf("%s ticks for %s, the sixth that was called for within %s", m.name, r.Cause, r.Began.Sub(m.paced[n]))
	}
}

// playLoops is play for musters that run by their loops.
func (w *scenario) playLoops(until time.Duration, done func() bool) {
	defer func() {
		for _, m := range w.musters {
			m.end()
		}
	}()
	end := scenarioStart().Add(until)
	for {
		next := w.nextMuster()
		if event, ok := w.server.Next(); ok && event.Before(next.next) && event.Before(end) {
			w.server.AdvanceTo(event) // a webhook may come before
			continue
		}
		if !next.next.Before(end) {
			w.server.AdvanceTo(end)
			return
		}
		w.server.AdvanceTo(next.next)
		before := next.ticks
		if next.loop != nil {
			next.goOn()
		} else {
			next.tick()
			for next.next = next.next.Add(w.every); next.next.Before(w.server.Now()); {
				next.next = next.next.Add(w.every)
			}
		}
		if next.ticks == before {
			continue
		}
		w.audit.tick()
		if done != nil && done() || w.audit.failed {
			return
		}
	}
}
