package history

import (
	"slices"
	"strings"
	"time"

	"muster/generator/ledger"
)

// Filter selects rows. The zero value selects all.
type Filter struct {
	// Since (inclusive) and Until (exclusive) bound their time; zero means no bound.
	Since, Until time.Time
	// Overlays are the names of overlays; empty selects all. Rows that concern all overlays are always
	// selected.
	Overlays []string
	// Operations are the operations; empty selects all.
	Operations []ledger.Kind
	// Author is part of the author's name or address, ignoring case; empty selects all.
	Author string
}

// Wants reports whether the filter selects a row.
func (f Filter) Wants(r ledger.Operation) bool {
	author := strings.ToLower(f.Author)
	switch {
	case !f.Since.IsZero() && r.At.Before(f.Since), !f.Until.IsZero() && !r.At.Before(f.Until):
	case len(f.Overlays) > 0 && r.Overlay != "" && !slices.Contains(f.Overlays, r.Overlay):
	case len(f.Operations) > 0 && !slices.Contains(f.Operations, r.Kind):
	case author != "" && !strings.Contains(strings.ToLower(r.Author), author) && !strings.Contains(strings.ToLower(r.Email), author):
	default:
		return true
	}
	return false
}

// People reports whether the filter can select rows of people, except those of commands.
func (f Filter) People() bool {
	return len(f.Operations) == 0 || slices.ContainsFunc(f.Operations, func(a ledger.Kind) bool { return !a.Own() && !a.Command() })
}
