// Package verification recomputes the decision and the files of every commit by muster, and
// compares both byte for byte with what is in git.
//
//	log ──Config.Verify──▶ Findings, one for each commit that is muster's or touches its files
//
// [muster/generator/plan] makes the decision and [generator.Render] its files, as originally. The text
// for people in a message is not compared.
package verification

import (
	"errors"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// Verdict is the result of the verification of a commit.
type Verdict string

const (
	// Reproduced is the verdict if the decision, repeated on the commit that the trailers name and with
	// the observation in them, or the command, repeated on that commit, gives the same trailers and files.
	// Of a repair, whose other inputs are not in git, it means that it changes only the directory that
	// muster owns, and writes orders and state as the files and commits before it explain.
	Reproduced Verdict = "reproduced"
	// Differs is the verdict if the commit states that muster or its command made it, and its trailers, its
	// files or its place in the log are not those of the decision.
	Differs Verdict = "differs"
	// NotMuster is the verdict if a commit without muster's trailers changes files that muster owns.
	NotMuster Verdict = "not-by-muster"
	// Unknown is the verdict if the repository lacks the files that the decision was based on, or another
	// version of muster made the commit, and this version's result differs. Of a repair it also means that
	// nothing in the log explains what it writes: the branch may have been set back.
	Unknown Verdict = "unknown"
)

// Verdicts returns all verdicts.
func Verdicts() []Verdict { return []Verdict{Reproduced, Differs, NotMuster, Unknown} }

// Finding is the result of the verification of one commit.
type Finding struct {
	// Commit is its identifier, Author and Email its author as the commit says, and At its time.
	Commit string    `json:"commit"`
	Author string    `json:"author"`
	Email  string    `json:"email"`
	At     time.Time `json:"at"`
	// Overlay is the overlay's name; empty if unknown. Operation is the operation that the trailers state.
	Overlay   string      `json:"overlay,omitempty"`
	Operation ledger.Kind `json:"operation,omitempty"`
	// Version is the version of muster that the commit names; empty if unset.
	Version string  `json:"version,omitempty"`
	Verdict Verdict `json:"verdict"`
	// Why describes what differs or is unknown, one clause each.
	Why []string `json:"why,omitempty"`
	// Signature is git's verdict on the commit's signature; empty if it was not verified.
	Signature Signature `json:"signature,omitempty"`
	// orders are the IDs of the orders that the commit makes, and ends are those that it withdraws or retires.
	orders []string
	ends   []ending
	// restores are the orders that a repair writes, state the first document of state.yaml if the former was
	// missing or not valid, and needs the endings that an earlier commit must contain.
	restores []restoredOrder
	state    *plan.State
	needs    []ending
}

// Failed reports whether the commit differs from its decision, or its signature had to be verified and
// is not valid.
func (f *Finding) Failed() bool { return f.Verdict == Differs || f.unproven() }

// unproven reports whether the signature of a commit by muster was verified and is not good. People, who
// also make the commits of commands, need not sign.
func (f *Finding) unproven() bool {
	return f.Signature != "" && f.Signature != Good && f.Verdict != NotMuster && !f.Operation.Command()
}

// Signature is git's verdict on a commit's signature.
type Signature string

const (
	// Good is a signature by a key that the clone trusts.
	Good Signature = "good"
	// Untrusted is a valid signature by an untrusted key.
	Untrusted Signature = "untrusted"
	// Bad does not fit the commit.
	Bad Signature = "bad"
	// Expired is a signature that is expired, or whose key is.
	Expired Signature = "expired"
	// Revoked is by a key that was revoked.
	Revoked Signature = "revoked"
	// NoKey is a signature whose key is missing.
	NoKey Signature = "no-key"
	// Unsigned is a commit without a signature.
	Unsigned Signature = "unsigned"
)

// Count is the number of commits of each kind.
type Count struct {
	// Commits is the number of commits that were read, and Muster that of commits by muster and by its
	// commands.
	Commits int `json:"commits"`
	Muster  int `json:"muster"`
	// Verdicts is the number of commits with each verdict.
	Verdicts map[Verdict]int `json:"verdicts"`
	// Unproven is the number of commits by muster whose signature is not good.
	Unproven int `json:"unproven,omitempty"`
	// Failed is the number of commits that failed.
	Failed int `json:"failed"`
	// Cut is the commit at which a shallow clone ends; empty if the clone is complete.
	Cut string `json:"cut,omitempty"`
	// Reached reports whether the commit Until was found.
	Reached bool `json:"-"`
}

// add counts a finding.
func (c *Count) add(f *Finding) {
	if c.Verdicts == nil {
		c.Verdicts = map[Verdict]int{}
	}
	c.Verdicts[f.Verdict]++
	if f.Verdict != NotMuster {
		c.Muster++
	}
	if f.unproven() {
		c.Unproven++
	}
	if f.Failed() {
		c.Failed++
	}
}

// move replaces the verdict of a repair in the counts.
func (c *Count) move(f *Finding) {
	c.Verdicts[Reproduced]--
	c.Verdicts[f.Verdict]++
	if f.Verdict == Differs && !f.unproven() { // else it is counted already
		c.Failed++
	}
}

// unread reports whether an error means that the repository lacks an object.
func unread(err error) bool { return errors.Is(err, branch.ErrMissing) }
