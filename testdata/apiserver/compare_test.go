package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"muster/generator/kubernetes"
	"muster/testdata/apiserver/admission"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

// refused says whether the API server refuses a Job, and why. Warnings and the
// restricted Pod Security Standard are no refusal.
func refused(text []byte) (bool, string) {
	objects, err := admission.Objects(bytes.NewReader(text))
	if err != nil {
		return true, err.Error()
	}
	findings, err := admission.Create(objects[0])
	if err != nil {
		return true, err.Error()
	}
	findings = slices.DeleteFunc(findings, func(f string) bool {
		return strings.Contains(f, ": warning: ") || strings.Contains(f, ": pod security restricted: ")
	})
	return len(findings) > 0, strings.Join(findings, "\n")
}

// problems is what muster has against the same Job.
func problems(text []byte) ([]kubernetes.Problem, error) {
	var doc kyaml.Node
	if err := kyaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	return kubernetes.Validate(doc.Content[0]), nil
}

// types reads the types that muster knows.
func types(t *testing.T) map[string]map[string]string {
	t.Helper()
	data, err := os.ReadFile("../../generator/kubernetes/job.json")
	must(t, err)
	var document struct{ Types map[string]map[string]string }
	must(t, json.Unmarshal(data, &document))
	return document.Types
}

// mutation is one change of a Job: a value put in some place, or nothing.
type mutation struct {
	path  []any // keys and indexes
	value any   // gone deletes
}

type goneType struct{}

var gone goneType

func (m mutation) String() string {
	var b strings.Builder
	for _, p := range m.path {
		fmt.Fprintf(&b, ".%v", p)
	}
	if m.value == gone {
		return b.String() + " removed"
	}
	return fmt.Sprintf("%s = %#v", b.String(), m.value)
}

// apply makes the change in a Job.
func (m mutation) apply(in any) any {
	if len(m.path) == 0 {
		return m.value
	}
	rest := mutation{m.path[1:], m.value}
	switch key := m.path[0].(type) {
	case string:
		out := maps.Clone(in.(map[string]any))
		if len(m.path) == 1 && m.value == gone {
			delete(out, key)
			return out
		}
		out[key] = rest.apply(out[key])
		return out
	case int:
		out := slices.Clone(in.([]any))
		if len(m.path) == 1 && m.value == gone {
			return slices.Delete(out, key, key+1)
		}
		out[key] = rest.apply(out[key])
		return out
	}
	panic(m.path[0])
}

// grammar makes mutations of a Job out of its types.
type grammar struct {
	types map[string]map[string]string
	all   []mutation
}

func (g *grammar) add(path []any, value any) {
	g.all = append(g.all, mutation{slices.Clone(path), value})
}

// visit mutates a value that is there, and all below it.
func (g *grammar) visit(path []any, value any, typ string) {
	if len(path) > 0 {
		g.add(path, gone)
		g.add(path, nil)
		for _, v := range g.values(typ, 1) {
			g.add(path, v)
		}
	}
	switch v := value.(type) {
	case map[string]any:
		item, isMap := strings.CutPrefix(typ, "map:")
		fields := g.types[typ]
		for _, key := range slices.Sorted(maps.Keys(v)) {
			below := fields[key]
			if isMap {
				below = item
			}
			g.visit(append(slices.Clone(path), key), v[key], below)
		}
		if fields == nil {
			return
		}
		g.add(append(slices.Clone(path), "resorces"), "x")
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			if _, there := v[key]; !there {
				for _, x := range g.values(fields[key], 2) {
					g.add(append(slices.Clone(path), key), x)
				}
			}
		}
	case []any:
		for i, x := range v {
			g.visit(append(slices.Clone(path), i), x, strings.TrimPrefix(typ, "[]"))
		}
		if len(v) > 0 {
			g.add(path, append(slices.Clone(v), v[0])) // twice the same
		}
	}
}

// values are some of a type, right and wrong; depth bounds how far down.
func (g *grammar) values(typ string, depth int) []any {
	if item, ok := strings.CutPrefix(typ, "[]"); ok {
		all := []any{[]any{}, "x", map[string]any{"a": "b"}}
		for _, v := range g.values(item, depth-1) {
			all = append(all, []any{v})
		}
		return all
	}
	if item, ok := strings.CutPrefix(typ, "map:"); ok {
		all := []any{map[string]any{}, "x", []any{}, map[string]any{"a b": "c"}, map[string]any{"Example.com/x": "c"}, map[string]any{"cpu": "1"}, map[string]any{"cpus": "1"}}
		for _, v := range g.values(item, 0) {
			all = append(all, map[string]any{"memory": v}, map[string]any{"example.com/gpu": v})
		}
		return all
	}
	switch typ {
	case "string":
		return []any{"", "x", "X y", "a/b", "../x", "/abs", "Never", "Always", "Exists", "1", 5, true, "Localhost", strings.Repeat("x", 300), "metadata.name", "limits.cpu"}
	case "boolean":
		return []any{true, false, "true", 1}
	case "int32", "int64":
		return []any{-1, 0, 1, 5, 70000, 3_000_000_000, "1", 1.5, true}
	case "quantity":
		return []any{"1", 2, "4 cores", "4Gib", "8Gigs", "-1", "1e3", "1.5", "500m", "0", "", true, "1Ki", "1K", "1E"}
	case "int-or-string":
		return []any{0, 80, 70000, "http", "80", "UPPER", "", true}
	case "time":
		return []any{"2026-11-21T02:15:00Z", "now"}
	case "any":
		return []any{map[string]any{}}
	}
	all := []any{map[string]any{}, "x", []any{}}
	if depth <= 0 {
		return all
	}
	for _, field := range slices.Sorted(maps.Keys(g.types[typ])) {
		for _, v := range g.values(g.types[typ][field], depth-1) {
			all = append(all, map[string]any{field: v})
		}
	}
	return all
}

