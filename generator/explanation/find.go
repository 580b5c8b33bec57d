package explanation

import (
	"context"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"

	"muster/generator/history"
	"muster/generator/ledger"
)

// found is the commit of a question.
type found struct {
	record ledger.Record
	// row is its row of the audit log; nil if it is not by muster.
	row *history.Row
}

// search is the state of a search in the log.
type search struct {
	name string
	found
	known map[string]bool // overlays
}

// maxKnown bounds the names of overlays that are collected for error messages.
const maxKnown = 10_000

// is reports whether a record is the commit of the question.
func (s *search) is(r ledger.Record) bool {
	switch {
	case s.name == "":
		return r.Entry != nil
	case s.name == "HEAD":
		return true
	case commitRule.MatchString(s.name) && strings.HasPrefix(r.Commit.ID, s.name):
		return true
	}
	return r.Entry != nil && r.Entry.Kind == ledger.Dispatch && slices.Contains(r.Entry.Dispatches(), s.name)
}

// find returns the commit with an identifier, or the commit that ordered a dispatch.
func (c Config) find(ctx context.Context, name string) (found, error) {
	s := search{name: name, known: map[string]bool{}}
	next, stop := iter.Pull2(c.log(ctx, ""))
	defer stop()
	var failed error
	records := func(yield func(ledger.Record, error) bool) {
		for s.record.Commit.ID == "" {
			r, err, more := next()
			if failed = err; err != nil || !more {
				return
			}
			if r.Entry != nil && len(s.known) < maxKnown {
				s.known[c.replay().Name(r.Entry.Overlay)] = true
			}
			if s.is(r) {
				s.record = r
			}
			if !yield(r, nil) {
				return
			}
		}
	}
	rows := history.Config{Overlays: c.Overlays, Now: c.Now}
	for row, err := range rows.Rows(records) {
		if err != nil {
			return found{}, err
		}
		if row.Commit == s.record.Commit.ID {
			s.row = &row
		}
	}
	switch {
	case failed != nil:
		return found{}, failed
	case s.record.Commit.ID == "":
		return found{}, &Unknown{Name: name, Known: slices.Sorted(maps.Keys(s.known))}
	}
	return s.found, nil
}

// tree returns the files of a past commit.
func (c Config) tree(ctx context.Context, commit string, dirs []string) (fs.FS, error) {
	head, err := c.Repository.Past(ctx, commit, dirs)
	return head.Tree, err
}
