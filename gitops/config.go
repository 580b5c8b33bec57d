// Package gitops is the fleet repository as muster uses it: acts go in, commits
// come out, one for each. It says what muster reads of the repository, which
// names it writes under, and what a user can do about an error of git. The
// protocol is that of package git.
package gitops

import (
	"fmt"
	"log/slog"
	"path"
	"time"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/git/remote"
)

// Config says which repository is used and as whom. URL is required.
type Config struct {
	// URL is the repository's address in any form git accepts: https, http,
	// ssh and git URLs, user@host:path, file URLs, and plain paths.
	URL string
	// PushURL is where pushes go, where that is elsewhere; empty: to URL.
	PushURL string
	// Branch is the branch that is read and written; empty means main.
	Branch string
	// Overlays is the directory that is read ahead, with everything below it; empty means overlays.
	// Other files are read on demand.
	Overlays string
	// AuthorName and AuthorEmail are the author and committer of every commit;
	// empty means muster and muster@localhost.
	AuthorName, AuthorEmail string
	// Credentials are how muster and the server prove who they are.
	Credentials remote.Credentials
	// Sign makes the signature of a commit; nil leaves commits unsigned.
	Sign git.Signer
	// Timeout bounds each exchange with the server; zero means two minutes.
	Timeout time.Duration
	// TempDir is a directory for temporary files, as [git.Config] has it; empty: none.
	TempDir string
	// Log gets one message for each way in which reading costs more than necessary; nil discards
	// it.
	Log *slog.Logger
}

// DefaultTimeout bounds an exchange with the server.
const DefaultTimeout = git.DefaultTimeout

// baseDir is the directory of a fleet repository with the files that its overlays build on. It is
// next to the directory of the overlays.
const baseDir = "base"

// client fills in what was left out and returns the configuration of the git
// client.
func (c Config) client() (git.Config, error) {
	for _, d := range []struct {
		field *string
		value string
	}{{&c.Branch, "main"}, {&c.Overlays, "overlays"}, {&c.AuthorName, "muster"}, {&c.AuthorEmail, "muster@localhost"}} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	overlays := path.Clean(c.Overlays)
	if err := branch.CheckPath(overlays); err != nil {
		return git.Config{}, fmt.Errorf("the overlays directory: %w", err)
	}
	return git.Config{
		URL:         c.URL,
		PushURL:     c.PushURL,
		Branch:      c.Branch,
		ReadAhead:   overlays,
		ReadFirst:   []string{path.Join(path.Dir(overlays), baseDir)},
		AuthorName:  c.AuthorName,
		AuthorEmail: c.AuthorEmail,
		Credentials: c.Credentials,
		Sign:        c.Sign,
		Timeout:     c.Timeout,
		TempDir:     c.TempDir,
		Log:         c.Log,
	}, nil
}
