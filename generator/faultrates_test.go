package generator_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"muster/generator/ledger"
	"muster/generator/simulation"
	"muster/gitops/branch"
)

// rates are the rates of faults.
type rates struct {
	// Each call of the repository, and each step of a tick.
	unreachable, stale, refused, moved, swallowed, overtaken, kill, interleave, meddle float64
	// Each request to Buildkite, and each agent of a list.
	limited, broken, half, hang, hidden float64
	drift                               time.Duration // the longest between two requests
	// Each hour.
	people, pauses, policies, drains, deletions float64
	crowds                                      float64 // edits with thousands of commits of others after them
	edits                                       float64 // of policies while agents live
	tampers                                     float64 // edits of dispatches
	reuses, templates                           float64 // edits of reuse, and of the base
	autos                                       float64 // edits of the lease to auto, and back
	refusals, lost                              float64 // times in which agents get no answer
	fleeting                                    float64 // builds that are cancelled within a minute
	// Each world.
	outages, brokenImages int
	warmDeaths            int // times in which agents of the warm pool die at once
	outage                time.Duration
	noShow, crashPod      float64
	twin                  float64 // indexes that get two pods
	nodes                 int
	skew, lag             time.Duration
	startup               [2]time.Duration
}

// drift lets time pass between two requests.
func (w *scenario) drift(*http.Request) {
	if w.now.drift > 0 {
		w.server.Advance(time.Duration(w.faults.Int64N(int64(w.now.drift))))
	}
}

// beginFaults plans those that come at moments of their own.
func (w *scenario) beginFaults() {
	r := rand.New(rand.NewPCG(w.seed, 4))
	w.work.each(w, r, w.rates.people, func() func() { return w.meddle })
	w.work.each(w, r, w.rates.policies, func() func() { return w.changePolicy })
	w.work.each(w, r, w.rates.pauses, func() func() {
		queue, wait := w.queues()[r.IntN(len(w.queues()))], time.Duration(r.Int64N(int64(40*time.Minute)))
		return func() { w.pause(queue, wait) }
	})
	w.work.each(w, r, w.rates.drains, func() func() {
		o, dice := w.overlays[r.IntN(len(w.overlays))], r.IntN(1<<30)
		return func() { w.drain(o, dice) }
	})
	w.work.each(w, r, w.rates.deletions, func() func() {
		o, dice := w.overlays[r.IntN(len(w.overlays))], r.IntN(1<<30)
		return func() { w.deleteJob(o, dice) }
	})
	window := func(length time.Duration, set func(k *kube, on bool)) {
		k := w.overlays[r.IntN(len(w.overlays))].kube
		from := time.Duration(r.Int64N(int64(w.length)))
		w.at(from, func() { set(k, true) })
		w.at(from+length, func() { set(k, false) })
	}
	for range w.rates.outages {
		window(w.rates.outage, func(k *kube, on bool) { w.trace("%s: syncer down %t", k.overlay, on); k.down = on })
	}
	w.beginMore()
	w.beginCrowds()
	w.beginReuse()
	w.beginAuto()
	for range w.rates.brokenImages {
		window(time.Duration(r.Int64N(int64(2*time.Hour))), func(k *kube, on bool) { w.trace("%s: image broken %t", k.overlay, on); k.broken = on })
	}
}

func (w *scenario) pause(queue string, wait time.Duration) {
	if !w.inCluster || w.pausedNow(queue) {
		return
	}
	w.trace("queue %s is paused", queue)
	w.server.PauseQueue(w.cluster, queue)
	w.pauses[queue] = append(w.pauses[queue], [2]time.Time{w.server.Now()})
	w.server.At(w.server.Now().Add(wait), func() { w.resume(queue) })
}

func (w *scenario) pausedNow(queue string) bool {
	all := w.pauses[queue]
	return len(all) > 0 && all[len(all)-1][1].IsZero()
}

func (w *scenario) resume(queue string) {
	if w.pausedNow(queue) {
		w.trace("queue %s is resumed", queue)
		w.pauses[queue][len(w.pauses[queue])-1][1] = w.server.Now()
		w.server.ResumeQueue(w.cluster, queue)
	}
}

func (w *scenario) drain(o *overlay, dice int) {
	var live []*simulation.Pod
	for _, a := range w.server.Agents() {
		if p := o.kube.Pod(a.ID); p != nil && a.State == "connected" {
			live = append(live, p)
		}
	}
	if len(live) == 0 {
		return
	}
	p := live[dice%len(live)]
	busy := o.kube.Drain(p)
	w.trace("%s: node of %s-%d is drained (busy %t)", o.name, p.Job.Name, p.Index, busy)
}

// deleteJob is a person who deletes a Job in the cluster: its agents are gone,
// and while its manifest is in git it is made again.
func (w *scenario) deleteJob(o *overlay, dice int) {
	names := o.kube.Jobs()
	if len(names) == 0 {
		return
	}
	name := names[dice%len(names)]
	w.trace("%s: Job %s is deleted", o.name, name)
	o.kube.Delete(name)
}

// changePolicy is an ordinary commit of a person.
func (w *scenario) changePolicy() {
	o := w.overlays[w.faults.IntN(len(w.overlays))]
	p := &o.spec
	switch w.faults.IntN(5) {
	case 0:
		p.max = max(p.min, w.faults.IntN(20))
	case 1:
		p.max += w.faults.IntN(10)
	case 2:
		p.min = w.faults.IntN(p.max + 1)
	case 3:
		p.buffer = w.faults.IntN(4)
	case 4:
		p.paused = !p.paused
	}
	o.note(w.since())
	w.edit(fmt.Sprintf("policy of %s: %+v", o.name, *p), branch.Change{Path: o.path() + "/scaling.yaml", Content: o.policyText()})
}

