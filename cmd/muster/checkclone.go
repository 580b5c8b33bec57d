package main

import (
	"bytes"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"muster/generator/finding"
	"muster/generator/ledger"

	"github.com/go-git/go-git/v5/plumbing"
)

// readFiles is a directory that records which of its files were read.
type readFiles struct {
	fs.FS
	mu    sync.Mutex
	names map[string]bool
}

func (r *readFiles) note(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.names[name] = true
	}
}

// ReadFile reads a file, and records it.
func (r *readFiles) ReadFile(name string) ([]byte, error) {
	data, err := fs.ReadFile(r.FS, name)
	r.note(name, err)
	return data, err
}

// Open opens a file or directory, and records a file.
func (r *readFiles) Open(name string) (fs.File, error) {
	f, err := r.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && !info.IsDir() {
		r.note(name, nil)
	}
	return f, nil
}

// ReadDir lists a directory.
func (r *readFiles) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(r.FS, name) }

// Stat describes a file.
func (r *readFiles) Stat(name string) (fs.FileInfo, error) { return fs.Stat(r.FS, name) }

// cloned is what git contains of a directory: its index, which the next commit has.
type cloned struct {
	// top is the top of the clone, and below the path from there to the directory.
	top, below string
	// modes are those of the files, by path.
	modes map[string]string
	// folded are the paths without case, and ignored the files that git leaves out.
	folded  map[string][]string
	ignored map[string]bool
	// filtered are files that git stores in another form, and hidden those with changes that git ignores.
	filtered, hidden map[string]bool
	// blobs are the IDs of the files in the index, staged those that the last commit has not, and unpushed counts
	// the commits that the upstream lacks.
	blobs    map[string]string
	staged   map[string]bool
	unpushed int
}

// clonedIn returns what git contains of a directory of a clone; nil if it is in none, or the git
// program is missing.
func (p program) clonedIn(dir string) *cloned {
	top, err := p.CloneAt(dir)
	if err != nil {
		if strings.Contains(err.Error(), "dubious ownership") {
			p.PrintMessage("whether git contains these files was not checked, because git does not read the clone: %s", strings.ReplaceAll(err.Error(), "\n", " "))
		}
		return nil
	}
	if dir, err = filepath.Abs(dir); err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	below, relErr := filepath.Rel(top, dir)
	if err != nil || relErr != nil || !filepath.IsLocal(below) {
		return nil
	}
	below = filepath.ToSlash(below)
	list := func(yield func(string), args ...string) {
		out := p.GitOutput(top, append([]string{"ls-files", "-z"}, args...)...)
		for line := range strings.SplitSeq(out, "\x00") {
			if line != "" {
				yield(line)
			}
		}
	}
	local := func(name string) string {
		if below == "." {
			return name
		}
		return strings.TrimPrefix(name, below+"/")
	}
	c := &cloned{top: top, below: below, modes: map[string]string{}, folded: map[string][]string{}, ignored: map[string]bool{}, filtered: map[string]bool{}, hidden: map[string]bool{}, blobs: map[string]string{}, staged: map[string]bool{}}
	list(func(line string) {
		stat, name, _ := strings.Cut(line, "\t")
		name = local(name)
		fields := strings.Fields(stat) // mode, blob, stage
		c.modes[name], c.blobs[name] = fields[0], fields[1]
		if fold := strings.ToLower(name); !slices.Contains(c.folded[fold], name) {
			c.folded[fold] = append(c.folded[fold], name)
		}
	}, "--stage", "--", below)
	list(func(line string) {
		tag, name, _ := strings.Cut(line, " ")
		if tag == "S" || tag == strings.ToLower(tag) { // skip-worktree, assume-unchanged (git-ls-files(1), -t and -v)
			c.hidden[local(name)] = p.GitOutput(top, "hash-object", "--", name) != p.GitOutput(top, "rev-parse", ":"+name)
		}
	}, "-v", "--", below)
	list(func(name string) { c.ignored[local(name)] = true }, "--others", "--ignored", "--exclude-standard", "--", below)
	for name := range strings.SplitSeq(p.GitOutput(top, "diff-index", "--cached", "--name-only", "-z", "HEAD", "--", below), "\x00") {
		c.staged[local(name)] = true
	}
	c.unpushed, _ = strconv.Atoi(p.GitOutput(top, "rev-list", "--count", "@{upstream}..HEAD", "--", below))
	for _, attribute := range []string{"filter", "working-tree-encoding"} {
		list(func(name string) { c.filtered[local(name)] = true }, "--cached", "--", below, ":(exclude,top,attr:!"+attribute+")", ":(exclude,top,attr:-"+attribute+")")
	}
	return c
}

