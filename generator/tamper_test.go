package generator_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"muster/generator/plan"
	"muster/gitops/branch"
)

// beginTampering plans what people do to dispatches, with dice of its own.
func (w *scenario) beginTampering() {
	r := rand.New(rand.NewPCG(w.seed, 7))
	w.work.each(w, r, w.rates.tampers, func() func() { return func() { w.tamper(r) } })
}

// tampering is one thing that a person does to a dispatch.
type tampering struct {
	name string
	// change returns the text after it.
	change func(r *rand.Rand, text string) string
	// useless: the agents that come of it may serve no job.
	useless bool
}

var (
	agentsField = regexp.MustCompile(`(?m)^( +)(completions|parallelism): \d+$`)
	leaseField  = regexp.MustCompile(`(muster.dev/not-after: ")([^"]+)"`)
	digestField = regexp.MustCompile(`(?m)^ +muster.dev/digest: (.*)\n`)
)

// setAgents writes another number of agents.
func setAgents(text string, n int) string {
	return agentsField.ReplaceAllString(text, fmt.Sprintf("${1}${2}: %d", n))
}

// addLease moves the end of the lease.
func addLease(text string, by time.Duration) string {
	return leaseField.ReplaceAllStringFunc(text, func(s string) string {
		m := leaseField.FindStringSubmatch(s)
		t, err := time.Parse(time.RFC3339, m[2])
		if err != nil {
			panic(err)
		}
		return m[1] + t.Add(by).Format(time.RFC3339) + `"`
	})
}

// sealed writes the digest that belongs to a text, as who knows how it is made can.
func sealed(text string) string {
	old := digestField.FindStringSubmatch(text)[1]
	blank := strings.Replace(text, old, "sha256-"+strings.Repeat("0", 32), 1)
	sum := sha256.Sum256([]byte(blank))
	return strings.Replace(text, old, "sha256-"+hex.EncodeToString(sum[:])[:32], 1)
}

func tamperings() []tampering {
	return []tampering{
		{name: "fewer agents", change: func(_ *rand.Rand, text string) string { return setAgents(text, 1) }},
		{name: "more agents", change: func(r *rand.Rand, text string) string { return setAgents(text, 2+r.IntN(30)) }},
		{name: "a shorter lease", change: func(r *rand.Rand, text string) string { return addLease(text, -time.Duration(r.IntN(120))*time.Second) }},
		{name: "a longer lease", change: func(r *rand.Rand, text string) string { return addLease(text, time.Duration(1+r.IntN(30))*time.Minute) }},
		{name: "another tag", useless: true, change: func(_ *rand.Rand, text string) string {
			return strings.ReplaceAll(text, "agent-tags: queue=", "agent-tags: queue=not-")
		}},
		{name: "a comment", change: func(_ *rand.Rand, text string) string { return "# mind the gap\n" + text }},
		{name: "fewer agents and no digest", change: func(_ *rand.Rand, text string) string {
			return digestField.ReplaceAllString(setAgents(text, 1), "")
		}},
	}
}

// live are the manifests of an overlay whose leases are not over.
func (w *scenario) live(o *overlay, dir string) []string {
	var files []string
	for _, name := range w.fleet.head().tree.below(dir) {
		id, _ := strings.CutSuffix(name, ".yaml")
		if x := w.audit.dispatches[id]; x != nil && !w.server.Now().After(x.NotAfter) {
			files = append(files, path.Join(dir, name))
		}
	}
	return files
}

