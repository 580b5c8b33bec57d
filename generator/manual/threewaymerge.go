package manual

import (
	"slices"
	"strings"

	"github.com/sergi/go-diff/diffmatchpatch"
)

// hunk replaces lines from to to of a text by others.
type hunk struct {
	from, to int
	lines    []string
}

// hunks returns the changes from one text to another, line by line.
func hunks(before, after string) []hunk {
	d := diffmatchpatch.New()
	d.DiffTimeout = 0 // the result must not depend on time
	a, b, lines := d.DiffLinesToRunes(before, after)
	var all []hunk
	at, open := 0, false
	for _, x := range d.DiffCharsToLines(d.DiffMainRunes(a, b, false), lines) {
		text := slices.Collect(strings.Lines(x.Text))
		if x.Type == diffmatchpatch.DiffEqual {
			at, open = at+len(text), false
			continue
		}
		if !open {
			all, open = append(all, hunk{from: at, to: at}), true
		}
		last := &all[len(all)-1]
		if x.Type == diffmatchpatch.DiffDelete {
			at += len(text)
			last.to = at
		} else {
			last.lines = append(last.lines, text...)
		}
	}
	return all
}

// merge applies the changes of mine and theirs to base. It returns false if they conflict: they change
// the same or adjacent lines differently.
func merge(base, mine, theirs string) (string, bool) {
	a, b := hunks(base, mine), hunks(base, theirs)
	lines := slices.Collect(strings.Lines(base))
	var merged strings.Builder
	at := 0
	copyTo := func(n int) {
		for ; at < n; at++ {
			merged.WriteString(lines[at])
		}
	}
	for len(a) > 0 || len(b) > 0 {
		var h hunk
		switch {
		case len(a) > 0 && len(b) > 0 && a[0].from <= b[0].to && b[0].from <= a[0].to:
			if a[0].from != b[0].from || a[0].to != b[0].to || !slices.Equal(a[0].lines, b[0].lines) {
				return "", false
			}
			h, a, b = a[0], a[1:], b[1:]
		case len(b) == 0 || len(a) > 0 && a[0].from < b[0].from:
			h, a = a[0], a[1:]
		default:
			h, b = b[0], b[1:]
		}
		copyTo(h.from)
		for _, l := range h.lines {
			merged.WriteString(l)
		}
		at = h.to
	}
	copyTo(len(lines))
	return merged.String(), true
}
