// Package verification recomputes the decision and the files of every commit by muster, and
// compares both byte for byte with what is in git.
//
//	log ──Config.Verify──▶ Findings, one for each commit that is muster's or touches its files
//
// The decision is made by [muster/generator/plan], and its files by
// [generator.Render], as they were then. What a message says to people is not compared.
package verification

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/gitops/branch"
)

// Verdict is what is found of a commit.
type Verdict string

const (
	// Follows is the verdict if replaying the decision from the parent and the trailers reproduces the commit.
	Follows Verdict = "follows"
	// Repair is the verdict if the commit repairs the directory that muster owns, changes nothing
	// else and leaves nothing to be repaired; the dispatches that it writes are those that
	// were ordered. What it went by is not in git.
	Repair Verdict = "repair"
	// ByHand is found where the trailers follow, and the files are others than those of the decision.
	ByHand Verdict = "by-hand"
	// Forged is the verdict if the trailers do not follow, or the commit changes what its
	// operation does not change.
	Forged Verdict = "forged"
	// Malformed is found where it was muster's and cannot be read.
	Malformed Verdict = "damaged"
	// OtherVersion is found where another version made it, and this one makes it otherwise.
	OtherVersion Verdict = "other-version"
	// Unknown is found where the repository does not have what it was decided on.
	Unknown Verdict = "unknown"
	// People is found where somebody changed muster's files in a commit of their own.
	People Verdict = "people"
)

// Failed reports whether muster wrote a commit with this verdict and its content does not follow
// from its inputs.
func (v Verdict) Failed() bool { return v == ByHand || v == Forged || v == Malformed }

// Confirmed reports whether a commit with the verdict was reproduced, or does not claim to be
// muster's. Of a repair it confirms only what git can prove.
func (v Verdict) Confirmed() bool { return v == Follows || v == Repair || v == People }

// Finding is what is found of one commit.
type Finding struct {
	// Commit is its identifier, Author and Email who wrote it by its own words, and At when.
	Commit string    `json:"commit"`
	Author string    `json:"author"`
	Email  string    `json:"email"`
	At     time.Time `json:"at"`
	// Overlay is the overlay's name and Act what was done; empty where it is not known.
	Overlay   string      `json:"overlay,omitempty"`
	Operation ledger.Kind `json:"operation,omitempty"`
	// Version is the version of muster that the commit names, and Fleet the fleet tag that its
	// agents carry; empty if unset.
	Version string  `json:"version,omitempty"`
	Fleet   string  `json:"fleet,omitempty"`
	Verdict Verdict `json:"verdict"`
	// Why says what does not follow, or what is not known, a clause for each.
	Why []string `json:"why,omitempty"`
	// Notes say what is another and no reason to doubt the commit, as other words.
	Notes []string `json:"notes,omitempty"`
	// Signature is git's verdict on the commit's signature; empty where nobody asked.
	Signature Signature `json:"signature,omitempty"`
	// restores are the dispatches that a repair writes, and orders those that an order did.
	restores, orders []dispatchFile
}

// Failed reports whether muster made the commit and its content does not follow from its inputs, or
// its signature had to be verified and is not valid.
func (f *Finding) Failed() bool {
	return f.Verdict.Failed() || f.Verdict != People && f.unproven()
}

// unproven reports whether the signature was to be verified and is not good.
func (f *Finding) unproven() bool { return f.Signature != "" && f.Signature != Good }

// Signature is git's verdict on a commit's signature.
type Signature string

const (
	// Good is a signature by a key that the clone trusts.
	Good Signature = "good"
	// Untrusted is one that is right, by a key that nobody vouches for.
	Untrusted Signature = "untrusted"
	// Bad does not fit the commit.
	Bad Signature = "bad"
	// Expired is a signature that is expired, or whose key is.
	Expired Signature = "expired"
	// Revoked is by a key that was revoked.
	Revoked Signature = "revoked"
	// NoKey cannot be checked for want of the key.
	NoKey Signature = "no-key"
	// Unsigned is a commit without a signature.
	Unsigned Signature = "unsigned"
)

