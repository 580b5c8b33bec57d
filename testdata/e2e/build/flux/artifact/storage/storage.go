// Package storage keeps source-controller's archives in a folder: what
// github.com/fluxcd/pkg/artifact does, which is not published as a module.
// Parts that only Helm charts, buckets and OCI repositories need refuse to work.
package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	securejoin "github.com/cyphar/filepath-securejoin"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fluxcd/pkg/artifact/config"
)

// errUnused is what the parts say that git repositories do not need.
var errUnused = errors.New("this build of source-controller has git repositories only")

// Storage is a folder of archives.
type Storage struct {
	BasePath                 string
	Hostname                 string
	ArtifactRetentionTTL     time.Duration
	ArtifactRetentionRecords int
}

// New opens the folder, which must exist.
func New(options *config.Options) (*Storage, error) {
	if info, err := os.Stat(options.StoragePath); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("invalid dir path: %s", options.StoragePath)
	}
	host := options.StorageAdvAddress
	if host == "" {
		host = options.StorageAddress
	}
	return &Storage{
		BasePath: options.StoragePath, Hostname: host,
		ArtifactRetentionTTL: options.ArtifactRetentionTTL, ArtifactRetentionRecords: options.ArtifactRetentionRecords,
	}, nil
}

// NewArtifactFor names an archive: its path and its address.
func (s Storage) NewArtifactFor(kind string, object metav1.Object, revision, file string) meta.Artifact {
	artifact := meta.Artifact{
		Path:     path.Join(strings.ToLower(kind), object.GetNamespace(), object.GetName(), file),
		Revision: revision,
	}
	s.SetArtifactURL(&artifact)
	return artifact
}

// SetArtifactURL fills in the address.
func (s Storage) SetArtifactURL(artifact *meta.Artifact) {
	if artifact.Path != "" {
		artifact.URL = "http://" + s.Hostname + "/" + strings.TrimLeft(artifact.Path, "/")
	}
}

// SetHostname returns the address under this folder's own host.
func (s Storage) SetHostname(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	parsed.Host = s.Hostname
	return parsed.String()
}

// LocalPath is where the archive is on this machine; empty when it has no path.
func (s Storage) LocalPath(artifact meta.Artifact) string {
	if artifact.Path == "" {
		return ""
	}
	local, err := securejoin.SecureJoin(s.BasePath, artifact.Path)
	if err != nil {
		return ""
	}
	return local
}

// ArtifactExist says whether the archive is there.
func (s Storage) ArtifactExist(artifact meta.Artifact) bool {
	info, err := os.Lstat(s.LocalPath(artifact))
	return err == nil && info.Mode().IsRegular()
}

// VerifyArtifact compares the archive with its digest.
func (s Storage) VerifyArtifact(artifact meta.Artifact) error {
	sum, err := digest.Parse(artifact.Digest)
	if err != nil {
		return fmt.Errorf("digest of %s: %w", artifact.Path, err)
	}
	file, err := os.Open(s.LocalPath(artifact))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	verifier := sum.Verifier()
	if _, err := io.Copy(verifier, file); err != nil {
		return err
	}
	if !verifier.Verified() {
		return fmt.Errorf("computed digest doesn't match '%s'", sum)
	}
	return nil
}

// locks has one mutex for each archive; there is one process.
var locks sync.Map

// Lock keeps others from the archive until unlock is called.
func (s Storage) Lock(artifact meta.Artifact) (unlock func(), err error) {
	lock, _ := locks.LoadOrStore(s.LocalPath(artifact), new(sync.Mutex))
	mutex := lock.(*sync.Mutex)
	mutex.Lock()
	return mutex.Unlock, nil
}

// MkdirAll makes the archive's folder.
func (s Storage) MkdirAll(artifact meta.Artifact) error {
	return os.MkdirAll(filepath.Dir(s.LocalPath(artifact)), 0o700)
}

// Remove removes the archive.
func (s Storage) Remove(artifact meta.Artifact) error { return os.Remove(s.LocalPath(artifact)) }

// RemoveAll removes the archive's folder and returns it.
func (s Storage) RemoveAll(artifact meta.Artifact) (string, error) {
	folder := filepath.Dir(s.LocalPath(artifact))
	if _, err := os.Stat(folder); err != nil {
		return "", nil
	}
	return folder, os.RemoveAll(folder)
}

// GarbageCollect removes archives beside this one that are older than the
// time that old ones are kept.
func (s Storage) GarbageCollect(_ context.Context, artifact meta.Artifact, _ time.Duration) ([]string, error) {
	current := s.LocalPath(artifact)
	entries, err := os.ReadDir(filepath.Dir(current))
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, entry := range entries {
		name := filepath.Join(filepath.Dir(current), entry.Name())
		info, err := entry.Info()
		if err != nil || name == current || !info.Mode().IsRegular() || time.Since(info.ModTime()) < s.ArtifactRetentionTTL {
			continue
		}
		if os.Remove(name) == nil {
			removed = append(removed, name)
		}
	}
	return removed, nil
}

// Copy, and the three below, are for Helm charts, buckets and includes.
func (s Storage) Copy(*meta.Artifact, io.Reader) error { return errUnused }

// CopyFromPath refuses.
func (s Storage) CopyFromPath(*meta.Artifact, string) error { return errUnused }

// CopyToPath refuses.
func (s Storage) CopyToPath(*meta.Artifact, string, string) error { return errUnused }

// Symlink refuses.
func (s Storage) Symlink(meta.Artifact, string) (string, error) { return "", errUnused }
