package git

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"
	"time"

	"muster/gitops/branch"
	"muster/gitops/gitserver"
	"muster/gitops/unraced"

	"github.com/go-git/go-git/v5/plumbing"
)

// begun returns a branch that has read its head.
func begun(t *testing.T, c Config) (*Branch, branch.Head) {
	t.Helper()
	c.Branch, c.ReadAhead, c.AuthorName, c.AuthorEmail = "main", "deploy", "robot", "robot@localhost"
	r, err := New(c)
	must(t, err)
	head, err := r.Head(t.Context())
	must(t, err)
	return r, head
}

// opened commits files to a server, and returns a branch that has read its head.
func opened(t *testing.T, f gitserver.Fleet, changes ...branch.Change) (*Branch, branch.Head) {
	t.Helper()
	_, err := f.Commit("seed", time.Unix(0, 0), changes...)
	must(t, err)
	return begun(t, Config{URL: f.URL()})
}

// TestLargeDirectoryIsNotKept reads every file of a directory that is larger
// than what is worth keeping, and looks at what is kept.
func TestLargeDirectoryIsNotKept(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	const many = 4200 // more than is read ahead at the start
	const dir = "deploy/web/jobs"
	changes := []branch.Change{{Path: "deploy/web/settings.yaml", Content: []byte("settings")}}
	for i := range many {
		name := fmt.Sprintf("default-%06d", i)
		changes = append(changes, branch.Change{Path: dir + "/" + name + ".yaml", Content: manifest(name)})
	}
	r, head := opened(t, gitserver.NewServer(t, gitserver.Options{}), changes...)
	for _, c := range changes {
		if got, err := fs.ReadFile(head.Tree, c.Path); err != nil || string(got) != string(c.Content) {
			t.Fatalf("%s has %q (%v)", c.Path, got, err)
		}
		if len(r.store.blobs) > maxInBatch+fewKept+1 {
			t.Fatalf("%d files are kept while %s is read", len(r.store.blobs), c.Path)
		}
	}
	pushed := func(name string) newObject {
		b := newBuilder(t.Context(), r.store, r.author)
		c := branch.Draft{Message: "add", Changes: []branch.Change{{Path: dir + "/" + name + ".yaml", Content: manifest(name)}}}
		head, root, err := b.chain([]branch.Draft{c})
		must(t, err)
		r.store.adopt(b, head, root)
		return b.list[0]
	}
	for i := range 20 {
		if o := pushed(fmt.Sprintf("default-%06d", many+i)); o.delta == nil {
			t.Errorf("file %d is sent whole", i)
		}
		// The settings, and a few to make deltas on.
		if len(r.store.blobs) > fewKept+1 {
			t.Errorf("%d files are kept after a push", len(r.store.blobs))
		}
	}
}

// TestFilesLargerThanCache: where the files of a directory are more than is kept
// between two prunings, all of them can be read, with a few requests.
func TestFilesLargerThanCache(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	const each = 128 << 10
	const many = 2*maxHere/each + 50
	noise := rand.NewChaCha8([32]byte{1})
	changes := make([]branch.Change, many)
	for i := range changes {
		part := make([]byte, 1<<10) // all of them fit into one pack
		_, _ = noise.Read(part)
		changes[i] = branch.Change{Path: fmt.Sprintf("deploy/jobs/%06d.yaml", i), Content: bytes.Repeat(part, each>>10)}
	}
	r, head := opened(t, gitserver.NewServer(t, gitserver.Options{}), changes...)
	for _, c := range changes {
		if got, err := fs.ReadFile(head.Tree, c.Path); err != nil || !bytes.Equal(got, c.Content) {
			t.Fatalf("%s has %d bytes (%v)", c.Path, len(got), err)
		}
	}
	here := size(r.store.blobs)
	if n := r.Stats().Requests; here > maxHere || n > 30 {
		t.Errorf("%d bytes are kept, at most %d may be; %d requests, want at most 30", here, maxHere, n)
	}
}

// manifest is as large as the files are that are pushed again and again.
func manifest(name string) []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: %s\n", name)
	for i := range 60 {
		fmt.Fprintf(&text, "# field %d of the template, as long as fields are\n", i)
	}
	return text.Bytes()
}

// TestCommitDates asserts that every date that git accepts becomes a time that JSON can contain.
func TestCommitDates(t *testing.T) {
	for seconds, want := range map[string]string{
		"1763691300 +0100": "2025-11-21T02:15:00Z", "253402300799 +0000": "9999-12-31T23:59:59Z", "253402300800 +0000": "9999-12-31T23:59:59Z", "253402300799 -1200": "9999-12-31T23:59:59Z",
		"99999999999999 +0000": "9999-12-31T23:59:59Z", "9223372036854775807 +0000": "9999-12-31T23:59:59Z", "99999999999999999999 +0000": "0001-01-01T00:00:00Z", "soon": "0001-01-01T00:00:00Z",
	} {
		raw := "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@localhost> 0 +0000\ncommitter A <a@localhost> " + seconds + "\n\nx\n"
		if got, err := readCommit(plumbing.ZeroHash, []byte(raw)).At.MarshalJSON(); err != nil || string(got) != `"`+want+`"` {
			t.Errorf("%s is read as %s (%v), want %s", seconds, got, err, want)
		}
	}
}