// tamper is a person who edits a dispatch, deletes, renames or copies it.
func (w *scenario) tamper(r *rand.Rand) {
	o, dice, which := w.overlays[r.IntN(len(w.overlays))], r.IntN(13), r.IntN(1<<30)
	dir := o.path() + "/dispatches"
	if dice == 12 { // somebody says that they do not come
		dir += "/withdrawn"
	}
	files := w.live(o, dir)
	if len(files) == 0 {
		return
	}
	file := files[which%len(files)]
	text := string(w.fleet.head().tree.files[file])
	id, _ := strings.CutSuffix(path.Base(file), ".yaml")
	x := w.audit.dispatches[id]
	o.kube.tampered[id] = true
	switch dice {
	case 7:
		w.edit("deletes "+id, branch.Change{Path: file})
	case 8: // from the list too, as a revert does
		w.edit("deletes "+id+" and the list", branch.Change{Path: file}, branch.Change{Path: dir + "/kustomization.yaml"})
	case 9, 10: // a rename or a copy
		if o.broken > 0 {
			return
		}
		changes := []branch.Change{{Path: path.Join(dir, id+"x.yaml"), Content: []byte(text)}}
		if dice == 9 {
			changes = append(changes, branch.Change{Path: file})
		}
		w.leave(o, "renames or copies "+id, changes, []branch.Change{{Path: path.Join(dir, id+"x.yaml")}})
	case 11: // cannot be read
		if o.broken > 0 {
			return
		}
		w.leave(o, "leaves conflict markers in "+id, []branch.Change{{Path: file, Content: []byte("<<<<<<< HEAD\n" + text)}}, []branch.Change{{Path: file, Content: []byte(text)}})
	case 12:
		w.audit.withdrawn(o, id)
		w.edit("gives up "+id, branch.Change{Path: file})
	default:
		all := tamperings()
		e := all[dice%len(all)]
		after := e.change(r, text)
		w.audit.edited(x, after, e.useless)
		w.edit("edits "+id+": "+e.name, branch.Change{Path: file, Content: []byte(after)})
	}
}

// leave is a person's mistake, and its end after a while.
func (w *scenario) leave(o *overlay, what string, changes, back []branch.Change) {
	o.broken++
	w.edit(what, changes...)
	w.server.At(w.server.Now().Add(time.Duration(w.faults.Int64N(int64(30*time.Minute)))), func() {
		o.broken--
		o.fixed = w.server.Now()
		w.edit("corrects that", back...)
	})
}

// edited enters what may come of an order that a person has edited: no muster has
// to answer for it before it has seen that.
func (a *audit) edited(x *order, text string, useless bool) {
	most := *x
	most.raise(text)
	a.loose += most.Agents - x.Agents
	if useless {
		a.loose += most.Agents
	}
}

// noticed enters what a muster sees of edits.
func (a *audit) noticed(t *tree) {
	for _, x := range a.orders {
		if x.overlay.kube.tampered[x.ID] && !x.retired {
			if text, ok := t.files[dispatchPath(x)]; ok {
				x.raise(string(text))
			}
		}
	}
}

func withdrawnPath(overlay, id string) string {
	return overlay + "/dispatches/withdrawn/" + id + ".yaml"
}

func dispatchPath(x *order) string { return x.overlay.path() + "/dispatches/" + x.ID + ".yaml" }

// raise makes an order as large as a text of its manifest says.
func (x *order) raise(text string) {
	if strings.Contains(text, "<<<<<<<") { // also below a comment that was written since
		return // nobody can read that
	}
	for _, m := range agentsField.FindAllString(text, -1) {
		var n int
		if _, err := fmt.Sscanf(m[strings.IndexByte(m, ':')+1:], "%d", &n); err == nil {
			x.Agents = max(x.Agents, n)
		}
	}
	if m := leaseField.FindStringSubmatch(text); m != nil {
		if t, err := time.Parse(time.RFC3339, m[2]); err == nil && t.After(x.NotAfter) {
			x.NotAfter = t
		}
	}
}

// promised are the dispatches of an overlay that may still come, by the books: those
// in git, and those that are not there because a person has meddled.
func (a *audit) promised(inGit []plan.Dispatch, o *overlay) []plan.Dispatch {
	all := slices.Clone(inGit)
	for i := range all {
		if x := a.dispatches[all[i].ID]; x != nil {
			all[i].Agents, all[i].NotAfter = max(all[i].Agents, x.Agents), later(all[i].NotAfter, x.NotAfter)
		}
	}
	for _, x := range a.orders {
		if x.overlay == o && !x.exited && !x.retired && !slices.ContainsFunc(all, func(d plan.Dispatch) bool { return d.ID == x.ID }) {
			all = append(all, x.Dispatch)
		}
	}
	return all
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
