// Package notify notifies syncers that a push has landed, so that they need not wait for their next
// poll of the repository. Notifications are optional: a syncer that misses one finds the push at
// its next poll.
//
//	NewPush ──Push──▶ Notifier ──HTTP──▶ one Receiver for each cluster
package notify

import (
	"slices"

	"muster/gitops/branch"
)

// Push is a push that has landed, or several consecutive ones.
type Push struct {
	// Before and After are the heads of the branch before and after it, in hexadecimal.
	Before, After string
	// Written and Removed are the paths of the changed files, relative to the top of the
	// repository. Unlisted reports whether they are unknown.
	Written, Removed []string
	Unlisted         bool
}

// NewPush returns a push that has landed, with its files. A file that was written and then removed is in
// both lists.
func NewPush(before, after string, changes []branch.Change) Push {
	p := Push{Before: before, After: after}
	for _, c := range changes {
		if c.Content == nil {
			p.Removed = append(p.Removed, c.Path)
		} else {
			p.Written = append(p.Written, c.Path)
		}
	}
	p.Written, p.Removed = union(p.Written, nil), union(p.Removed, nil)
	return p.bounded()
}

// maxPaths is the maximum number of files in a notification. A receiver has to examine all files if
// there are more. GitHub lists the files of 2,048 commits at most
// (docs.github.com/webhooks/webhook-events-and-payloads, "push").
const maxPaths = 2048

// then returns the push and the next one as one. If others pushed in between, the changed files are
// unknown. An incomplete list would be worse than none: Argo CD uses cached manifests for the new
// head if none of the listed files belongs to an application (argo-cd, util/webhook/webhook.go,
// storePreviouslyCachedManifests).
func (p Push) then(next Push) Push {
	all := Push{
		Before: p.Before, After: next.After, Unlisted: p.Unlisted || next.Unlisted || p.After != next.Before,
		Written: union(p.Written, next.Written), Removed: union(p.Removed, next.Removed),
	}
	return all.bounded()
}

// bounded returns the push without its list of files if that is unknown or too long.
func (p Push) bounded() Push {
	if p.Unlisted || len(p.Written)+len(p.Removed) > maxPaths {
		p.Written, p.Removed, p.Unlisted = nil, nil, true
	}
	return p
}

// paths returns all files that the push changed, sorted.
func (p Push) paths() []string { return union(p.Written, p.Removed) }

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