// seeded puts a seed into the Job, and mutates what came with it.
func seeded(t *testing.T, job map[string]any, seed map[string]any) (any, *grammar) {
	t.Helper()
	g := &grammar{types: types(t)}
	for _, off := range []string{"clusterTrustBundle", "podCertificate"} { // the API server drops them where their feature is off
		delete(g.types["VolumeProjection"], off)
	}
	delete(g.types["Lifecycle"], "stopSignal") // likewise
	path := []any{"spec", "template", "spec"}
	for field, value := range seed {
		if typ := g.types["PodSpec"][field]; typ != "" {
			path = append(path, field)
			g.visit(path, value, typ)
			return mutation{path, value}.apply(job), g
		}
	}
	spec := job["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	volumes := spec["volumes"].([]any)
	value := map[string]any{"name": "seed"}
	maps.Copy(value, seed)
	path = append(path, "volumes")
	with := mutation{path, append(slices.Clone(volumes), any(value))}.apply(job)
	g.visit(append(path, len(volumes)), value, "Volume")
	g.all = slices.DeleteFunc(g.all, func(m mutation) bool { // two sources of one volume, each wrong, are tried with the base
		return len(m.path) == len(path)+2 && seed[fmt.Sprint(m.path[len(path)+1])] == nil && m.path[len(path)+1] != "name"
	})
	return with, g
}

// comparison asks the API server and muster about Jobs, as many at a time as there are
// processors: each Job is asked about by itself.
type comparison struct {
	t        *testing.T
	jobs     chan changedJob
	workers  sync.WaitGroup
	mu       sync.Mutex
	counts   map[string]int
	omitted  map[rule]bool
	compared int
}

type changedJob struct {
	change string
	job    any
}

func newComparison(t *testing.T) *comparison {
	c := &comparison{t: t, jobs: make(chan changedJob), counts: map[string]int{}, omitted: map[rule]bool{}}
	for range runtime.GOMAXPROCS(0) {
		c.workers.Go(func() {
			for j := range c.jobs {
				c.one(j)
			}
		})
	}
	return c
}

// one compares what both say of a Job. It is given as JSON, which is YAML too and takes a
// third of the time; one in a hundred as the YAML that a syncer would send.
func (c *comparison) one(j changedJob) {
	manifest, err := json.Marshal(j.job)
	c.mu.Lock()
	c.compared++
	asYAML := c.compared%100 == 0
	c.mu.Unlock()
	if asYAML && err == nil {
		manifest, err = yaml.Marshal(j.job)
	}
	if err != nil {
		c.t.Errorf("%s: %v", j.change, err)
		return
	}
	no, why := refused(manifest)
	found, err := problems(manifest)
	if err != nil {
		c.t.Errorf("%s: %v", j.change, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[fmt.Sprintf("API server refuses: %t, muster: %t", no, len(found) > 0)]++
	if no == (len(found) > 0) {
		return
	}
	if !no {
		c.t.Errorf("%s: muster alone refuses it: %.300s", j.change, fmt.Sprint(found))
		return
	}
	reasons := strings.Split(why, "\n")
	if others := slices.DeleteFunc(slices.Clone(reasons), func(r string) bool { return strings.Contains(r, ": Not found: ") }); len(others) > 0 {
		reasons = others // a volume that is refused is not found
	}
	for _, reason := range reasons {
		if r := ruleOf(reason); !elsewhere.MatchString(r.field + ": " + r.refused) {
			c.omitted[r] = true
		}
	}
}

// end waits for running requests.
func (c *comparison) end() {
	close(c.jobs)
	c.workers.Wait()
}

// TestMusterAgrees compares muster with the API server on thousands of Jobs, each
// the dispatch of the base with one change or two. muster may accept what a rule refuses that [omittedPage]
// lists, and must refuse nothing else. With -all it tries every change, without it one in five of the base's
// and one in ten of what the seeds add. With -all, the page must list exactly the rules that a change
// breaks, and -update writes it.
func TestMusterAgrees(t *testing.T) {
	var job map[string]any
	must(t, yaml.Unmarshal(text(t, dispatch(t, "default-7f3k9c2b", 1)), &job))
	g := &grammar{types: types(t)}
	g.visit(nil, job, "Job")
	g.all = slices.DeleteFunc(g.all, func(m mutation) bool { // that it is a Job of batch/v1 is checked where the template is read
		return len(m.path) == 1 && (m.path[0] == "apiVersion" || m.path[0] == "kind")
	})
	random, c := rand.New(rand.NewPCG(1, 2)), newComparison(t)
	for i, m := range g.all {
		if !*all && i%5 != 0 {
			continue
		}
		changed := m.apply(job)
		c.jobs <- changedJob{m.String(), changed}
		if other := g.all[random.IntN(len(g.all))]; i%10 == 0 && !related(m.path, other.path) {
			c.jobs <- changedJob{m.String() + " and " + other.String(), other.apply(changed)}
		}
	}
	kinds := len(g.all) + compareSeeded(t, c, job) + compareBroken(t, c, job) + compareSystems(t, c, job)
	c.end()
	t.Logf("%d kinds of changes; %v", kinds, c.counts)
	checkOmitted(t, c.omitted)
}

// compareSystems compares pods whose operating system is set, with each field that is for the
// other one, and with the base's own fields. It returns how many kinds of changes there are.
func compareSystems(t *testing.T, c *comparison, job map[string]any) (kinds int) {
	pod := []any{"spec", "template", "spec"}
	for _, system := range []string{"windows", "linux"} {
		with := mutation{append(slices.Clone(pod), "os"), map[string]any{"name": system}}.apply(job)
		c.jobs <- changedJob{system, with}
		bare := mutation{append(slices.Clone(pod), "securityContext"), gone}.apply(with)
		bare = mutation{append(slices.Clone(pod), "containers", 0, "securityContext"), gone}.apply(bare)
		if no, why := refused(text(t, bare.(map[string]any))); no {
			t.Errorf("%s: %s", system, why)
		}
		g := &grammar{types: types(t)}
		for _, field := range []string{"hostUsers", "hostPID", "hostIPC", "hostNetwork", "shareProcessNamespace"} {
			for _, v := range []any{true, false} {
				g.add(append(slices.Clone(pod), field), v)
			}
		}
		g.add(append(slices.Clone(pod), "resources"), map[string]any{"limits": map[string]any{"cpu": "4"}})
		for typ, at := range map[string][]any{"PodSecurityContext": {"securityContext"}, "SecurityContext": {"containers", 0, "securityContext"}} {
			for _, field := range slices.Sorted(maps.Keys(g.types[typ])) {
				for _, v := range g.values(g.types[typ][field], 2) {
					g.add(slices.Concat(pod, at), map[string]any{field: v})
				}
			}
		}
		kinds += len(g.all)
		for _, m := range g.all {
			c.jobs <- changedJob{system + ": " + m.String(), m.apply(bare)}
		}
	}
	return kinds
}

// compareBroken compares Jobs that break rules which no change of one field breaks, and returns how many
// there are. The API server must refuse each.
func compareBroken(t *testing.T, c *comparison, job map[string]any) int {
	var all []map[string]any
	must(t, yaml.Unmarshal([]byte(broken), &all))
	for _, fields := range all {
		changed := any(job)
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			path, value := []any{"spec", "template", "spec"}, fields[field]
			field, ofJob := strings.CutPrefix(field, "job.")
			if ofJob {
				path = path[:1]
			}
			for key := range strings.SplitSeq(field, ".") {
				if n, err := strconv.Atoi(key); err == nil {
					path = append(path, n)
				} else {
					path = append(path, key)
				}
			}
			changed = mutation{path, value}.apply(changed)
		}
		change := fmt.Sprint(fields)
		if no, _ := refused(text(t, changed.(map[string]any))); !no {
			t.Errorf("%s is not refused", change)
		}
		c.jobs <- changedJob{change, changed}
	}
	return len(all)
}

// compareSeeded compares Jobs with what the base has nothing of, and returns how many
// kinds of changes there are.
func compareSeeded(t *testing.T, c *comparison, job map[string]any) (kinds int) {
	var more []map[string]any
	must(t, yaml.Unmarshal([]byte(seeds), &more))
	for n, seed := range more {
		with, g := seeded(t, job, seed)
		manifest := text(t, with.(map[string]any))
		if no, why := refused(manifest); no {
			t.Errorf("seed %d is refused: %s", n, why)
		}
		kinds += len(g.all)
		for i, m := range g.all {
			if *all || i%10 == (n+1)%10 {
				c.jobs <- changedJob{fmt.Sprintf("seed %d, %v: %v", n, slices.Sorted(maps.Keys(seed)), m), m.apply(with)}
			}
		}
	}
	return kinds
}

var (
	all    = flag.Bool("all", false, "try every change")
	update = flag.Bool("update", false, "with -all: write the list of omitted rules")
)

// related reports whether one path is part of the other, or both are elements of
// one list.
func related(a, b []any) bool {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			_, index := a[i].(int)
			return index
		}
	}
	return true
}
