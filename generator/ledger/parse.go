package ledger

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"muster/generator/plan"
)

// Entry is one parsed commit by muster.
type Entry struct {
	// Commit is the commit's identifier in hexadecimal, Author and Email its author, and At its time.
	// [Parse] does not set them.
	Commit, Author, Email string
	At                    time.Time
	// Overlay is the directory of the overlay in the repository.
	Overlay string
	// Kind is the kind of the operation.
	Kind Kind
	// Dispatches are the IDs of the dispatches that were written or removed, and Agents the sum of
	// their agents. A repair has none.
	Dispatches []string
	Agents     int
	// Observation is the input of the decision, except the parent's tree.
	Observation plan.Observation
	// Version is the version of muster that decided, as in "v0.3.0".
	Version string
	// Subject is the first line of the message, and Prose the reasons. Both are for people and not to
	// be parsed.
	Subject, Prose string
	// Summary is the subject without the overlay's name, as in "dispatch 1 agent as a
	// probe".
	Summary string
}

// ErrForeign reports that a message is not from muster.
var ErrForeign = errors.New("not a commit by muster")

// Malformed is the error if a message by muster can no longer be parsed, for example because somebody
// has edited it. A rebase in GitLab's web interface cuts messages at 10,240 bytes
// (GitLab issue 553590), which removes the trailers of long ones.
type Malformed struct {
	// Line is the number of the invalid line, from 1; zero if a line is missing.
	Line int
	// Problem describes the problem.
	Problem string
}

// Error returns the problem after the number of the line.
func (d *Malformed) Error() string {
	if d.Line == 0 {
		return d.Problem
	}
	return fmt.Sprintf("line %d: %s", d.Line, d.Problem)
}

const (
	// largestMessage is the size in bytes above which a message is not read.
	largestMessage = 4 << 20
	// maxAgents bounds the number of agents of one commit.
	maxAgents = 1_000_000
)

// Parse reads a commit message. The error is [ErrForeign] if the message is not from muster, and a
// [Malformed] if it was. A message is from muster if
//
//   - its first line is of the form "OVERLAY: VERB ...", with a verb that muster uses,
//   - its trailers, which are in the last paragraph as git finds them, name
//     that overlay, and include at least one more of the trailers that muster writes,
//   - and the operation in them is that of the verb.
//
// So a message that only quotes one from muster, such as that of a revert, does not qualify. A
// copy, such as that of a cherry-pick, does: only its committer and its place distinguish it.
func Parse(message string) (Entry, error) {
	if len(message) > largestMessage {
		return Entry{}, ErrForeign // larger than any message by muster
	}
	lines := strings.Split(strings.ReplaceAll(message, "\r\n", "\n"), "\n")
	first := 0
	for first < len(lines) && blank(lines[first]) {
		first++
	}
	if first == len(lines) {
		return Entry{}, ErrForeign
	}
	subject := subjectRule.FindStringSubmatch(lines[first])
	if subject == nil {
		return Entry{}, ErrForeign
	}
	found := readTrailers(lines)
	if !claims(found, subject[1], Kind(subject[3])) {
		return Entry{}, ErrForeign
	}
	r := reader{trailers: found}
	e := r.entry()
	if r.wrong != nil {
		return Entry{}, r.wrong
	}
	e.Subject = lines[first]
	e.Summary = subject[2]
	e.Prose = prose(lines[first+1 : found[0].line-1])
	return e, nil
}

// subjectRule is the first line of a message that muster writes.
var subjectRule = regexp.MustCompile(`^([^:]+): ((repair|dispatch|retire) .*)`)

// claims reports whether the trailers belong to a message by muster whose first line contains the
// overlay's name and the verb. The overlay's directory ends in its name.
func claims(trailers []trailer, name string, verb Kind) bool {
	own, overlay, op := 0, false, true
	for _, t := range trailers {
		switch t.key {
		case keyOverlay:
			overlay = overlay || t.value == name || strings.HasSuffix(t.value, "/"+name)
		case keyOperation:
			own++
			op = op && (Kind(t.value) == verb || !isKind(t.value))
		case keyObservation, keyMuster:
			own++
		}
	}
	return overlay && op && own > 0
}

