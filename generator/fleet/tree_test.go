package fleet

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"muster/generator/plan"
	"muster/gitops/branch"
)

// files is a tree that a test can break: names and contents.
type files map[string]string

// sound is the fleet repository of testdata/sound.txtar.
func sound(tb testing.TB) files {
	tb.Helper()
	archive, err := txtar.ParseFile("testdata/sound.txtar")
	if err != nil {
		tb.Fatal(err)
	}
	return filesOf(archive)
}

func filesOf(archive *txtar.Archive) files {
	f := files{}
	for _, x := range archive.Files {
		f[x.Name] = string(x.Data)
	}
	return f
}

const stampedFile = "overlays/default/dispatches/default-7f3k9c2b.yaml"

// soundWithDispatch returns the fleet repository of testdata/sound.txtar with one dispatch.
func soundWithDispatch(tb testing.TB) files {
	tb.Helper()
	return sound(tb).ordered(tb, order("default-7f3k9c2b", 12))
}

// stamped returns the manifest of that dispatch.
func stamped(tb testing.TB) string {
	tb.Helper()
	return soundWithDispatch(tb)[stampedFile]
}

// dispatchOf returns that dispatch, as muster records it.
func dispatchOf(tb testing.TB) plan.Dispatch {
	tb.Helper()
	o := only(tb, NewLoader("overlays"), soundWithDispatch(tb).tree())
	return o.Dispatches[0]
}

// ordered orders dispatches in the overlay default.
func (f files) ordered(tb testing.TB, dispatches ...plan.Dispatch) files {
	tb.Helper()
	for _, o := range load(tb, NewLoader("overlays"), f.tree()) {
		if o.Name == "default" {
			_, changes, err := o.Add(dispatches)
			if err != nil {
				tb.Fatal(err)
			}
			f.apply(changes)
		}
	}
	return f
}

// edit replaces old by new in a file, which must have it once.
func (f files) edit(tb testing.TB, name, old, new string) files {
	tb.Helper()
	if strings.Count(f[name], old) != 1 {
		tb.Fatalf("%s has %q %d times, not once", name, old, strings.Count(f[name], old))
	}
	f[name] = strings.Replace(f[name], old, new, 1)
	return f
}

// copy copies a directory of the tree to another.
func (f files) copy(from, to string) files {
	for name, content := range maps.Clone(f) {
		if rest, ok := strings.CutPrefix(name, from+"/"); ok {
			f[path.Join(to, rest)] = content
		}
	}
	return f
}

func (f files) tree() fs.FS {
	m := fstest.MapFS{}
	for name, content := range f {
		m[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return m
}

func (f files) apply(changes []branch.Change) {
	for _, c := range changes {
		if c.Content == nil {
			delete(f, c.Path)
		} else {
			f[c.Path] = string(c.Content)
		}
	}
}

func (f files) names() []string { return slices.Sorted(maps.Keys(f)) }

// lineOf returns the line of an order in state.yaml of the overlay default.
func lineOf(tb testing.TB, f files, id string) string {
	tb.Helper()
	for line := range strings.Lines(f[stateOf]) {
		if strings.HasPrefix(line, "  "+id+": ") {
			return line
		}
	}
	tb.Fatalf("%s has no line of %s", stateOf, id)
	return ""
}

// below returns the names of the files below a directory, without it.
func (f files) below(dir string) (names []string) {
	for _, name := range f.names() {
		if rest, is := strings.CutPrefix(name, dir); is {
			names = append(names, rest)
		}
	}
	return names
}

// load is Load, which must succeed.
func load(tb testing.TB, l *Loader, tree fs.FS) []Overlay {
	tb.Helper()
	overlays, err := l.Load(tree)
	if err != nil {
		tb.Fatal(err)
	}
	return overlays
}

// only is the one overlay of a tree, which must be sound.
func only(tb testing.TB, l *Loader, tree fs.FS) Overlay {
	tb.Helper()
	overlays := load(tb, l, tree)
	if len(overlays) != 1 || overlays[0].Err() != nil {
		tb.Fatalf("want one sound overlay, got %d: %v", len(overlays), overlays[0].Err())
	}
	return overlays[0]
}
