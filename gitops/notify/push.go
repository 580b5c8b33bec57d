// Package notify notifies syncers that a push has landed, so that they need not wait for their next
// poll of the repository. Notifications are optional: a syncer that misses one finds the push at
// its next poll.
//
//	Landing ──Push──▶ Notifier ──HTTP──▶ one Receiver for each cluster
package notify

import "slices"

// Push is one push that has landed, or several that followed each other.
type Push struct {
	// Before and After are the branch's head before and after it, in hexadecimal.
	Before, After string
	// Written and Removed are the paths of the files that it changed, from the top of
	// the repository. Where Unlisted is set it is not known which files those are.
	Written, Removed []string
	Unlisted         bool
}

// maxPaths is the maximum number of files in a notification. A receiver has to examine all files if
// there are more. GitHub lists the files of 2,048 commits at most
// (docs.github.com/webhooks/webhook-events-and-payloads, "push").
const maxPaths = 2048

// then is the push and the next one as one. Where others pushed in between it is not
// known which files changed from the first head to the last one. To list some of them
// would be worse than to list none: Argo CD takes manifests that it has cached for
// those of the new head where no file that it looks at is listed (argo-cd,
// util/webhook/webhook.go, storePreviouslyCachedManifests).
func (p Push) then(next Push) Push {
	all := Push{
		Before: p.Before, After: next.After, Unlisted: p.Unlisted || next.Unlisted || p.After != next.Before,
		Written: union(p.Written, next.Written), Removed: union(p.Removed, next.Removed),
	}
	return all.bounded()
}

// bounded is the push without its list of files, where it has none or that is too long.
func (p Push) bounded() Push {
	if p.Unlisted || len(p.Written)+len(p.Removed) > maxPaths {
		p.Written, p.Removed, p.Unlisted = nil, nil, true
	}
	return p
}

// paths are all files that the push changed, sorted.
func (p Push) paths() []string { return union(p.Written, p.Removed) }

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