func isKind(s string) bool { return Kind(s) == Repair || Kind(s) == Dispatch || Kind(s) == Retire }

// prose joins the lines between subject and trailers, without leading and trailing blank lines.
func prose(lines []string) string {
	for len(lines) > 0 && blank(lines[0]) {
		lines = lines[1:]
	}
	for len(lines) > 0 && blank(lines[len(lines)-1]) {
		lines = lines[:len(lines)-1]
	}
	return strings.Join(lines, "\n")
}

// reader makes an entry of trailers, and keeps the first problem.
type reader struct {
	trailers []trailer
	wrong    *Malformed
}

// fail records the first problem. A line of zero means that a line is missing.
func (r *reader) fail(line int, format string, args ...any) {
	if r.wrong == nil {
		r.wrong = &Malformed{Line: line, Problem: fmt.Sprintf(format, args...)}
	}
}

func (r *reader) entry() Entry {
	var e Entry
	t := r.one(keyOverlay)
	if e.Overlay = t.value; r.wrong == nil && !isPath(e.Overlay) {
		r.fail(t.line, "%s: %.80q is not a directory of a repository", keyOverlay, t.value)
	}
	t = r.one(keyOperation)
	if e.Kind = Kind(t.value); r.wrong == nil && !isKind(t.value) {
		r.fail(t.line, "%s: %.80q is not an operation: want repair, dispatch or retire", keyOperation, t.value)
	}
	e.Dispatches, e.Agents = r.dispatches(e.Kind)
	t = r.one(keyObservation)
	if r.wrong == nil {
		var err error
		if e.Observation, err = decodeObservation(t.value); err != nil {
			r.fail(t.line, "%s: %s", keyObservation, shown(err.Error()))
		}
	}
	t = r.one(keyMuster)
	if e.Version = t.value; r.wrong == nil && (e.Version == "" || !printable(e.Version)) {
		r.fail(t.line, "%s: %.80q is not a version", keyMuster, t.value)
	}
	return e
}

// one returns the only trailer with a key.
func (r *reader) one(key string) trailer {
	var found trailer
	for _, t := range r.trailers {
		switch {
		case t.key != key:
		case found.key != "":
			r.fail(t.line, "%s: it is there twice, first on line %d", key, found.line)
		default:
			found = t
		}
	}
	if found.key == "" {
		r.fail(0, "%s: there is no such trailer", key)
	}
	return found
}

// dispatchRule is the ID of a dispatch: a name that Kubernetes takes.
var dispatchRule = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// dispatches returns the IDs of the dispatches and the number of agents.
func (r *reader) dispatches(kind Kind) (ids []string, agents int) {
	seen := map[string]bool{}
	for _, t := range r.trailers {
		switch {
		case t.key != keyDispatch:
		case kind == Repair:
			r.fail(t.line, "%s: a repair has none", keyDispatch)
		case !dispatchRule.MatchString(t.value):
			r.fail(t.line, "%s: %.80q is not the ID of a dispatch", keyDispatch, t.value)
		case seen[t.value]:
			r.fail(t.line, "%s: %s is there twice", keyDispatch, t.value)
		default:
			ids = append(ids, t.value)
			seen[t.value] = true
		}
	}
	if kind == Repair || r.wrong != nil {
		return nil, 0
	}
	if len(ids) == 0 {
		r.fail(0, "%s: there is no such trailer", keyDispatch)
	}
	t := r.one(keyAgents)
	agents, err := strconv.Atoi(t.value)
	if r.wrong == nil && (err != nil || agents < 0 || agents > maxAgents) {
		r.fail(t.line, "%s: %.80q is not a number of agents", keyAgents, t.value)
	}
	return ids, agents
}

// isPath reports whether a path has the form that git uses.
func isPath(s string) bool {
	return s != "" && s != "." && path.Clean(s) == s && !path.IsAbs(s) && s != ".." && !strings.HasPrefix(s, "../") && printable(s)
}

// printable reports whether a text can be printed on one line.
func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) < 0
}

// shown returns an error text of a library in a form that can be printed on one line.
func shown(s string) string {
	const most = 200
	s = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