// meddle is a person's commit that does no good.
func (w *scenario) meddle() {
	o := w.overlays[w.faults.IntN(len(w.overlays))]
	head := w.fleet.head()
	dir := o.path() + "/dispatches"
	var manifests []string
	for _, name := range head.tree.below(dir) {
		if id, ok := strings.CutSuffix(name, ".yaml"); ok && id != "kustomization" && id != "state" {
			manifests = append(manifests, id)
		}
	}
	file := func(name string) string { return path.Join(dir, name) }
	write := func(name, content string) branch.Change {
		return branch.Change{Path: file(name), Content: []byte(content)}
	}
	switch dice := w.faults.IntN(13); dice {
	case 0, 1, 2: // git revert HEAD
		if head.operation != nil && (head.operation.Kind == ledger.Dispatch || dice == 0) {
			w.revert(head)
		}
	case 3: // deletes a manifest and leaves the list
		if len(manifests) > 0 {
			id := manifests[w.faults.IntN(len(manifests))]
			w.edit("deletes "+id, branch.Change{Path: file(id + ".yaml")})
		}
	case 4:
		w.edit("writes nonsense into the list of "+o.name, write("kustomization.yaml", "resources: ["))
	case 5:
		w.edit("empties the list of "+o.name, write("kustomization.yaml", fmt.Sprintf(kustomization, "[]")))
	case 6:
		w.edit("deletes the list of "+o.name, branch.Change{Path: file("kustomization.yaml")})
	case 7, 8: // muster restores it
		w.edit("writes nonsense into the state of "+o.name, write("state.yaml", []string{"{", "apiVersion: muster.dev/v1alpha1\nkind: OverlayState\nbreaker: {failures: -3}\n", "a: b\n"}[w.faults.IntN(3)]))
	case 9:
		w.edit("leaves things in "+dir, write("notes.txt", "mind the gap\n"), write("kustomization.yml", "resources: [notes.txt]\n"))
	case 10:
		w.breakFor(o, o.path()+"/scaling.yaml", "spec: {queue: [")
	case 11:
		w.breakFor(o, o.path()+"/template/kustomization.yaml", "resources: [nowhere.yaml]\n")
	case 12:
		if len(manifests) > 0 {
			w.breakFor(o, file(manifests[w.faults.IntN(len(manifests))]+".yaml"), "kind: Job\n")
		}
	}
}

// revert takes back what the last commit did.
func (w *scenario) revert(c *commit) {
	var changes []branch.Change
	for _, x := range c.operation.Changes {
		content, ok := c.parent.tree.files[x.Path]
		if !ok {
			content = nil
		}
		if strings.HasSuffix(x.Path, "/state.yaml") {
			w.audit.forget(w.byPath(c.operation.Path))
		}
		changes = append(changes, branch.Change{Path: x.Path, Content: content})
	}
	if c.operation.Kind == ledger.Retire {
		w.audit.revived(w.byPath(c.operation.Path))
	}
	w.edit("reverts "+string(c.operation.Kind)+" of "+c.operation.Path, changes...)
}

func (w *scenario) byPath(path string) *overlay {
	return w.overlays[slices.IndexFunc(w.overlays, func(o *overlay) bool { return o.path() == path })]
}

// manifestID is the dispatch that a path is the manifest of.
func manifestID(file string) (string, bool) {
	id, isYAML := strings.CutSuffix(path.Base(file), ".yaml")
	return id, isYAML && path.Base(path.Dir(file)) == "dispatches" && id != "kustomization" && id != "state"
}

// breakFor breaks a file for a while.
func (w *scenario) breakFor(o *overlay, file, nonsense string) {
	before, ok := w.fleet.head().tree.files[file]
	if !ok || o.broken > 0 {
		return
	}
	o.broken++
	w.audit.writeOffInFlight(o)
	w.edit("breaks "+file, branch.Change{Path: file, Content: []byte(nonsense)})
	w.server.At(w.server.Now().Add(time.Duration(w.faults.Int64N(int64(30*time.Minute)))), func() {
		o.broken--
		o.fixed = w.server.Now()
		if path.Base(file) == "scaling.yaml" {
			before = o.policyText()
		}
		w.edit("restores "+file, branch.Change{Path: file, Content: before})
	})
}

// heal ends all faults: muster must repair the rest.
func (w *scenario) heal() {
	w.trace("from here on all is well")
	w.healed = w.server.Now()
	w.now = rates{lag: w.rates.lag, startup: w.rates.startup}
	for _, queue := range w.queues() {
		w.resume(queue)
	}
	for _, j := range w.server.Jobs() {
		w.server.Unreserve(j.ID)
	}
	for _, o := range w.overlays {
		o.kube.heal()
		o.kube.BuildkiteCluster = w.cluster
		if p := &o.spec; p.paused || p.max < 10 || p.perHour > 0 || p.cluster != w.home() || !slices.Equal(o.tags, o.first) {
			if p.cluster != w.home() || !slices.Equal(o.tags, o.first) {
				w.audit.writeOffInFlight(o)
			}
			p.paused, p.max, p.perHour, p.cluster, o.tags = false, max(p.max, 10), 0, w.home(), o.first
			o.note(w.since())
			w.edit("lets "+o.name+" go on", branch.Change{Path: o.path() + "/scaling.yaml", Content: o.policyText()})
		}
	}
}
