package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Style configures the additional trailers of muster's commit messages. The zero value adds only the
// default skip marker.
type Style struct {
	// SignOff is the person who signs off, as "Name <address>"; empty for none.
	SignOff string
	// CoAuthors are written as Co-authored-by, each as "Name <address>".
	CoAuthors []string
	// NoSkip omits the skip marker, so that commits start builds. Skip is the marker; empty means
	// "[skip ci]".
	NoSkip bool
	Skip   string
}

// defaultSkip keeps Buildkite, GitHub and GitLab from building a commit: a build per
// scaling decision would be a loop (buildkite.com/docs/pipelines/configure/skipping).
const defaultSkip = "[skip ci]"

// Keys of the trailers that a style adds.
const (
	keySignOff  = "Signed-off-by"
	keyCoAuthor = "Co-authored-by"
)

// personRule matches a name and an address in git's syntax.
var personRule = regexp.MustCompile(`^[^<>\x00-\x1f]+ <[^<>\s]+@[^<>\s]+>$`)

// Check returns an error if a value cannot be a trailer.
func (s Style) Check() error {
	for _, who := range append([]string{s.SignOff}, s.CoAuthors...) {
		if who != "" && (!personRule.MatchString(who) || !printable(who)) {
			return fmt.Errorf("%q is not a person: write \"Name <address>\"", who)
		}
	}
	switch {
	case s.Skip != "" && (!printable(s.Skip) || strings.TrimSpace(s.Skip) != s.Skip):
		return fmt.Errorf("%q is not a marker: write a few words on one line, as in [skip ci]", s.Skip)
	case s.Skip != "" && s.NoSkip:
		return errors.New("a skip marker is given and left out: keep one")
	}
	return nil
}

// trailers returns the trailers that follow muster's own.
func (s Style) trailers() []string {
	var all []string
	if s.SignOff != "" {
		all = append(all, keySignOff+": "+s.SignOff)
	}
	for _, who := range s.CoAuthors {
		all = append(all, keyCoAuthor+": "+who)
	}
	if !s.NoSkip {
		all = append(all, keyCI+": "+cmp.Or(s.Skip, defaultSkip))
	}
	return all
}
