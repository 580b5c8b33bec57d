package git

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"muster/gitops/branch"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
	"muster/gitops/unraced"
)

// TestLargeObjectsAreNotInflated: an object's size is known before it is
// inflated, and so is what a delta makes.
func TestLargeObjectsAreNotInflated(t *testing.T) {
	unraced.Only(t)
	blob := func(data []byte) newObject {
		return newObject{hash: nameOf(plumbing.BlobObject, data), rawObject: rawObject{plumbing.BlobObject, data}}
	}
	small, large := blob(bytes.Repeat([]byte("x"), 1<<20)), blob(make([]byte, 64<<20))
	// 64 copies of small.
	makes := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(small.data))), 64<<20)
	for range 64 {
		makes = append(makes, 0xc0, 0x10) // copy 1 MiB from the start
	}
	delta := newObject{hash: plumbing.Hash{1}, rawObject: large.rawObject, base: small.hash, delta: makes}
	data := writePack([]newObject{small, large, delta}, true)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := indexPack(t.Context(), fetched(data), nil)
	runtime.ReadMemStats(&after)
	must(t, err)
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("reading %d bytes took %d MiB", len(data), used>>20)
	}
	if others := slices.Collect(p.all()); p.large[large.hash] != 64<<20 || len(p.large) != 1 || len(others) != 1 {
		t.Errorf("large %v, others %v", p.large, others)
	}
	if o, ok, err := p.object(small.hash); !ok || err != nil || !bytes.Equal(o.data, small.data) {
		t.Errorf("the small object cannot be read: %v", err)
	}
}

// TestLargeFileHarmsNoOther: a file that is too large is an error of its own, on
// every server.
func TestLargeFileHarmsNoOther(t *testing.T) {
	unraced.Only(t)
	for _, offer := range []string{"partial", "whole"} {
		t.Run(offer, func(t *testing.T) {
			t.Parallel()
			f := gitserver.NewServer(t, gitserver.Options{})
			if offer == "whole" {
				sendsWholeCommits(t, f.Repository)
			}
			r, _ := opened(t, f,
				branch.Change{Path: "deploy/web/a", Content: []byte("a")}, branch.Change{Path: "deploy/web/b", Content: make([]byte, maxObject+1)},
				branch.Change{Path: "deploy/web/c", Content: noise(20 << 20)}, branch.Change{Path: "deploy/web/d", Content: bytes.Repeat([]byte("d"), smallFile+1)},
			)
			for range 2 {
				head, err := r.Head(t.Context())
				must(t, err)
				for name, fine := range map[string]bool{"a": true, "b": false, "c": false, "d": true} {
					_, err := fs.ReadFile(head.Tree, "deploy/web/"+name)
					if (err == nil) != fine || err != nil && !strings.Contains(err.Error(), "larger than the 4 MiB") {
						t.Errorf("%s: %v", name, err)
					}
				}
				if kept := size(r.store.blobs); kept > 2<<20 {
					t.Errorf("%d bytes of files are kept", kept)
				}
				_, err = r.Push(t.Context(), head, []branch.Draft{{Message: "add", At: time.Unix(1, 0), Changes: []branch.Change{{Path: "deploy/web/e", Content: []byte("e")}}}})
				must(t, err)
			}
		})
	}
}

// TestBatchLargerThanItsBound: files that are too large together are read one
// after the other.
func TestBatchLargerThanItsBound(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	const size = 3 << 20
	var changes []branch.Change
	for i, all := 0, noise(6*size); len(all) > 0; i, all = i+1, all[size:] {
		changes = append(changes, branch.Change{Path: fmt.Sprintf("deploy/web/%d", i), Content: all[:size]})
	}
	_, head := opened(t, gitserver.NewServer(t, gitserver.Options{}), changes...)
	for _, c := range changes {
		if got, err := fs.ReadFile(head.Tree, c.Path); err != nil || !bytes.Equal(got, c.Content) {
			t.Fatalf("%s: %v", c.Path, err)
		}
	}
}

// TestBatchesOfLargeFiles: if many files exceed a limit together, retries request fewer.
func TestBatchesOfLargeFiles(t *testing.T) {
	s := &store{objects: newObjects("")}
	const files, fit = 100, 5 // as many as the server sends at once
	asked := 0
	for read := 0; read < files; {
		b := &batch{store: s, seen: map[plumbing.Hash]bool{}}
		for ; len(b.wants) < files-read && !b.full(); b.wants = append(b.wants, plumbing.ZeroHash) {
		}
		asked += len(b.wants)
		if len(b.wants) <= fit {
			s.adapt(len(b.wants), nil)
			read += len(b.wants)
		} else {
			s.adapt(len(b.wants), remote.ErrTooMany)
			asked, read = asked+1, read+1 // alone
		}
	}
	if asked > 4*files {
		t.Errorf("%d files are asked for %d times", files, asked)
	}
}

