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
	return all
}

// marker returns the line that keeps CI from building a commit; empty without one.
func (s Style) marker() string {
	if s.NoSkip {
		return ""
	}
	return markerKey + cmp.Or(s.Skip, defaultSkip)
}

// markerKey begins the line of the skip marker.
const markerKey = "CI: "

// withoutMarker returns the text of a message without the line of its skip marker.
func withoutMarker(text string) string {
	head, rest, _ := strings.Cut(text, "\n\n")
	if marker, body, _ := strings.Cut(rest, "\n\n"); strings.HasPrefix(marker, markerKey) && !strings.Contains(marker, "\n") {
		rest = body
	}
	return strings.TrimRight(head+"\n\n"+rest, "\n")
}
