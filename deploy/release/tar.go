package main

import (
	"archive/tar"
	"cmp"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"
)

// file is a file or a directory in an archive: owned by root unless said.
type file struct {
	path    string // without a leading slash
	mode    fs.FileMode
	content []byte
	owner   int // of user and group
}

// withParents adds the directories that files are in, sorted by path.
func withParents(files []file) []file {
	known := map[string]bool{".": true}
	for _, f := range files {
		known[f.path] = true
	}
	all := slices.Clone(files)
	for _, f := range files {
		for dir := path.Dir(f.path); !known[dir]; dir = path.Dir(dir) {
			known[dir] = true
			all = append(all, file{path: dir, mode: fs.ModeDir | 0o755})
		}
	}
	slices.SortFunc(all, func(a, b file) int { return cmp.Compare(a.path, b.path) })
	return all
}

// writeTar writes the files with their directories, all of one time.
func writeTar(w io.Writer, files []file, at time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range withParents(files) {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.path, Size: int64(len(f.content)), Mode: int64(f.mode.Perm()),
			Uid: f.owner, Gid: f.owner, ModTime: at, Format: tar.FormatPAX,
		}
		if f.mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		if f.mode.IsDir() {
			h.Typeflag, h.Name = tar.TypeDir, f.path+"/"
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.content); err != nil {
			return err
		}
	}
	return t.Close()
}