// TestTreeOfManyDirectories: a few objects that represent millions of directories are read once each.
func TestTreeOfManyDirectories(t *testing.T) {
	s := &store{objects: newObjects("deploy")}
	below := entry{mode: filemode.Regular, hash: nameOf(plumbing.BlobObject, nil)}
	add := func(entries map[string]entry) {
		raw := rawTree(entries)
		below = entry{mode: filemode.Dir, hash: nameOf(plumbing.TreeObject, raw)}
		s.trees[below.hash], _ = parseTree(raw)
	}
	for range 12 {
		entries := map[string]entry{}
		for _, name := range strings.Split("abcdefghij", "") {
			below.name = name
			entries[name] = below
		}
		add(entries)
	}
	deploy := below
	deploy.name = "deploy"
	add(map[string]entry{deploy.name: deploy})
	s.prune(below.hash)
	if len(s.trees) != 13 {
		t.Errorf("%d trees are kept, want 13", len(s.trees))
	}
	b := &batch{store: s, seen: map[plumbing.Hash]bool{}}
	b.addBelow(deploy.hash)
	if len(b.wants) != 1 || slices.Contains(b.wants, plumbing.ZeroHash) {
		t.Errorf("wants %v", b.wants)
	}
}

// TestLargeTree: a directory that is too large is an error of its own.
func TestLargeTree(t *testing.T) {
	s := &store{objects: newObjects("")}
	s.large[plumbing.Hash{1}] = maxObject + 1
	if _, err := s.tree(t.Context(), plumbing.Hash{1}); !errors.Is(err, errTooLarge) {
		t.Error(err)
	}
}

// TestInvalidNamesAreNotListed: entries of a tree that no path leads to are not listed: a
// directory that is called . would hold itself without end. Of two entries of one
// name, the one that is read is listed.
func TestInvalidNamesAreNotListed(t *testing.T) {
	s := &store{objects: newObjects("deploy")}
	content := nameOf(plumbing.BlobObject, nil)
	dir := nameOf(plumbing.TreeObject, nil)
	var raw []byte
	for _, e := range []entry{{".", filemode.Dir, dir}, {"..", filemode.Dir, dir}, {"a/b", filemode.Regular, content}, {"x", filemode.Regular, content}, {"x", filemode.Dir, dir}} {
		raw = fmt.Appendf(raw, "%o %s\x00%s", uint32(e.mode), e.name, e.hash[:])
	}
	root := nameOf(plumbing.TreeObject, raw)
	parsed, err := parseTree(raw)
	must(t, err)
	s.trees[root] = parsed
	f := &treeFS{branch: &Branch{store: s}, store: s, ctx: t.Context(), root: root}
	list, err := f.ReadDir(".")
	if err != nil || len(list) != 1 || list[0].Name() != "x" || !list[0].IsDir() {
		t.Errorf("%v, %v; want the directory x", list, err)
	}
}

// TestPackWithoutEnd: a pack that is too large is an error with a remedy, and one with more objects than
// can be indexed is refused by its header.
func TestPackWithoutEnd(t *testing.T) {
	many := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), remote.MaxEntries+1)
	for most, want := range map[uint32]error{0: remote.ErrPack, 10: remote.ErrTooMany} {
		if _, err := (&remote.Connection{TempDir: t.TempDir()}).ReadPack(endless{}, most); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	for _, most := range []uint32{0, 1 << 30} {
		if _, err := (&remote.Connection{}).ReadPack(bytes.NewReader(many), most); err == nil {
			t.Errorf("at most %d: it is read", most)
		}
	}
}

// endless is an infinite pack without objects.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestCollector: a reader waits for a collection when the heap is above the memory limit, and
// never where there is no limit.
func TestCollector(t *testing.T) {
	collections := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	var c heapLimit
	before := collections()
	c.add(10 * measureEvery)
	if got := collections() - before; got != 0 {
		t.Errorf("%d collections without a limit", got)
	}
	debug.SetMemoryLimit(1)
	for range 10 {
		c.add(measureEvery / 2)
	}
	if got := collections() - before; got != 5 {
		t.Errorf("%d collections above the limit, want one per MiB", got)
	}
}
