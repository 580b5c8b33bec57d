package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Overlay is one directory of the fleet repository: the policy for one queue
// on one Kubernetes cluster, and the dispatches that have not been retired.
type Overlay struct {
	// Name is the overlay's path below the overlays directory, as in
	// "default" or "linux/large".
	Name string
	// Fleet tells the fleet repository apart from others of the same Buildkite
	// organisation that may have an overlay of the same name; empty where it is
	// not known, and all agents with the overlay's tag are taken for its own.
	Fleet string
	// Former are the slugs that the overlay had before its directory was renamed,
	// and that no other overlay has: agents that were ordered under them are its
	// own.
	Former []string
	// Policy is what its people ask for.
	Policy Policy
	// Dispatches are the manifests in git, ordered by ID.
	Dispatches []Dispatch
	// Template stands for the template that dispatches are stamped from now; empty
	// where it is not known.
	Template string
	// State is what was remembered for the next decision.
	State State
	// Suspended says why the overlay is left alone: a template that does not
	// build, a dispatch that cannot be read. Zero when its files are valid.
	Suspended Suspension
	// Refused says why nothing is dispatched although the files can be read: the
	// Kubernetes API server would refuse the Job. Zero when it would not.
	Refused Suspension
}

// Slug is the overlay's name as its agents carry it in their tag "overlay="
// and as its dispatches are named: lower case letters, digits and dashes, at
// most 40. A name that must be changed to fit ends in six digits of its hash,
// so that two overlays never share a slug.
func (o Overlay) Slug() string { return Slug(o.Name) }

// Slug returns the slug of an overlay's name; see [Overlay.Slug].
func Slug(name string) string {
	const longest = 40
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, name)
	clean = strings.Trim(clean, "-")
	if clean == name && len(clean) <= longest {
		return clean
	}
	sum := sha256.Sum256([]byte(name))
	suffix := hex.EncodeToString(sum[:3])
	if len(clean) > longest-7 {
		clean = strings.TrimRight(clean[:longest-7], "-")
	}
	if clean == "" {
		return suffix
	}
	return clean + "-" + suffix
}
