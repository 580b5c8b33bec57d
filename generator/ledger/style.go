package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Style is what a fleet adds to or leaves out of muster's commit messages. The zero value
// adds the default skip marker alone.
type Style struct {
	// SignOff is who signs off, as "Name <address>"; empty: nobody.
	SignOff string
	// CoAuthors are written as Co-authored-by, each as "Name <address>".
	CoAuthors []string
	// NoSkip leaves the skip marker out, so that commits start builds. Skip is another
	// marker than "[skip ci]"; empty is that.
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

// personRule is a name and an address, as git writes them.
var personRule = regexp.MustCompile(`^[^<>\x00-\x1f]+ <[^<>\s]+@[^<>\s]+>$`)

// Check returns an error that says what of a style cannot be written.
func (s Style) Check() error {
	for _, who := range append([]string{s.SignOff}, s.CoAuthors...) {
		if who != "" && (!personRule.MatchString(who) || !printable(who)) {
			return fmt.Errorf("%q is nobody: write \"Name <address>\"", who)
		}
	}
	switch {
	case s.Skip != "" && (!printable(s.Skip) || strings.TrimSpace(s.Skip) != s.Skip):
		return fmt.Errorf("%q is no marker: write a few words on one line, as in [skip ci]", s.Skip)
	case s.Skip != "" && s.NoSkip:
		return errors.New("a skip marker is given and left out: keep one")
	}
	return nil
}

// trailers are those that come behind muster's own.
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
