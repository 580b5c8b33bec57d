package fleet

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/plan"
	"muster/gitops/branch"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// drift is a fleet repository whose overlay default has two orders: a, and w, which is withdrawn. The order
// r is retired, and x is over and was removed.
type drift struct {
	files
	before files // with all four, none withdrawn
	known  []plan.Dispatch
	now    time.Time
}

const (
	driftDir = "overlays/default/" + dispatchDir + "/"
	idA      = "default-aaaaaaaa"
	idR      = "default-rrrrrrrr"
	idW      = "default-wwwwwwww"
	idX      = "default-xxxxxxxx"
)

// driftRetired reports whether an order is retired.
func driftRetired(id string) bool { return id == idR }

func newDrift(t *testing.T) drift {
	t.Helper()
	a, r, w, x := order(idA, 3), order(idR, 2), order(idW, 5), order(idX, 4)
	x.At, x.NotAfter = x.At.Add(-time.Hour), x.NotAfter.Add(-time.Hour)
	f := sound(t).identified(t, "overlays/default", plan.Identity{ID: "1d", Overlay: "overlays/default", Branch: "main"}).ordered(t, a, r, w, x)
	g := drift{files: maps.Clone(f), before: f, now: a.At.Add(time.Minute)}
	o := only(t, NewLoader("overlays"), f.tree())
	o, changes, err := o.Withdraw([]string{idW})
	if err != nil {
		t.Fatal(err)
	}
	g.apply(changes)
	g.known = o.Dispatches
	o, changes, err = o.Remove([]string{idR, idX})
	if err != nil {
		t.Fatal(err)
	}
	g.apply(changes)
	g.known = slices.DeleteFunc(slices.Clone(g.known), func(d plan.Dispatch) bool { return d.ID == idR })
	return g
}

// clone returns a copy whose files can be edited.
func (g drift) clone() drift {
	g.files = maps.Clone(g.files)
	return g
}

// manifest returns the path of the manifest of an order.
func (drift) manifest(id string) string { return driftDir + id + manifestType }

// unline removes the line of an order, and line adds or replaces it.
func (g drift) unline(t *testing.T, id string) { g.edit(t, stateOf, lineOf(t, g.files, id), "") }

func (g drift) line(t *testing.T, line string) {
	id, _, _ := strings.Cut(strings.TrimSpace(line), ":")
	if strings.Contains(g.files[stateOf], "  "+id+": ") {
		g.unline(t, id)
	}
	g.edit(t, stateOf, "\norders:\n", "\norders:\n"+line)
}

// putBack restores the manifest of an order.
func (g drift) putBack(id string) { g.files[g.manifest(id)] = g.before[g.manifest(id)] }

// ids writes a list of manifests.
func (g drift) ids(ids ...string) { g.files[driftDir+listFile] = string(list(ids)) }

