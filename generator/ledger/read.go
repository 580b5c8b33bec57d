package ledger

import (
	"errors"
	"iter"

	"muster/gitops/branch"
)

// Record is one commit of a log. Entry is set for a commit by muster, and Damage for a commit by muster
// that can no longer be parsed. If neither is set, somebody else wrote it.
type Record struct {
	// Commit is the commit itself.
	Commit branch.Commit
	// Entry is the parsed message; nil if it is not by muster.
	Entry *Operation
	// Damage is why a commit by muster cannot be parsed; nil if it can.
	Damage *Malformed
}

// Read yields a record for each commit of a log, in the same order. A merge is never by muster. An
// error of the log is yielded and ends it; a malformed message does not.
//
// Anybody who may push to the branch can write such messages. Only a signature proves the author.
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
