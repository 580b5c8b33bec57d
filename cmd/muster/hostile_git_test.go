package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gitops/gitserver"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// gitObjects writes git objects as they are, also such as git itself would not
// make: names that it reserves, two entries of one name, any mode.
type gitObjects struct {
	tb    testing.TB
	bare  gitserver.Repository
	store *filesystem.Storage
}

func newGitObjects(tb testing.TB, dir string) gitObjects {
	bare, err := gitserver.Init(filepath.Join(dir, "fleet.git"))
	check(tb, err)
	return gitObjects{tb, bare, filesystem.NewStorage(osfs.New(bare.Dir), cache.NewObjectLRU(0))}
}

func (g gitObjects) write(kind plumbing.ObjectType, content []byte) plumbing.Hash {
	o := &plumbing.MemoryObject{}
	o.SetType(kind)
	_, _ = o.Write(content)
	h := o.Hash()
	if g.store.HasEncodedObject(h) == nil {
		return h
	}
	_, err := g.store.SetEncodedObject(o)
	check(g.tb, err)
	return h
}

func (g gitObjects) blob(content string) plumbing.Hash {
	return g.write(plumbing.BlobObject, []byte(content))
}

// leaf is one entry of a git tree: mode in octal, as in "100644".
type leaf struct {
	mode, name string
	hash       plumbing.Hash
}

const (
	plainFile    = "100644"
	gitDirectory = "40000"
	symlink      = "120000"
	submodule    = "160000"
)

// tree writes a directory in git's own order.
func (g gitObjects) tree(entries ...leaf) plumbing.Hash {
	key := func(e leaf) string {
		if e.mode == gitDirectory {
			return e.name + "/"
		}
		return e.name
	}
	slices.SortStableFunc(entries, func(a, b leaf) int { return cmp.Compare(key(a), key(b)) })
	var raw bytes.Buffer
	for _, e := range entries {
		fmt.Fprintf(&raw, "%s %s\x00", e.mode, e.name)
		raw.Write(e.hash[:])
	}
	return g.write(plumbing.TreeObject, raw.Bytes())
}

// directory writes files by their paths below one directory, and other entries in
// some of its directories.
func (g gitObjects) directory(files map[string]string, others map[string][]leaf) plumbing.Hash {
	inside := map[string][]leaf{".": nil}
	for dir, list := range others {
		inside[dir] = slices.Clone(list)
	}
	for name, content := range files {
		dir := path.Dir(name)
		inside[dir] = append(inside[dir], leaf{plainFile, path.Base(name), g.blob(content)})
	}
	depth := func(dir string) int { return strings.Count(path.Join(dir, "file"), "/") }
	deeper := func(a, b string) int { return cmp.Compare(depth(a), depth(b)) }
	for len(inside) > 1 { // the deepest directory becomes an entry of the one above
		deepest := slices.MaxFunc(slices.Collect(maps.Keys(inside)), deeper)
		above := path.Dir(deepest)
		inside[above] = append(inside[above], leaf{gitDirectory, path.Base(deepest), g.tree(inside[deepest]...)})
		delete(inside, deepest)
	}
	return g.tree(inside["."]...)
}

// commit makes a tree the head of the branch main, and returns the ID of the commit.
func (g gitObjects) commit(root plumbing.Hash, author, message string, at time.Time) string {
	ref := filepath.Join(g.bare.Dir, "refs", "heads", "main")
	text := fmt.Sprintf("tree %s\n", root)
	if head, err := os.ReadFile(ref); err == nil {
		text += "parent " + string(head)
	}
	who := fmt.Sprintf("%s %d +0000\n", author, at.Unix())
	id := g.write(plumbing.CommitObject, []byte(text+"author "+who+"committer "+who+"\n"+message)).String()
	check(g.tb, os.WriteFile(ref, []byte(id+"\n"), 0o644))
	return id
}

// entry is what the head has under a name; no hash: nothing.
func (g gitObjects) entry(path string) plumbing.Hash {
	out, err := g.bare.Git("rev-parse", "--verify", "--quiet", "refs/heads/main:"+path)
	if err != nil {
		return plumbing.ZeroHash
	}
	return plumbing.NewHash(strings.TrimSpace(out))
}

// dispatches are the names of the dispatches of an overlay at the head.
func (g gitObjects) dispatches(overlay string) []string {
	out, err := g.bare.Git("ls-tree", "--name-only", "refs/heads/main:overlays/"+overlay+"/dispatches")
	check(g.tb, err)
	return slices.DeleteFunc(strings.Fields(out), func(name string) bool { return !strings.HasPrefix(name, overlay+"-") })
}
