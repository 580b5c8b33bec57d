package git

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"muster/gitops/branch"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
	"muster/gitops/unraced"
)

// peakHeap is how much the heap grows while f runs, in bytes. Garbage that waits for
// its collector only adds to it: f runs until it took no more than bound, at most five
// times, and the least counts.
func peakHeap(bound uint64, f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	least := growthOf(f)
	for range 4 {
		if least <= bound {
			break
		}
		least = min(least, growthOf(f))
	}
	return least
}

func growthOf(f func()) uint64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := read()
	peak := before
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			peak = max(peak, read())
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	f()
	close(done)
	<-ended
	return peak - before
}

func noise(size int) []byte {
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	return content
}

// sendsWholeCommits makes a server send neither parts of a commit nor single objects.
func sendsWholeCommits(t *testing.T, r gitserver.Repository) {
	t.Helper()
	for _, key := range []string{"uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"} {
		must(t, r.Configure(key, "false"))
	}
}

// TestWholePackIsNotInMemory: if the server sends only whole commits, files outside of overlays take no
// memory, and leave no file.
func TestWholePackIsNotInMemory(t *testing.T) {
	unraced.Only(t)
	repository := gitserver.NewRepository(t)
	sendsWholeCommits(t, repository)
	_, err := repository.Commit("seed", time.Unix(0, 0), branch.Change{Path: "deploy/web/a", Content: []byte("a")}, branch.Change{Path: "noise", Content: noise(32 << 20)})
	must(t, err)
	temp := t.TempDir()
	const most = 16 << 20
	used := peakHeap(most, func() {
		_, head := begun(t, Config{URL: repository.Dir, TempDir: temp})
		if content, err := fs.ReadFile(head.Tree, "deploy/web/a"); err != nil || string(content) != "a" {
			t.Errorf("%q, %v", content, err)
		}
	})
	if used > most {
		t.Errorf("reading a commit of 32 MiB takes %d MiB of memory", used>>20)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("temporary files have names: %v, %v", left, err)
	}
}

// TestNoPlaceForTemporaryFiles: without temporary files, packs are kept in memory, which is logged once.
func TestNoPlaceForTemporaryFiles(t *testing.T) {
	var log bytes.Buffer
	where, err := branch.ParseAddress("https://git.example.com/fleet.git")
	must(t, err)
	c := &remote.Connection{Address: where, TempDir: filepath.Join(t.TempDir(), "none"), Log: slog.New(slog.NewTextHandler(&log, nil))}
	content := append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"), noise(20<<20)...)
	const most = 150 << 20 // io.ReadAll takes most of it
	used := peakHeap(most, func() {
		for range 2 {
			got, err := c.ReadPack(bytes.NewReader(content), 0)
			must(t, err)
			same, err := io.ReadAll(io.NewSectionReader(got, 0, got.Size))
			if err != nil || !bytes.Equal(same, content) {
				t.Errorf("what is kept is not what came: %v", err)
			}
			got.Close()
		}
	})
	if used > most {
		t.Errorf("%d MiB", used>>20)
	}
	if n := strings.Count(log.String(), "mount a writable directory with room at /tmp, or name one in TMPDIR"); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, &log)
	}
	for _, dir := range []string{"", c.TempDir} {
		c.TempDir = dir
		const most = remote.MaxInMemory + 16<<20
		used = peakHeap(most, func() {
			if _, err := c.ReadPack(io.MultiReader(bytes.NewReader(content), endless{}), 0); !errors.Is(err, remote.ErrNoPlace) || !strings.Contains(err.Error(), "TMPDIR") {
				t.Errorf("a pack that has no place in memory: %v", err)
			}
		})
		if used > most {
			t.Errorf("%d MiB before it is refused", used>>20)
		}
	}
}

// fullFile accepts some bytes, like a file on a full disk.
type fullFile struct {
	*os.File
	room int
}

func (f *fullFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p[:min(len(p), f.room)])
	if f.room -= n; err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

