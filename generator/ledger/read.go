package ledger

import (
	"errors"
	"iter"

	"muster/gitops/branch"
)

// Record is one commit of a log. Entry is set if muster wrote the commit, and Damage if muster wrote
// it and it can no longer be read. If neither is set, somebody else wrote it.
type Record struct {
	// Commit is the commit itself.
	Commit branch.Commit
	// Entry is what muster did in it; nil: it is not muster's.
	Entry *Entry
	// Damage says why a commit of muster's cannot be read; nil: it can.
	Damage *Malformed
}

// Read reads a log, and yields a record for each of its commits, in its order.
// It keeps nothing. A merge is never muster's: muster makes none. An error of
// the log is yielded, and ends it; a damaged message is none.
//
// What a commit says, anybody can say who may push to the branch: it is the
// author of a commit, and its signature, that tell whose it is.
func Read(commits iter.Seq2[branch.Commit, error]) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for c, err := range commits {
			if err != nil {
				yield(Record{}, err)
				return
			}
			if !yield(record(c), nil) {
				return
			}
		}
	}
}

func record(c branch.Commit) Record {
	r := Record{Commit: c}
	if len(c.Parents) > 1 {
		return r
	}
	e, err := Parse(c.Message)
	if err == nil {
		e.Commit, e.Author, e.Email, e.At = c.ID, c.Author, c.Email, c.At
		r.Entry = &e
	} else {
		errors.As(err, &r.Damage)
	}
	return r
}
