package generator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"strings"

	"muster/generator/ledger"
	"muster/gitops/branch"
)

// Repository is the fleet repository.
type Repository interface {
	// Head returns the branch's head and its tree.
	Head(ctx context.Context) (branch.Head, error)
	// Commit writes one commit per operation on top of the head, all of them or none, and
	// returns the last one as the new head. Its errors are those of [branch.Writer].
	Commit(ctx context.Context, head branch.Head, ops []ledger.Operation) (branch.Head, error)
	// Limits returns what a single operation should not exceed; a repair may.
	Limits() branch.Limits
	branch.History
}

// FleetTag returns the tag that distinguishes agents of one fleet repository from those of
// another that has an overlay of the same name: a hash of the repository's host and path and of
// the directory of overlays. The means of access (https or ssh, the user, the port, a final
// .git) makes no difference.
func FleetTag(repository, overlays string) string {
	place := repository
	if u, err := url.Parse(repository); err == nil && u.Host != "" {
		place = u.Hostname() + "/" + u.Path
	} else if host, file, scp := strings.Cut(repository, ":"); scp && !strings.Contains(host, "/") {
		place = host[strings.LastIndexByte(host, '@')+1:] + "/" + file
	}
	place = strings.TrimSuffix(path.Clean("/"+strings.ToLower(place)), ".git")
	sum := sha256.Sum256([]byte(place + "\n" + path.Clean("/"+overlays)))
	return hex.EncodeToString(sum[:4])
}

// Fleet is the [Repository] of a [branch.Writer], with one commit per operation.
type Fleet struct {
	branch.Writer
	// Version is muster's own, for the trailers.
	Version string
	// Style is the style of the messages; the zero value is the default.
	Style ledger.Style
}

// Commit writes the operations onto the head in one push.
func (f Fleet) Commit(ctx context.Context, head branch.Head, ops []ledger.Operation) (branch.Head, error) {
	commits := make([]branch.Draft, len(ops))
	for i, a := range ops {
		commits[i] = branch.Draft{Message: f.Style.Message(a, f.Version), At: a.Decision.At(), Changes: a.Changes}
	}
	return f.Push(ctx, head, commits)
}