// TestNoRoomForTemporaryFiles asserts that a pack that does not fit on the disk is kept in
// memory completely, as if no temporary file could be made.
func TestNoRoomForTemporaryFiles(t *testing.T) {
	where, err := branch.ParseAddress("https://git.example.com/fleet.git")
	must(t, err)
	content := noise(remote.MaxInMemory + 1)
	for _, c := range []struct {
		room, size int
		fits       bool
	}{{0, 5 << 20, true}, {1<<20 + 1, 5 << 20, true}, {6 << 20, 5 << 20, true}, {remote.MaxInMemory, remote.MaxInMemory, true}, {remote.MaxInMemory, remote.MaxInMemory + 1, false}, {9 << 20, remote.MaxInMemory + 1, false}} {
		file, err := os.Create(filepath.Join(t.TempDir(), "pack"))
		must(t, err)
		var log bytes.Buffer
		s := &remote.Spool{Connection: &remote.Connection{Address: where, Log: slog.New(slog.NewTextHandler(&log, nil))}, File: &fullFile{file, c.room}}
		_, err = io.Copy(s, struct{ io.Reader }{bytes.NewReader(content[:c.size])})
		if (err == nil) != c.fits || err != nil && !errors.Is(err, remote.ErrNoPlace) {
			t.Errorf("%d bytes where %d fit: %v", c.size, c.room, err)
		}
		if said := strings.Contains(log.String(), "no space left on device"); said != (c.size > c.room) {
			t.Errorf("%d bytes where %d fit: the log has %q", c.size, c.room, &log)
		}
		if !c.fits {
			s.Close()
			continue
		}
		got := s.Download()
		if same, err := io.ReadAll(io.NewSectionReader(got, 0, got.Size)); err != nil || !bytes.Equal(same, content[:c.size]) {
			t.Errorf("%d bytes where %d fit: what is kept is not what came: %v", c.size, c.room, err)
		}
		got.Close()
	}
}

// TestLongChainOfDeltas: one delta of a chain is in memory at a time. Here each precedes its base.
func TestLongChainOfDeltas(t *testing.T) {
	unraced.Only(t)
	const long, size = 100, 1 << 20
	base := newObject{rawObject: rawObject{plumbing.BlobObject, bytes.Repeat([]byte{0}, size)}}
	base.hash = nameOf(base.kind, base.data)
	chain := []newObject{base}
	for i := range long {
		content := bytes.Repeat([]byte{byte(i + 1)}, size)
		chain = append(chain, newObject{hash: nameOf(base.kind, content), rawObject: rawObject{base.kind, content},
			base: chain[i].hash, delta: deltaOf(chain[i].data, content, nil)})
	}
	p, err := indexPack(t.Context(), fetched(writePack(chain, true)), nil)
	must(t, err)
	last := chain[long].hash
	clear(chain) // what the test holds itself lets the collector wait longer
	const most = 16 << 20
	used := peakHeap(most, func() {
		clear(p.cache)
		if o, ok, err := p.object(last); err != nil || !ok || nameOf(o.kind, o.data) != last {
			t.Errorf("the last of the chain: %v, %v", ok, err)
		}
	})
	if used > most {
		t.Errorf("%d MiB for a chain of %d MiB", used>>20, long*size>>20)
	}
}

// TestWideTrees: directories of megabytes are not all in memory at once, and can be
// read all the same.
func TestWideTrees(t *testing.T) {
	unraced.Only(t)
	repository := gitserver.NewRepository(t)
	git := func(input string, args ...string) string {
		out, err := repository.GitInput([]byte(input), args...)
		must(t, err)
		return strings.TrimSpace(out)
	}
	git("", "config", "pack.window", "0") // to look for deltas takes git half a minute
	const dirs, files = 10, 9_000
	blob := git("x", "hash-object", "-w", "--stdin")
	var deploy strings.Builder
	for dir := range dirs {
		var wide strings.Builder
		for file := range files {
			fmt.Fprintf(&wide, "100644 blob %s\t%02d%s%06d\n", blob, dir, strings.Repeat("n", 380), file)
		}
		fmt.Fprintf(&deploy, "040000 tree %s\td%02d\n", git(wide.String(), "mktree"), dir)
	}
	root := git("040000 tree "+git(deploy.String(), "mktree")+"\tdeploy\n", "mktree")
	git("", "update-ref", "refs/heads/main", git("wide", "-c", "user.name=Else", "-c", "user.email=grace@example.com", "commit-tree", root))
	used := peakHeap(2*maxTrees, func() {
		r, _ := begun(t, Config{URL: repository.Dir, TempDir: t.TempDir()})
		for range 2 {
			head, err := r.Head(t.Context())
			must(t, err)
			for dir := range dirs {
				if list, err := fs.ReadDir(head.Tree, fmt.Sprintf("deploy/d%02d", dir)); err != nil || len(list) != files {
					t.Errorf("%d entries, %v", len(list), err)
				}
			}
		}
	})
	if used > 2*maxTrees {
		t.Errorf("%d MiB for %d directories of %d files", used>>20, dirs, files)
	}
}
