package generator_test

import (
	"fmt"
	"math/rand/v2"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"muster/generator/fleet"
	"muster/generator/manual"
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
		{name: "another format", change: func(_ *rand.Rand, text string) string {
			content, err := yaml.YAMLToJSON([]byte(text))
			if err != nil {
				return text
			}
			return string(content)
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
	o, dice, which := w.overlays[r.IntN(len(w.overlays))], r.IntN(14), r.IntN(1<<30)
	dir := o.path() + "/dispatches"
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
		w.edit("leaves conflict markers in "+id, branch.Change{Path: file, Content: []byte("<<<<<<< HEAD\n" + text)})
		w.server.At(w.server.Now().Add(time.Duration(w.faults.Int64N(int64(30*time.Minute)))), func() {
			w.edit("restores "+id, branch.Change{Path: file, Content: []byte(text)})
		})
	case 12:
		state := string(w.fleet.head().tree.files[dir+"/state.yaml"])
		lines := slices.DeleteFunc(slices.Collect(strings.Lines(state)), func(line string) bool { return strings.HasPrefix(line, "  "+id+":") })
		w.edit("deletes the line of "+id, branch.Change{Path: dir + "/state.yaml", Content: []byte(strings.Join(lines, ""))})
	case 13:
		w.neverCreated(o, id)
	default:
		all := tamperings()
		e := all[dice%len(all)]
		after := e.change(r, text)
		w.audit.edited(x, after, e.useless)
		w.edit("edits "+id+": "+e.name, branch.Change{Path: file, Content: []byte(after)})
	}
}

// neverCreated is muster cancel --never-created.
func (w *scenario) neverCreated(o *overlay, id string) {
	head := w.fleet.head()
	loaded, err := fleet.NewLoader("overlays").Load(head.tree)
	at := slices.IndexFunc(loaded, func(x fleet.Overlay) bool { return x.Path == o.path() })
	if err != nil || at < 0 {
		return
	}
	e, err := manual.Cancel(&loaded[at], []string{id}, true)
	if err != nil {
		return // the files are damaged
	}
	w.audit.withdrawn(id)
	w.trace("person: cancels %s, never created", id)
	w.fleet.edit(e.Message(head.id, "v0", ""), e.Changes...)
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

// edited enters what may come of an order that a person has edited beyond what muster counts: agents that
// were not ordered, and those that start after their order's deadline.
func (a *audit) edited(x *order, text string, useless bool) {
	agents, until := x.Agents, x.NotAfter
	for _, m := range agentsField.FindAllString(text, -1) {
		var n int
		if _, err := fmt.Sscanf(m[strings.IndexByte(m, ':')+1:], "%d", &n); err == nil {
			agents = max(agents, n)
		}
	}
	if m := leaseField.FindStringSubmatch(text); m != nil {
		if t, err := time.Parse(time.RFC3339, m[2]); err == nil {
			until = later(until, t)
		}
	}
	a.loose += agents - x.Agents
	if useless || until.After(x.NotAfter) {
		a.loose += agents
	}
}

// edited reports whether the manifest of an order has other values at a commit than its order wrote.
func (w *scenario) edited(t *tree, overlay, id string) bool {
	file := path.Join(overlay, "dispatches", id+".yaml")
	text, there := t.files[file]
	if !there {
		return false
	}
	var is, was map[string]any
	if yaml.Unmarshal(text, &is) != nil {
		return false
	}
	for _, c := range w.fleet.history() {
		if first, ok := c.tree.files[file]; ok {
			return yaml.Unmarshal(first, &was) == nil && !reflect.DeepEqual(is, was)
		}
	}
	return false
}

// promised are the orders of an overlay whose agents may still come, by the books: those
// in git, and those that are not there because a person has meddled.
func (a *audit) promised(inGit []plan.Dispatch, o *overlay) []plan.Dispatch {
	all := slices.Clone(inGit)
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
