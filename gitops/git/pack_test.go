package git

import (
	"bytes"
	"slices"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"pgregory.net/rapid"

	"muster/gitops/git/remote"
)

// must ends a test at an error.
func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rawTree returns a tree of these entries.
func rawTree(entries map[string]entry) []byte {
	var edits []edit
	for _, e := range entries {
		edits = append(edits, edit{name: e.name, dir: e.mode == filemode.Dir, to: &e})
	}
	raw, _, err := (&tree{}).splice(edits)
	if err != nil {
		panic(err)
	}
	return raw
}

// TestCopiesOfAnySize has ranges around the sizes that the encoding treats
// apart.
func TestCopiesOfAnySize(t *testing.T) {
	base := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	for _, size := range []int{1, 255, 256, 0xffff, 0x10000, 0x10001, 0x1ffff, 0x20000, 300_000} {
		for _, from := range []int{0, 1, 255, 0x100, 0x10000, 0x4e00} {
			if from+size > len(base) {
				continue
			}
			target := append([]byte("new"), base[from:from+size]...)
			delta := deltaOf(base, target, []copied{{from: from, to: 3, size: size}})
			if got, err := packfile.PatchDelta(base, delta); err != nil || !bytes.Equal(got, target) {
				t.Errorf("from %d size %d: %v", from, size, err)
			}
		}
	}
}

// TestFileNextToOthers adds a manifest to a directory with similar files, with different files, and
// without files, and checks how it is sent.
func TestFileNextToOthers(t *testing.T) {
	blob := func(content []byte) plumbing.Hash { return plumbing.ComputeHash(plumbing.BlobObject, content) }
	target := manifest("default-0005")
	for name, test := range map[string]struct {
		files  map[string][]byte
		absent string
		on     string
	}{
		"alone":                 {files: map[string][]byte{}},
		"before it":             {files: map[string][]byte{"default-0004.yaml": manifest("default-0004"), "kustomization.yaml": []byte("resources: []")}, on: "default-0004.yaml"},
		"after it":              {files: map[string][]byte{"a.yaml": []byte("resources: []"), "default-0006.yaml": manifest("default-0006")}, on: "default-0006.yaml"},
		"the nearest is absent": {files: map[string][]byte{"default-0003.yaml": manifest("default-0003"), "default-0004.yaml": manifest("default-0004")}, absent: "default-0004.yaml", on: "default-0003.yaml"},
		"much larger":           {files: map[string][]byte{"default-0004.yaml": bytes.Repeat(manifest("default-0004"), 9)}},
		"unlike":                {files: map[string][]byte{"default-0004.yaml": bytes.Repeat([]byte("nothing like it"), 300)}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuilder(t.Context(), &store{objects: newObjects("")}, author{})
			entries := map[string]entry{}
			for file, content := range test.files {
				entries[file] = entry{name: file, mode: filemode.Regular, hash: blob(content)}
				if file != test.absent {
					b.store.blobs[blob(content)] = content
				}
			}
			old, err := parseTree(rawTree(entries))
			must(t, err)
			i, _ := old.find("default-0005.yaml", false)
			b.storeFile(old, i, false, target)
			o := b.list[0]
			if test.on == "" {
				if o.delta != nil {
					t.Errorf("a delta on %s", o.base)
				}
				return
			}
			if want := blob(test.files[test.on]); o.base != want || len(o.delta) > 100 {
				t.Fatalf("%d bytes on %s, want some on %s", len(o.delta), o.base, want)
			}
			if got, err := packfile.PatchDelta(test.files[test.on], o.delta); err != nil || !bytes.Equal(got, target) {
				t.Errorf("the delta makes %q (%v)", got, err)
			}
		})
	}
}

// fetched is a pack that has come.
func fetched(data []byte) *remote.Download {
	return &remote.Download{ReaderAt: bytes.NewReader(data), Size: int64(len(data))}
}

func TestPackRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		external := rawObject{plumbing.TreeObject, rawTree(map[string]entry{"a": {name: "a", mode: filemode.Regular}})}
		target := append(slices.Clone(external.data), 'x')
		// The delta before anything it could be made on.
		objects := []newObject{{
			hash: plumbing.ComputeHash(plumbing.TreeObject, target), rawObject: rawObject{plumbing.TreeObject, target},
			base:  plumbing.ComputeHash(plumbing.TreeObject, external.data),
			delta: deltaOf(external.data, target, []copied{{0, 0, len(external.data)}}),
		}}
		contents := rapid.SliceOfDistinct(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }).Draw(t, "contents")
		for _, c := range contents {
			objects = append(objects, newObject{hash: plumbing.ComputeHash(plumbing.BlobObject, c), rawObject: rawObject{plumbing.BlobObject, c}})
		}
		for _, thin := range []bool{true, false} {
			data := writePack(objects, thin)
			p, err := indexPack(t.Context(), fetched(data), func(plumbing.Hash) (rawObject, bool) { return external, true })
			must(t, err)
			for _, o := range objects {
				if got, ok, err := p.object(o.hash); !ok || err != nil || got.kind != o.kind || !bytes.Equal(got.data, o.data) {
					t.Fatalf("object %s: %v, %v", o.hash, ok, err)
				}
			}
		}
	})
}

func FuzzIndexPack(f *testing.F) {
	f.Add(writePack([]newObject{{rawObject: rawObject{plumbing.BlobObject, []byte("hello")}}}, false))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := indexPack(t.Context(), fetched(data), nil)
		if err != nil {
			return
		}
		for h := range p.all() {
			if _, ok, err := p.object(h); !ok || err != nil {
				t.Errorf("an object that was indexed cannot be read: %v", err)
			}
		}
	})
}

func FuzzParseTree(f *testing.F) {
	f.Add([]byte("100644 a\x00aaaaaaaaaaaaaaaaaaaa40000 b\x00bbbbbbbbbbbbbbbbbbbb"))
	f.Add([]byte("4 \x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		tree, err := parseTree(raw)
		if err != nil {
			return
		}
		for i := range tree.len() {
			tree.at(i)
			tree.isDir(i)
		}
		if again, _, err := tree.splice(nil); err != nil || !bytes.Equal(again, raw) {
			t.Errorf("splicing nothing gives %q, %v", again, err)
		}
	})
}
