package github

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"muster/gitops/branch"
)

// change is a changed file.
type change struct {
	path string
	// mode is that of a tree's entry, such as 100644.
	mode string
	// content is the whole file; nil removes it.
	content []byte
}

// draft is a commit without changes that exist already.
type draft struct {
	message string
	changes []change
}

// chainFiles are the files after some commits of a chain.
type chainFiles struct {
	tree    fs.FS
	changed map[string]change
}

// drafts returns the commits of a chain that change something. GitHub refuses to remove missing files,
// and makes commits that change nothing.
func drafts(tree fs.FS, commits []branch.Draft) ([]draft, error) {
	files := chainFiles{tree: tree, changed: map[string]change{}}
	var all []draft
	for _, c := range commits {
		d, err := files.draft(c)
		if err != nil {
			return nil, err
		}
		if len(d.changes) > 0 {
			all = append(all, d)
		}
	}
	return all, nil
}

// draft returns the changes of a commit. Removals are first, so that a file can replace a directory, and
// a directory a file, in any parts.
func (f *chainFiles) draft(c branch.Draft) (draft, error) {
	d := draft{message: c.Message}
	seen := map[string]bool{}
	for _, c := range c.Changes {
		if err := branch.CheckPath(c.Path); err != nil {
			return draft{}, fmt.Errorf("%w: %w", branch.ErrInvalid, err)
		}
		if seen[c.Path] {
			return draft{}, fmt.Errorf("%w: path %q is changed twice in one commit", branch.ErrInvalid, c.Path)
		}
		seen[c.Path] = true
		old, exists, err := f.file(c.Path)
		if err != nil {
			return draft{}, err
		}
		if c.Content == nil && !exists || c.Content != nil && exists && bytes.Equal(old.content, c.Content) {
			continue
		}
		d.changes = append(d.changes, change{c.Path, old.mode, c.Content})
	}
	for _, c := range d.changes {
		f.changed[c.path] = c
	}
	slices.SortFunc(d.changes, func(a, b change) int {
		if (a.content == nil) != (b.content == nil) {
			return map[bool]int{true: -1, false: 1}[a.content == nil]
		}
		return strings.Compare(a.path, b.path)
	})
	return d, nil
}

// file returns a file, or the mode of a new one.
func (f *chainFiles) file(path string) (c change, exists bool, err error) {
	both := func(path string) error {
		return fmt.Errorf("%w: %s cannot be a file and a directory at once", branch.ErrInvalid, path)
	}
	for i := range path {
		if path[i] != '/' {
			continue
		}
		above, touched := f.changed[path[:i]]
		info, err := fs.Stat(f.tree, path[:i])
		if touched && above.content != nil || !touched && err == nil && !info.IsDir() {
			return change{}, false, both(path[:i])
		}
	}
	plain := change{path: path, mode: "100644"}
	if c, touched := f.changed[path]; touched {
		if c.content == nil {
			return plain, false, nil
		}
		return c, true, nil
	}
	info, err := fs.Stat(f.tree, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return plain, false, nil
	case err != nil:
		return change{}, false, err
	case info.IsDir():
		return change{}, false, both(path)
	case info.Mode()&fs.ModeType != 0:
		return change{}, false, fmt.Errorf("%w: %s is not a regular file", branch.ErrInvalid, path)
	case info.Mode()&0o111 != 0:
		plain.mode = "100755"
	}
	plain.content, err = fs.ReadFile(f.tree, path)
	return plain, true, err
}

// Limits of one request: GitHub documents none, but fails with 422 or 502 from some 200 files or 2.5 MB
// (codesandbox/codesandbox-client, issue 8614; ir-engine/ir-engine, pull request 647, which writes 150
// at once).
const (
	maxFiles = 150
	maxBytes = 2_000_000
)

// parts splits changes so that each part is within the limits of a request. A larger file is a part of
// its own.
func parts(changes []change) [][]change {
	var all [][]change
	size := 0
	for _, c := range changes {
		last := len(all) - 1
		if last < 0 || len(all[last]) == maxFiles || size+len(c.content) > maxBytes {
			all, size, last = append(all, nil), 0, last+1
		}
		all[last] = append(all[last], c)
		size += len(c.content)
	}
	return all
}

// headline splits a message for createCommitOnBranch: its first line, and the text after the empty line
// that follows. whole reports whether only the final newline is lost.
func (d draft) headline() (first, body string, whole bool) {
	first, body, _ = strings.Cut(strings.TrimRight(d.message, "\n"), "\n\n")
	ends := func(s string) bool { return s == strings.TrimSpace(s) }
	return first, body, first != "" && !strings.ContainsAny(first, "\r\n") && ends(first) && ends(body)
}

// single reports whether createCommitOnBranch can make the commit: it has no modes, and is not
// documented to keep those of files.
func (d draft) single() bool {
	moded := slices.ContainsFunc(d.changes, func(c change) bool { return c.content != nil && c.mode != "100644" })
	_, _, whole := d.headline()
	return whole && !moded && len(parts(d.changes)) == 1
}
