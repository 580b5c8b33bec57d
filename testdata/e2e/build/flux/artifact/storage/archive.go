package storage

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/sourceignore"
	"github.com/fluxcd/pkg/sourceignore/gitignore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fluxcd/pkg/artifact/digest"
)

// ArchiveFileFilter says whether a file is left out.
type ArchiveFileFilter func(path string, info os.FileInfo) bool

// SourceIgnoreFilter leaves out what .sourceignore says, and .git.
func SourceIgnoreFilter(patterns []gitignore.Pattern, domain []string) ArchiveFileFilter {
	matcher := sourceignore.NewDefaultMatcher(patterns, domain)
	if len(patterns) > 0 {
		matcher = sourceignore.NewMatcher(append(sourceignore.VCSPatterns(domain), patterns...))
	}
	return func(path string, info os.FileInfo) bool {
		return matcher.Match(strings.Split(path, string(filepath.Separator)), info.IsDir())
	}
}

// Archive writes the folder as a tar.gz and fills in the artifact's digest,
// size and time. The same files make the same archive.
func (s Storage) Archive(artifact *meta.Artifact, folder string, filter ArchiveFileFilter) error {
	local := s.LocalPath(*artifact)
	file, err := os.CreateTemp(filepath.Split(local))
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	digester := digest.Canonical.Digester()
	size := new(counter)
	if err := writeTar(io.MultiWriter(digester.Hash(), file, size), folder, filter); err != nil {
		_ = file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), local); err != nil {
		return err
	}
	artifact.Digest = digester.Digest().String()
	artifact.LastUpdateTime = metav1.Now()
	artifact.Size = (*int64)(size)
	return nil
}

func writeTar(out io.Writer, folder string, filter ArchiveFileFilter) error {
	zipped := gzip.NewWriter(out)
	archive := tar.NewWriter(zipped)
	err := filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() && !info.IsDir() || filter != nil && filter(path, info) {
			return err
		}
		relative, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		return add(archive, path, relative, info)
	})
	if err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zipped.Close()
}

func add(archive *tar.Writer, path, name string, info fs.FileInfo) error {
	header := &tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o750}
	if info.Mode().IsRegular() {
		header.Typeflag, header.Mode, header.Size = tar.TypeReg, 0o600|int64(info.Mode()&0o100), info.Size()
	}
	if err := archive.WriteHeader(header); err != nil || info.IsDir() {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	_, err = io.Copy(archive, file)
	return err
}

// counter counts the bytes that are written to it.
type counter int64

// Write counts.
func (c *counter) Write(bytes []byte) (int, error) {
	*c += counter(len(bytes))
	return len(bytes), nil
}