// Files are the files of past commits. Nobody shares them: each worker has its own.
type Files interface {
	// Ahead announces commits and directories whose files will be read.
	Ahead(ctx context.Context, commits []branch.Commit, dirs []string) error
	// Tree returns the files of a commit. Its error, and those of what is read of it, are
	// [branch.ErrMissing] where the repository does not have them.
	Tree(ctx context.Context, commit string) (fs.FS, error)
	// Differences are the files below a directory that a commit has otherwise than one
	// before it; empty is the top.
	Differences(ctx context.Context, before, after, top string) ([]branch.Difference, error)
	// ID is the identifier of a file's content, as in differences.
	ID(content []byte) string
	// Close ends the reading.
	Close()
}

// Config says what is verified, and how. Fields are needed unless they say otherwise.
type Config struct {
	// Overlays is the directory of overlays, as in "overlays".
	Overlays string
	// Version is this muster's, as it stands in the trailers.
	Version string
	// Fleet is the tag of the fleet; empty: it is not known, and that of the newest order is
	// what the others are compared with.
	Fleet string
	// Loader makes what reads overlays, and Files what reads commits: each worker calls them.
	Loader func() *fleet.Loader
	Files  func(ctx context.Context) (Files, error)
	// Workers is how many commits are verified at a time; Together is how many are given to
	// one, and zero is 64.
	Workers, Together int
	// Until is a commit before which the range ends, and Since leaves out commits made
	// before it; the zero values are no limit.
	Until string
	Since time.Time
	// Signatures asks git about commits' signatures; nil: nobody does.
	Signatures func(ctx context.Context, commits []string) (map[string]Signature, error)
	// Count is counted up while findings are yielded.
	Count *Count
}

// Count is how many commits there were of each kind.
type Count struct {
	// Commits is how many were read, and Muster how many of them are muster's.
	Commits int `json:"commits"`
	Muster  int `json:"muster"`
	// Verdicts are how many have each verdict.
	Verdicts map[Verdict]int `json:"verdicts"`
	// OtherMessage are those that follow and say it in other words.
	OtherMessage int `json:"otherMessage"`
	// Fleets are how many orders have agents with each fleet's tag.
	Fleets map[string]int `json:"fleets,omitempty"`
	// Unproven are those whose signature is not good.
	Unproven int `json:"unproven,omitempty"`
	// Failed are all that failed.
	Failed int `json:"failed"`
	// Cut is the commit at which a shallow clone ends; empty: it does not.
	Cut string `json:"cut,omitempty"`
	// Reached says that the commit before which the range ends was found.
	Reached bool `json:"-"`
}

// maxFleets bounds the tags that are counted: anybody may write any.
const maxFleets = 100

// add counts a finding.
func (c *Count) add(f *Finding) {
	if c.Verdicts == nil {
		c.Verdicts, c.Fleets = map[Verdict]int{}, map[string]int{}
	}
	c.Verdicts[f.Verdict]++
	if f.Verdict != People {
		c.Muster++
	}
	if _, known := c.Fleets[f.Fleet]; f.Operation == ledger.Dispatch && (known || len(c.Fleets) < maxFleets) {
		c.Fleets[f.Fleet]++
	}
	if f.Verdict == Follows && len(f.Notes) > 0 {
		c.OtherMessage++
	}
	if f.unproven() && f.Verdict != People {
		c.Unproven++
	}
	if f.Failed() {
		c.Failed++
	}
}

// move counts a repair as what it turned out to be.
func (c *Count) move(f *Finding) {
	c.Verdicts[Repair]--
	c.Verdicts[f.Verdict]++
	if !f.unproven() { // else it is counted already
		c.Failed++
	}
}

// unread reports whether an error is about what the repository does not have.
func unread(err error) bool { return errors.Is(err, branch.ErrMissing) }
