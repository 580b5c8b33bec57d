package explanation

import (
	"context"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"muster/generator/history"
	"muster/generator/ledger"
)

// search is the state of a search in the log.
type search struct {
	name  string
	id    string          // of the commit; empty: not found yet
	known map[string]bool // overlays
}

// maxKnown bounds the names of overlays that are collected for error messages.
const maxKnown = 10_000

// is reports whether an operation is of the commit of the question.
func (s *search) is(r ledger.Operation) bool {
	switch {
	case s.name == "":
		return r.ByMuster()
	case s.name == "HEAD":
		return true
	case commitRule.MatchString(s.name) && strings.HasPrefix(r.ID, s.name):
		return true
	}
	return r.Kind == ledger.Dispatch && slices.Contains(r.Dispatches(), s.name)
}

// find returns the commit with an identifier, or the commit that ordered a dispatch. The operation is
// complete if muster made the commit.
func (c Config) find(ctx context.Context, name string) (*ledger.Operation, error) {
	s := search{name: name, known: map[string]bool{}}
	var found ledger.Operation
	log := func(yield func(ledger.Operation, error) bool) {
		for o, err := range c.log(ctx, "") {
			if err == nil && o.Overlay != "" && len(s.known) < maxKnown {
				s.known[o.Overlay] = true
			}
			if err == nil && s.is(o) {
				s.id, found = o.ID, o
			}
			if !yield(o, err) || s.id != "" {
				return
			}
		}
	}
	rows := history.Config{Overlays: c.Overlays, Now: c.Now}
	for row, err := range rows.Rows(log) {
		if err != nil {
			return nil, err
		}
		if row.ID == s.id {
			found = row
		}
	}
	if s.id == "" {
		return nil, &Unknown{Name: name, Known: slices.Sorted(maps.Keys(s.known))}
	}
	return &found, nil
}

// tree returns the files of a past commit.
func (c Config) tree(ctx context.Context, commit string, dirs []string) (fs.FS, error) {
	head, err := c.Repository.Past(ctx, commit, dirs)
	return head.Tree, err
}
