package plan

import (
	"crypto/sha256"
	"encoding/hex"
)

// Identity identifies the fleet of an overlay: its agents carry ID in their tag "muster=". state.yaml
// has it from muster's first commit to the overlay on. Neither the repository's address nor, from then
// on, a name is part of it. The JSON tags must not change. The zero value is unknown.
type Identity struct {
	// ID is the identifier; see [NewID].
	ID string `json:"id"`
	// Overlay and Branch are the overlay's directory and the branch that the identifier was last
	// confirmed for. Another overlay or branch with it is a copy while this one exists; otherwise it
	// was renamed.
	Overlay string `json:"overlay"`
	Branch  string `json:"branch,omitempty"`
	// CopiedFrom is the identifier of the original if this overlay is a copy that still has
	// dispatches of the original; otherwise empty.
	CopiedFrom string `json:"copiedFrom,omitempty"`
}

// NewID returns the identifier of an overlay that has none, or is a copy. It depends on the commit that
// is decided on, so that writers that decide on the same commit derive the same one.
func NewID(commit, branch, overlay string) string {
	sum := sha256.Sum256([]byte(commit + "\n" + branch + "\n" + overlay))
	return hex.EncodeToString(sum[:5])
}

// Copied reports whether the overlay is a copy, and a dispatch in its directory was ordered by the
// original.
func (o *Overlay) Copied(d Dispatch) bool {
	return o.Identity.CopiedFrom != "" && o.orderedByOther(d)
}

// drifted reports whether the manifest of a dispatch was edited. In a copy of the overlay it does not
// matter.
func (o *Overlay) drifted(d Dispatch) bool { return d.Edited && !o.Copied(d) }

// former reports whether a dispatch was ordered under a former identifier of the overlay: its agents
// are recognised only while it is in git.
func (o *Overlay) former(d Dispatch) bool {
	return o.Identity.CopiedFrom == "" && o.orderedByOther(d)
}

// orderedByOther reports whether a dispatch has another identifier than the overlay.
func (o *Overlay) orderedByOther(d Dispatch) bool {
	id, known := TagValue(d.Tags, TagIdentity)
	return known && id != o.Identity.ID
}

// kept returns the identity that is written to state.yaml. Once the last dispatch that was copied has
// left, nothing is a copy any more.
func (o *Overlay) kept() Identity {
	id := o.Identity
	for _, d := range o.Dispatches {
		if o.Copied(d) {
			return id
		}
	}
	id.CopiedFrom = ""
	return id
}