// described returns orders in a few words, as in "a, w withdrawn".
func described(o *Overlay) string {
	var all []string
	for _, d := range o.Dispatches {
		text := d.ID[len(d.ID)-1:]
		for _, x := range []struct {
			is   bool
			word string
		}{{d.Withdrawn, " withdrawn"}, {d.PutBack, " put back"}, {d.Edited, " edited"}, {o.Copied(d), " copied"}} {
			if x.is {
				text += x.word
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// TestDrift is the table of what people may do to muster's files; see [Overlay.Join]. Each repair is complete:
// nothing needs another one, in this process or in one that knows nothing.
func TestDrift(t *testing.T) {
	const (
		both      = "a, w withdrawn"
		gone      = "a withdrawn, w withdrawn"
		deleted   = idA + ".yaml was deleted, and its agents may still come"
		unread    = idA + ".yaml was put back or could not be read, and its agents may still come"
		unlisted  = `kustomization.yaml listed "` + idA + `.yaml", which is not a dispatch`
		listedR   = `kustomization.yaml listed "` + idR + `.yaml", which is not a dispatch`
		listedW   = `kustomization.yaml listed "` + idW + `.yaml", which is not a dispatch`
		missing   = "state.yaml did not contain "
		others    = "state.yaml had other values of "
		conflict  = "state.yaml had orders that could not be read (is not valid YAML: a conflict of git is not resolved)"
		writes    = "+kustomization.yaml +state.yaml"
		removesA  = "-" + idA + ".yaml " + writes
		onlyList  = "+kustomization.yaml"
		noOrder   = ".yaml: is the manifest of no order"
		irregular = driftDir + idA + ".yaml: cannot be read: it is not a regular file"
	)
	base, l := newDrift(t), NewLoader("overlays")
	conflicted := func(text string) string {
		return strings.Replace(text, "\norders:\n", "\norders:\n<<<<<<< HEAD\n", 1) + "=======\n>>>>>>> other\n"
	}
	for _, c := range []struct {
		name    string
		edit    func(g drift)
		unknown bool // nothing is known but the files
		orders  string
		faults  []string
		repair  string // the files in dispatches/ that are written or removed
		err     string // which it contains; empty if the overlay is valid
	}{
		{name: "nothing", edit: func(drift) {}, orders: both},
		{name: "nothing, unknown", edit: func(drift) {}, unknown: true, orders: both},

		// Manifests.
		{name: "manifest deleted", edit: func(g drift) { delete(g.files, g.manifest(idA)) }, orders: gone, faults: []string{deleted, unlisted}, repair: writes},
		{name: "manifest deleted, unknown", edit: func(g drift) { delete(g.files, g.manifest(idA)) }, unknown: true, orders: gone, faults: []string{deleted, unlisted}, repair: writes},
		{name: "manifest deleted and not listed", edit: func(g drift) { delete(g.files, g.manifest(idA)); g.ids() }, orders: gone, faults: []string{deleted}, repair: writes},
		{name: "manifest renamed", edit: func(g drift) {
			g.files[driftDir+"mine.yaml"] = g.files[g.manifest(idA)]
			delete(g.files, g.manifest(idA))
		}, orders: gone, err: "mine" + noOrder},
		{name: "other layout", edit: func(g drift) { g.files[g.manifest(idA)] = formatters["order"](t, g.files[g.manifest(idA)]) }, orders: both},
		{name: "comment", edit: func(g drift) { g.files[g.manifest(idA)] += "# mine\n" }, orders: both},
		{name: "values", edit: func(g drift) { g.edit(t, g.manifest(idA), "completions: 3", "completions: 30") }, orders: "a edited, w withdrawn"},
		{name: "values, unknown", edit: func(g drift) { g.edit(t, g.manifest(idA), "completions: 3", "completions: 30") }, unknown: true, orders: "a edited, w withdrawn"},
		{name: "values, not listed", edit: func(g drift) { g.edit(t, g.manifest(idA), "completions: 3", "completions: 30"); g.ids() }, orders: "a edited, w withdrawn",
			faults: []string{"kustomization.yaml did not list " + idA + ".yaml"}, repair: onlyList},
		{name: "conflict in a manifest", edit: func(g drift) { g.files[g.manifest(idA)] = "<<<<<<< HEAD\n" + g.files[g.manifest(idA)] }, orders: gone, faults: []string{unread, unlisted}, repair: removesA},
		{name: "two documents", edit: func(g drift) { g.files[g.manifest(idA)] += "---\nkind: ConfigMap\n" }, orders: gone, faults: []string{unread, unlisted}, repair: removesA},
		{name: "another kind", edit: func(g drift) { g.edit(t, g.manifest(idA), "kind: Job", "kind: CronJob") }, orders: gone, faults: []string{unread, unlisted}, repair: removesA},
		{name: "empty manifest", edit: func(g drift) { g.files[g.manifest(idA)] = "" }, orders: gone, faults: []string{unread, unlisted}, repair: removesA},
		{name: "too large a manifest", edit: func(g drift) { g.files[g.manifest(idA)] += strings.Repeat("#", largestManifest) }, orders: gone, faults: []string{unread, unlisted}, repair: removesA},
		{name: "manifest is a directory", edit: func(g drift) { delete(g.files, g.manifest(idA)); g.files[g.manifest(idA)+"/x"] = "" }, orders: both, err: irregular},
		{name: "manifest is a link", edit: func(g drift) { g.files[g.manifest(idA)] = linkTo + "x" }, orders: both, err: irregular},
		{name: "unexplained manifest", edit: func(g drift) { g.files[driftDir+"mine.yaml"] = g.files[g.manifest(idA)]; g.ids() }, orders: both, err: "mine" + noOrder},
		{name: "another type of name", edit: func(g drift) { g.files[driftDir+"mine.yml"] = "" }, orders: both, err: "mine.yml: was not written by muster"},
		{name: "notes", edit: func(g drift) { g.files[driftDir+"README.md"] = "" }, orders: both},

		// Lines.
		{name: "order reverted", edit: func(g drift) { g.unline(t, idA); delete(g.files, g.manifest(idA)); g.ids() }, orders: gone, faults: []string{deleted}, repair: writes},
		{name: "order reverted, unknown", edit: func(g drift) { g.unline(t, idA); delete(g.files, g.manifest(idA)); g.ids() }, unknown: true, orders: "w withdrawn"},
		{name: "line deleted", edit: func(g drift) { g.unline(t, idA) }, orders: both, faults: []string{missing + idA}, repair: writes},
		{name: "line deleted, unknown", edit: func(g drift) { g.unline(t, idA) }, unknown: true, orders: "w withdrawn", err: idA + noOrder},
		{name: "line deleted, values edited", edit: func(g drift) { g.unline(t, idA); g.edit(t, g.manifest(idA), "completions: 3", "completions: 30") },
			orders: "a edited, w withdrawn", faults: []string{missing + idA}, repair: writes},
		{name: "line of a withdrawn order deleted", edit: func(g drift) { g.unline(t, idW) }, orders: both, faults: []string{missing + idW}, repair: writes},
		{name: "line of a withdrawn order deleted, unknown", edit: func(g drift) { g.unline(t, idW) }, unknown: true, orders: "a"},
		{name: "line edited", edit: func(g drift) {
			g.line(t, strings.NewReplacer(`"agents":3`, `"agents":99`, "02:30:00Z", "23:30:00Z", "queue=default", "queue=other", "sha256-", "sha256-0").Replace(lineOf(t, g.files, idA)))
		}, orders: both, faults: []string{others + idA}, repair: writes},
		{name: "line edited, unknown", edit: func(g drift) { g.edit(t, stateOf, `"agents":3`, `"agents":99`) }, unknown: true, orders: both},
		{name: "digest edited, unknown", edit: func(g drift) {
			g.line(t, strings.Replace(lineOf(t, g.files, idA), "sha256-", "sha256-0", 1))
		}, unknown: true, orders: "a edited, w withdrawn"},
		{name: "line twice", edit: func(g drift) { g.edit(t, stateOf, lineOf(t, g.files, idA), strings.Repeat(lineOf(t, g.files, idA), 2)) }, orders: both},
		{name: "line twice, differing", edit: func(g drift) {
			g.edit(t, stateOf, lineOf(t, g.files, idA), lineOf(t, g.files, idA)+strings.Replace(lineOf(t, g.files, idA), `"agents":3`, `"agents":4`, 1))
		}, orders: both, faults: []string{"state.yaml had orders that could not be read (" + idA + " is there twice, with different values)"}, repair: writes},
		{name: "withdrawn in its line", edit: func(g drift) {
			g.line(t, strings.Replace(lineOf(t, g.files, idA), `"manifest"`, `"withdrawn":true,"manifest"`, 1))
		}, orders: gone, faults: []string{idA + ".yaml was put back, though its order is withdrawn", unlisted}, repair: "-" + idA + ".yaml " + onlyList},
		{name: "renamed in its line", edit: func(g drift) { g.edit(t, stateOf, idA+":", "default-zzzzzzzz:") }, orders: "a, w withdrawn, z withdrawn",
			faults: []string{"default-zzzzzzzz.yaml was deleted, and its agents may still come", missing + idA}, repair: writes},

		// Withdrawn orders.
		{name: "withdrawn, put back", edit: func(g drift) { g.putBack(idW) }, orders: both, faults: []string{idW + ".yaml was put back, though its order is withdrawn"}, repair: "-" + idW + ".yaml " + onlyList},
		{name: "withdrawn, put back, unknown", edit: func(g drift) { g.putBack(idW) }, unknown: true, orders: both, faults: []string{idW + ".yaml was put back, though its order is withdrawn"}, repair: "-" + idW + ".yaml " + onlyList},
		{name: "withdrawn, put back edited", edit: func(g drift) {
			g.putBack(idW)
			g.edit(t, g.manifest(idW), "completions: 5", "completions: 6")
			g.ids(idA, idW)
		}, orders: both, faults: []string{idW + ".yaml was put back, though its order is withdrawn", listedW}, repair: "-" + idW + ".yaml " + onlyList},
		{name: "withdrawn, put back so that its Job is not kept", edit: func(g drift) {
			g.putBack(idW)
			g.edit(t, g.manifest(idW), "kustomize.toolkit.fluxcd.io/prune: disabled", "kustomize.toolkit.fluxcd.io/prune: enabled")
			g.ids(idA, idW)
		}, orders: "a, w withdrawn edited"},
		{name: "withdrawn, put back edited and not listed", edit: func(g drift) { g.putBack(idW); g.edit(t, g.manifest(idW), "completions: 5", "completions: 6") }, orders: both,
			faults: []string{idW + ".yaml was put back, though its order is withdrawn"}, repair: "-" + idW + ".yaml " + onlyList},
		{name: "withdrawal reverted", edit: func(g drift) { g.putBack(idW); g.line(t, lineOf(t, g.before, idW)); g.ids(idA, idW) }, orders: both,
			faults: []string{idW + ".yaml was put back or could not be read, and its agents may still come", listedW}, repair: "-" + idW + ".yaml " + writes},
		{name: "withdrawal reverted, unknown", edit: func(g drift) { g.putBack(idW); g.line(t, lineOf(t, g.before, idW)); g.ids(idA, idW) }, unknown: true, orders: "a, w"},
		{name: "withdrawal reverted in its line", edit: func(g drift) { g.line(t, lineOf(t, g.before, idW)) }, orders: both, faults: []string{others + idW}, repair: writes},
		{name: "withdrawal reverted in its line, unknown", edit: func(g drift) { g.line(t, lineOf(t, g.before, idW)) }, unknown: true, orders: both,
			faults: []string{idW + ".yaml was deleted, and its agents may still come"}, repair: writes},

		// Retired orders, and one that is over.
		{name: "retirement reverted", edit: func(g drift) { g.putBack(idR); g.line(t, lineOf(t, g.before, idR)); g.ids(idA, idR) }, orders: "a, r withdrawn put back, w withdrawn",
			faults: []string{idR + ".yaml was put back or could not be read, and its agents may still come", listedR}, repair: "-" + idR + ".yaml " + writes},
		{name: "retirement reverted, unknown", edit: func(g drift) { g.putBack(idR); g.line(t, lineOf(t, g.before, idR)); g.ids(idA, idR) }, unknown: true, orders: "a, r, w withdrawn"},
		{name: "retirement reverted, values edited", edit: func(g drift) {
			g.putBack(idR)
			g.line(t, lineOf(t, g.before, idR))
			g.ids(idA, idR)
			g.edit(t, g.manifest(idR), "completions: 2", "completions: 1")
		}, orders: "a, r withdrawn put back, w withdrawn",
			faults: []string{idR + ".yaml was put back or could not be read, and its agents may still come", listedR}, repair: "-" + idR + ".yaml " + writes},
		{name: "retired, line put back", edit: func(g drift) { g.line(t, lineOf(t, g.before, idR)) }, orders: "a, r withdrawn put back, w withdrawn", faults: []string{others + idR}, repair: writes},
		{name: "retired, manifest put back", edit: func(g drift) { g.putBack(idR); g.ids(idA, idR) }, orders: both,
			faults: []string{idR + ".yaml was put back, though its order is retired", listedR}, repair: "-" + idR + ".yaml " + onlyList},
		{name: "retired, manifest put back, unknown", edit: func(g drift) { g.putBack(idR); g.ids(idA, idR) }, unknown: true, orders: both, err: idR + noOrder},
		{name: "retired, manifest put back that a syncer prunes", edit: func(g drift) { g.putBack(idR); g.edit(t, g.manifest(idR), "Prune=false,", ""); g.ids(idA, idR) }, orders: both, err: idR + noOrder},
		{name: "over, manifest left", edit: func(g drift) { g.putBack(idX); g.ids(idA, idX) }, orders: both,
			faults: []string{idX + ".yaml was put back, though its order is retired", `kustomization.yaml listed "` + idX + `.yaml", which is not a dispatch`}, repair: "-" + idX + ".yaml " + onlyList},
		{name: "over, manifest left, unknown", edit: func(g drift) { g.putBack(idX); g.ids(idA, idX) }, unknown: true, orders: both, err: idX + noOrder},
		{name: "over, both there", edit: func(g drift) { g.putBack(idX); g.line(t, lineOf(t, g.before, idX)); g.ids(idA, idX) }, orders: "a, w withdrawn, x"},
		{name: "over, only its line", edit: func(g drift) { g.line(t, lineOf(t, g.before, idX)) }, orders: "a, w withdrawn, x withdrawn",
			faults: []string{idX + ".yaml was deleted, and its agents may still come"}, repair: writes},

		// state.yaml as a whole.
		{name: "conflict in the orders", edit: func(g drift) { g.files[stateOf] = conflicted(g.files[stateOf]) }, orders: both, faults: []string{conflict}, repair: writes},
		{name: "conflict in the orders, unknown", edit: func(g drift) { g.files[stateOf] = conflicted(g.files[stateOf]) }, unknown: true, err: "state.yaml: has orders that cannot be read (is not valid YAML: a conflict of git is not resolved), and nothing else explains the manifests of \"" + idA + "\"; restore it from git"},
		{name: "conflict in the orders, and a manifest deleted", edit: func(g drift) {
			g.files[stateOf] = conflicted(g.files[stateOf])
			delete(g.files, g.manifest(idA))
			g.ids()
		}, orders: gone,
			faults: []string{deleted, conflict}, repair: writes},
		{name: "conflict in the state", edit: func(g drift) { g.edit(t, stateOf, "identity:", "<<<<<<< HEAD\nidentity:") }, orders: both,
			faults: []string{"state.yaml was not valid (is not valid YAML: a conflict of git is not resolved), so that the circuit breaker counts as closed"}, repair: writes},
		{name: "conflict in the state, unknown", edit: func(g drift) { g.edit(t, stateOf, "identity:", "<<<<<<< HEAD\nidentity:") }, unknown: true, orders: both,
			faults: []string{"state.yaml was not valid (is not valid YAML: a conflict of git is not resolved), so that the circuit breaker counts as closed"}, repair: writes},
		{name: "state deleted", edit: func(g drift) { delete(g.files, stateOf) }, orders: both, faults: []string{missing + idA + ", " + idW}, repair: writes},
		{name: "state deleted, unknown", edit: func(g drift) { delete(g.files, stateOf) }, unknown: true, err: idA + noOrder},
		{name: "state emptied", edit: func(g drift) { g.files[stateOf] = "" }, orders: both,
			faults: []string{"state.yaml was not valid (is empty), so that the circuit breaker counts as closed"}, repair: writes},
		{name: "orders deleted", edit: func(g drift) { g.files[stateOf], _, _ = strings.Cut(g.files[stateOf], documentEnd) }, orders: both, faults: []string{missing + idA + ", " + idW}, repair: writes},
		{name: "state too large", edit: func(g drift) { g.files[stateOf] += strings.Repeat("#", largestState) }, orders: both, err: "state.yaml: has 419"},
		{name: "state is a directory", edit: func(g drift) { delete(g.files, stateOf); g.files[stateOf+"/x"] = "" }, orders: both, err: "state.yaml: cannot be read: it is not a regular file"},
		{name: "everything deleted", edit: func(g drift) {
			maps.DeleteFunc(g.files, func(name, _ string) bool { return strings.HasPrefix(name, driftDir) })
			g.ids()
		}, orders: gone, faults: []string{deleted, missing + idW}, repair: writes},
		{name: "set back", edit: func(g drift) { maps.Copy(g.files, g.before) }, orders: "a, r withdrawn put back, w withdrawn, x", faults: []string{
			idR + ".yaml was put back or could not be read, and its agents may still come", idW + ".yaml was put back or could not be read, and its agents may still come", listedR,
		}, repair: "-" + idR + ".yaml -" + idW + ".yaml " + writes},

		// The list.
		{name: "list deleted", edit: func(g drift) { delete(g.files, driftDir+listFile) }, orders: both, faults: []string{"kustomization.yaml was missing or empty"}, repair: onlyList},
		{name: "list edited", edit: func(g drift) { g.ids("x") }, orders: both, faults: []string{`kustomization.yaml listed "x.yaml", which is not a dispatch`}, repair: onlyList},
		{name: "list emptied", edit: func(g drift) { g.ids() }, orders: both, faults: []string{"kustomization.yaml did not list " + idA + ".yaml"}, repair: onlyList},
		{name: "listed twice", edit: func(g drift) { g.ids(idA, idA) }, orders: both, faults: []string{"kustomization.yaml listed dispatches in another order, or twice"}, repair: onlyList},
		{name: "withdrawn order listed", edit: func(g drift) { g.ids(idA, idW) }, orders: both, faults: []string{listedW}, repair: onlyList},
		{name: "conflict in the list", edit: func(g drift) { g.files[driftDir+listFile] += "<<<<<<< HEAD\n" }, orders: both, faults: []string{"kustomization.yaml could not be read (is not valid YAML: a conflict of git is not resolved)"}, repair: onlyList},
		{name: "list of another kind", edit: func(g drift) { g.files[driftDir+listFile] = "resources: [" + idA + ".yaml]\n" }, orders: both, faults: []string{"kustomization.yaml was not a list of the dispatches"}, repair: onlyList},
		{name: "list in another layout", edit: func(g drift) { g.files[driftDir+listFile] = formatters["flow"](t, g.files[driftDir+listFile]) }, orders: both},
		{name: "second list", edit: func(g drift) { g.files[driftDir+"Kustomization"] = "" }, orders: both, faults: []string{"Kustomization was next to kustomization.yaml; kustomize reads only one of them"}, repair: "-Kustomization " + onlyList},
		{name: "list is a directory", edit: func(g drift) { delete(g.files, driftDir+listFile); g.files[driftDir+listFile+"/x"] = "" }, orders: both, err: "is a directory, where muster writes its list"},

		// Other files of the overlay.
		{name: "invalid policy", edit: func(g drift) { g.files["overlays/default/scaling.yaml"] = "nonsense"; delete(g.files, g.manifest(idA)) }, orders: gone, faults: []string{deleted, unlisted}, repair: writes, err: "scaling.yaml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := base.clone()
			c.edit(g)
			join := func(known bool) *Overlay {
				t.Helper()
				o := load(t, l, g.linked())[0]
				for range 2 { // the second one changes nothing
					if known && !c.unknown {
						o.Join(g.known, driftRetired, g.now)
					}
				}
				return &o
			}
			o := join(true)
			got := ""
			if o.Err() != nil {
				got = o.Err().Error()
			}
			if orders := described(o); orders != c.orders || (got == "") != (c.err == "") || !strings.Contains(got, c.err) {
				t.Errorf("%s, error %q\nwant %s, error %q", orders, got, c.orders, c.err)
			}
			if !c.unknown {
				lostOrders(t, o, g.known, g.now)
			}
			if o.Policy.Queue != "default" {
				t.Errorf("its queue is %q", o.Policy.Queue)
			}
			changes := o.Repair()
			if text := changed(changes); !slices.Equal(faultsOf(o), c.faults) || text != c.repair {
				t.Errorf("faults %q, repair %s\nwant %q, %s", faultsOf(o), text, c.faults, c.repair)
			}
			if c.err != "" && c.repair == "" {
				return
			}
			g.apply(changes)
			orders := slices.Clone(o.Dispatches)
			for i, d := range orders { // a manifest that the repair has removed is not edited any more
				_, there := g.files[o.FileOf(d)]
				orders[i].Edited = d.Edited && there
			}
			for _, known := range []bool{true, false} {
				again := join(known)
				if faults := faultsOf(again); len(faults) > 0 || again.Repair() != nil || len(again.unexplained) > 0 {
					t.Errorf("after the repair: %q, unexplained %q", faults, again.unexplained)
				}
				if len(changes) > 0 && strings.Contains(c.repair, "+state.yaml") && !cmp.Equal(orders, again.Dispatches, cmpopts.EquateEmpty()) {
					t.Errorf("after the repair, known %t:\n%s", known, cmp.Diff(orders, again.Dispatches))
				}
			}
		})
	}
}

// lostOrders asserts that an overlay has each known order that is not over, with its values and no sooner in use
// than it was withdrawn.
func lostOrders(t interface{ Errorf(string, ...any) }, o *Overlay, known []plan.Dispatch, now time.Time) {
	for _, want := range known {
		n := 0
		for _, d := range o.Dispatches {
			if d.ID == want.ID {
				n++
				if !SameOrder(d, want) || want.Withdrawn && !d.Withdrawn {
					t.Errorf("the order is %+v, want %+v", d, want)
				}
			}
		}
		if n > 1 || n == 0 && !want.Expired(now) {
			t.Errorf("%s is there %d times", want.ID, n)
		}
	}
}

func faultsOf(o *Overlay) (all []string) {
	for _, f := range o.Faults() {
		all = append(all, f.File+" "+f.Problem)
	}
	return all
}

// changed describes changes, as in "-a.yaml +state.yaml".
func changed(changes []branch.Change) string {
	var all []string
	for _, c := range changes {
		sign := "+"
		if c.Content == nil {
			sign = "-"
		}
		all = append(all, sign+path.Base(c.Path))
	}
	return strings.Join(all, " ")
}

// TestDriftOfCopies: the orders of the original in a copy of an overlay are those that the copy's files contain.
func TestDriftOfCopies(t *testing.T) {
	const dir = "overlays/linux/" + dispatchDir + "/"
	base := newDrift(t)
	for _, c := range []struct {
		name   string
		edit   func(g drift)
		orders string
		repair string
		err    string
	}{
		{"copied", func(drift) {}, "a copied, w withdrawn copied", "", ""},
		{"line edited", func(g drift) { g.edit(t, dir+stateFile, `"agents":3`, `"agents":4`) }, "a copied, w withdrawn copied", "", ""},
		{"manifest deleted", func(g drift) { delete(g.files, dir+idA+".yaml") }, "a withdrawn copied, w withdrawn copied", "+kustomization.yaml +state.yaml", ""},
		{"manifest edited", func(g drift) { g.edit(t, dir+idA+".yaml", "completions: 3", "completions: 4") }, "a edited copied, w withdrawn copied", "", ""},
		{"withdrawn one put back edited", func(g drift) {
			g.files[dir+idW+".yaml"] = strings.Replace(g.before[g.manifest(idW)], "completions: 5", "completions: 6", 1)
		}, "a copied, w withdrawn copied", "-" + idW + ".yaml +kustomization.yaml", ""},
		{"line deleted", func(g drift) { g.edit(t, dir+stateFile, lineOf(t, g.files, idA), "") }, "w withdrawn copied", "", idA + ".yaml: is the manifest of no order"},
		{"line and manifest deleted", func(g drift) {
			g.edit(t, dir+stateFile, lineOf(t, g.files, idA), "")
			delete(g.files, dir+idA+".yaml")
			g.files[dir+listFile] = string(list(nil))
		}, "w withdrawn copied", "", ""},
		{"retired line of the original put back", func(g drift) { g.edit(t, dir+stateFile, "\norders:\n", "\norders:\n"+lineOf(t, g.before, idR)) },
			"a copied, r withdrawn copied, w withdrawn copied", "+kustomization.yaml +state.yaml", ""},
		{"in an overlay that is no copy", func(g drift) {
			g.edit(t, dir+stateFile, "id: 1d\n  overlay: overlays/default", "id: 2d\n  overlay: overlays/linux")
		}, "", "", "contains " + idA + `, an order of the overlay "default"; delete its line and its manifest`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := base.clone()
			g.copy("overlays/default", "overlays/linux")
			c.edit(g)
			for round := range 2 {
				overlays := load(t, NewLoader("overlays"), g.tree())
				original, o := &overlays[0], &overlays[1]
				original.Join(g.known, driftRetired, g.now)
				o.Join(nil, driftRetired, g.now)
				if c.name == "line edited" { // known from when it was not recognised as a copy
					o.Join(g.known, driftRetired, g.now)
				}
				if described(original) != "a, w withdrawn" || original.Err() != nil || original.Repair() != nil {
					t.Errorf("the original has %s, %v", described(original), original.Err())
				}
				changes := o.Repair()
				if orders := described(o); orders != c.orders || (o.Err() == nil) != (c.err == "") || c.err != "" && !strings.Contains(o.Err().Error(), c.err) {
					t.Errorf("%s, error %v\nwant %s, error %s", orders, o.Err(), c.orders, c.err)
				}
				if round == 0 && changed(changes) != c.repair || round == 1 && (changes != nil || len(o.Faults()) > 0) {
					t.Errorf("round %d: repair %s, faults %q", round, changed(changes), faultsOf(o))
				}
				g.apply(changes)
				if round == 0 && strings.HasPrefix(c.repair, "-") {
					c.orders = strings.ReplaceAll(c.orders, " edited", "")
				}
			}
		})
	}
}

// TestRestoredState: a state that is lost is replaced by the one that is known, once.
func TestRestoredState(t *testing.T) {
	g := newDrift(t)
	o := load(t, NewLoader("overlays"), g.tree())[0]
	known := o.State
	known.Breaker = plan.Breaker{Failures: 3, At: g.now}
	for name, edit := range map[string]func(){
		"deleted": func() { delete(g.files, stateOf) },
		"damaged": func() { g.files[stateOf] = "<<<<<<< HEAD\n" + g.files[stateOf] },
		"valid":   func() {},
	} {
		g = newDrift(t)
		edit()
		for round := range 2 {
			o := load(t, NewLoader("overlays"), g.tree())[0]
			o.RestoreState(known)
			o.Join(g.known, driftRetired, g.now)
			if name == "valid" {
				if o.State.Breaker.Failures != 0 || o.Repair() != nil {
					t.Error("a valid state is replaced")
				}
				continue
			}
			if !o.State.Equal(known) || described(&o) != "a, w withdrawn" || len(o.Faults()) > 0 != (round == 0) {
				t.Errorf("%s, round %d: %+v, %s, faults %q", name, round, o.State, described(&o), faultsOf(&o))
			}
			g.apply(o.Repair())
		}
	}
}

// TestAnyDrift orders, withdraws and retires at random, and then edits the files at random: no order is lost or
// counted twice, and one repair suffices.
func TestAnyDrift(t *testing.T) {
	base := sound(t).identified(t, "overlays/default", plan.Identity{ID: "1d", Overlay: "overlays/default", Branch: "main"})
	l := NewLoader("overlays")
	rapid.Check(t, func(t *rapid.T) {
		f := maps.Clone(base)
		past := files{} // all files that muster has written
		at := order("", 1).At
		o := load2(t, l, f.tree())
		retired, known := map[string]bool{}, map[string]plan.Dispatch{}
		commit := func(next Overlay, changes []branch.Change, err error) {
			if err != nil {
				t.Fatal(err)
			}
			f.apply(changes)
			for _, c := range changes {
				if c.Content != nil {
					past[c.Path] = string(c.Content)
				}
			}
			o = next
			for _, d := range o.Dispatches {
				known[d.ID] = d
			}
		}
		states := []string{f[stateOf]}
		for i := range rapid.IntRange(1, 6).Draw(t, "operations") {
			var listed, all []string
			for _, d := range o.Dispatches {
				all = append(all, d.ID)
				if !d.Withdrawn {
					listed = append(listed, d.ID)
				}
			}
			switch n := rapid.IntRange(0, 3).Draw(t, "operation"); {
			case n == 3 && len(all) > 0:
				id := rapid.SampledFrom(all).Draw(t, "retired")
				retired[id] = true
				commit(o.Remove([]string{id}))
				delete(known, id)
			case n == 2 && len(listed) > 0:
				commit(o.Withdraw([]string{rapid.SampledFrom(listed).Draw(t, "withdrawn")}))
			default:
				d := order(fmt.Sprintf("default-%08d", i), 1+i)
				d.At = d.At.Add(-time.Duration(rapid.IntRange(0, 20).Draw(t, "age")) * time.Minute)
				d.NotAfter = d.At.Add(15 * time.Minute)
				commit(o.Add([]plan.Dispatch{d}))
			}
			states = append(states, f[stateOf])
		}
		for range rapid.IntRange(0, 5).Draw(t, "edits") {
			name := rapid.SampledFrom(append(slices.Sorted(maps.Keys(past)), stateOf, driftDir+listFile)).Draw(t, "file")
			switch rapid.IntRange(0, 9).Draw(t, "edit") {
			case 0, 1:
				delete(f, name)
			case 2:
				f[name] = "<<<<<<< HEAD\n" + f[name]
			case 3:
				f[name] = past[name] // reverted
			case 4:
				f[stateOf] = rapid.SampledFrom(states).Draw(t, "state")
			case 5:
				f[name] += "# a note\n"
			case 6: // a line is deleted, repeated or moved
				lines := slices.Collect(strings.Lines(f[stateOf]))
				if len(lines) > 0 {
					at := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
					line := lines[at]
					lines = slices.Delete(lines, at, at+1)
					for range rapid.IntRange(0, 2).Draw(t, "times") {
						lines = append(lines, line)
					}
					f[stateOf] = strings.Join(lines, "")
				}
			case 7:
				name = rapid.SampledFrom([]string{name, stateOf}).Draw(t, "name")
				f[name] = strings.Replace(f[name], rapid.SampledFrom([]string{"completions: ", `"agents":`, `:"2026-11-21T02`, "sha256-", "- default-"}).Draw(t, "place"), rapid.SampledFrom([]string{"completions: 1", `"agents":1`, `:"2026-11-21T01`, "sha256-0", "- x"}).Draw(t, "value"), 1)
			case 8:
				f[name] = strings.ReplaceAll(f[name], "\n", "\r\n")
			case 9:
				if text := f[name]; text != "" {
					f[name] = text[:rapid.IntRange(0, len(text)).Draw(t, "end")]
				}
			}
		}
		all := slices.Collect(maps.Values(known))
		now := at.Add(time.Minute)
		join := func() *Overlay {
			o := load2(t, l, f.tree())
			o.Join(all, func(id string) bool { return retired[id] }, now)
			lostOrders(t, &o, all, now)
			return &o
		}
		o1 := join()
		if !slices.IsSortedFunc(o1.Dispatches, func(a, b plan.Dispatch) int { return strings.Compare(a.ID, b.ID) }) {
			t.Fatalf("not sorted: %v", o1.Dispatches)
		}
		changes := o1.Repair()
		f.apply(changes)
		o2 := join()
		if len(changes) == 0 && len(o1.Faults()) > 0 || len(o2.Faults()) > 0 || (o1.Err() == nil) != (o2.Err() == nil) {
			t.Fatalf("faults %q, error %v; after the repair %s: %q, error %v", faultsOf(o1), o1.Err(), changed(changes), faultsOf(o2), o2.Err())
		}
		if described(o1) != described(o2) {
			t.Fatalf("%s; after the repair %s", described(o1), described(o2))
		}
		if o2.Err() != nil {
			return
		}
		for _, d := range o2.Dispatches {
			if at, found := o2.recordedAt(d.ID); !found || !SameOrder(o2.recorded[at], d) {
				t.Fatalf("after the repair state.yaml lacks %+v:\n%s", d, f[stateOf])
			}
			if retired[d.ID] && !(d.Withdrawn && d.PutBack) {
				t.Fatalf("%s is retired, and counts as %+v", d.ID, d)
			}
		}
		next, changes, err := o2.Add([]plan.Dispatch{order("default-99999999", 1)})
		if err != nil {
			t.Fatal(err)
		}
		f.apply(changes)
		all = next.Dispatches
		if o3 := join(); o3.Err() != nil || len(o3.Faults()) > 0 || described(o3) != described(&next) {
			t.Fatalf("%s, error %v, faults %q; after an order %s", described(&next), o3.Err(), faultsOf(o3), described(o3))
		}
	})
}

// load2 is load of one overlay for a drawn test.
func load2(t *rapid.T, l *Loader, tree fs.FS) Overlay {
	overlays, err := l.Load(tree)
	if err != nil || len(overlays) != 1 {
		t.Fatal(overlays, err)
	}
	return overlays[0]
}