// printUnpublished prints what muster does not see of the files that were read: it reads what is pushed.
func (p program) printUnpublished(c *cloned, tree fs.FS, read map[string]bool) {
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if content, err := fs.ReadFile(tree, name); err == nil && (c.staged[name] || c.blobs[name] != "" && !c.filtered[name] && blobOf(content) != c.blobs[name]) {
			changed = append(changed, name)
		}
	}
	switch len(changed) {
	case 0:
	case 1:
		p.PrintMessage("%s differs from the last commit; muster reads what is pushed: commit and push it", changed[0])
	default:
		p.PrintMessage("%d files differ from the last commit, such as %s; muster reads what is pushed: commit and push them", len(changed), changed[0])
	}
	if c.unpushed > 0 {
		p.PrintMessage("the clone has %s that its upstream lacks; muster reads what is pushed: git push", ledger.Count(c.unpushed, "commit"))
	}
}

// blobOf returns the ID of a file in git, which does not run the filters of the clone. Lines may end as in DOS.
func blobOf(content []byte) string {
	return plumbing.ComputeHash(plumbing.BlobObject, bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n"))).String()
}

// differences returns a finding for each file that was read from a work tree and that git does not
// contain, or not with this content: muster and the syncer read git. What is new as a whole, such as
// an overlay whose policy is not in git yet, has none.
func (c *cloned) differences(tree fs.FS, read map[string]bool) []finding.Finding {
	var findings []finding.Finding
	said := map[string]bool{}
	add := func(file, problem, remedy string) {
		if !said[file] {
			said[file] = true
			findings = append(findings, finding.Finding{File: file, Problem: problem, Remedy: remedy})
		}
	}
	var added []string // overlays that are not in git yet
	begun := false
	for name := range read {
		if path.Base(name) != "scaling.yaml" {
			continue
		}
		if _, there := c.modes[name]; there {
			begun = true
		} else {
			added = append(added, path.Dir(name)+"/")
		}
	}
	isNew := func(name string) bool {
		return !begun || slices.ContainsFunc(added, func(dir string) bool { return strings.HasPrefix(name, dir) })
	}
	for _, name := range c.nextToOverlays(tree, read) {
		read[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if path.Base(path.Dir(name)) == syncerDirectory { // read by people alone
			continue
		}
		if at, kind := c.foreign(tree, name); at != "" {
			switch kind {
			case "submodule":
				add(at, "is a repository of its own: of a submodule, git contains the commit, and none of its files", "copy the files that the overlays need into the repository")
			case "link":
				add(at, "is a symbolic link, which muster does not follow in git", "write the file itself, or name the other one")
			}
			continue
		}
		_, tracked := c.modes[name]
		others := slices.DeleteFunc(slices.Clone(c.folded[strings.ToLower(name)]), func(other string) bool { return other == name })
		switch {
		case len(others) > 0 && tracked:
			add(name, "differs from "+others[0]+" in case alone: some file systems have only one of them", "rename one")
		case len(others) > 0:
			add(name, "is "+others[0]+" in git: a file system that distinguishes case does not have this name", "git mv it to the name that the files use")
		case c.ignored[name]:
			add(name, "is not in git, because git ignores it", "remove the pattern from .gitignore, or git add --force it")
		case !tracked && !isNew(name):
			add(name, "is not in git", "git add it, or remove it")
		case c.hidden[name]:
			add(name, "has changes that git ignores", "git update-index --no-skip-worktree "+name+" or --no-assume-unchanged, and commit it")
		case c.filtered[name]:
			add(name, "is in git as its filter or encoding stores it, which muster and the syncer cannot read", "except it in .gitattributes, and git add --renormalize it")
		}
	}
	return findings
}

// nextToOverlays returns the links and submodules in the directories that contain overlays: none is read as
// an overlay.
func (c *cloned) nextToOverlays(tree fs.FS, read map[string]bool) (names []string) {
	for name := range read {
		if path.Base(name) != "scaling.yaml" {
			continue
		}
		dir := path.Dir(path.Dir(name))
		entries, _ := fs.ReadDir(tree, dir)
		for _, e := range entries {
			at := path.Join(dir, e.Name())
			if mode := c.modes[at]; mode == "120000" || mode == "160000" || e.Type()&fs.ModeSymlink != 0 {
				names = append(names, at)
			}
		}
	}
	return names
}

// foreign returns the part of a path that is a repository of its own, or a symbolic link.
func (c *cloned) foreign(tree fs.FS, name string) (at, kind string) {
	for i, char := range name + "/" {
		if char != '/' {
			continue
		}
		part := name[:i]
		mode := c.modes[part]
		if mode == "160000" {
			return part, "submodule"
		}
		if info, err := fs.Lstat(tree, part); mode == "120000" || err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return part, "link"
		}
		if _, err := fs.Stat(tree, path.Join(part, ".git")); err == nil {
			return part, "submodule"
		}
	}
	return "", ""
}
