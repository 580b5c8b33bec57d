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

// FleetTag makes the tag by which agents of one fleet repository are told from
// those of another that has an overlay of the same name: a hash of the
// repository's host and path and of the directory of overlays. How it is reached
// (https or ssh, the user, the port, a final .git) makes no difference.
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

// Fleet is the fleet repository as a tick sees it: a [Repository] of a [branch.Writer],
// with one commit per act.
type Fleet struct {
	branch.Writer
	// Version is muster's own, for the trailers.
	Version string
	// Style is how the messages are written; the zero value is muster's own.
	Style ledger.Style
}

// Commit writes the acts onto the tip in one push.
func (f Fleet) Commit(ctx context.Context, tip branch.Tip, acts []ledger.Act) (branch.Tip, error) {
	commits := make([]branch.Draft, len(acts))
	for i, a := range acts {
		commits[i] = branch.Draft{Message: f.Style.Message(a, f.Version), At: a.Decision.At(), Changes: a.Changes}
	}
	return f.Push(ctx, tip, commits)
}
