package history

import (
	"slices"
	"strings"
	"time"
)

// Filter says which rows are wanted. The zero value wants all.
type Filter struct {
	// Since and Until are the times between which they are; zero for no bound.
	Since, Until time.Time
	// Overlays are the names of overlays; none are all. What concerns every overlay is
	// wanted with each.
	Overlays []string
	// Operations are the acts; none are all.
	Operations []Operation
	// Author is part of the author's name or address, in any case of letters; empty for
	// anybody.
	Author string
}

// Wants reports whether a row is wanted.
func (f Filter) Wants(r Row) bool {
	author := strings.ToLower(f.Author)
	switch {
	case !f.Since.IsZero() && r.At.Before(f.Since), !f.Until.IsZero() && !r.At.Before(f.Until):
	case len(f.Overlays) > 0 && r.Overlay != "" && !slices.Contains(f.Overlays, r.Overlay):
	case len(f.Operations) > 0 && !slices.Contains(f.Operations, r.Operation):
	case author != "" && !strings.Contains(strings.ToLower(r.By), author) && !strings.Contains(strings.ToLower(r.Email), author):
	default:
		return true
	}
	return false
}

// People reports whether rows of people can be among those that are wanted.
func (f Filter) People() bool {
	return len(f.Operations) == 0 || slices.ContainsFunc(f.Operations, func(a Operation) bool { return !a.Own() })
}
