package ledger

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"muster/generator/plan"
)

// ErrForeign reports that a message is not from muster.
var ErrForeign = errors.New("not a commit by muster")

// Malformed is the error if a message by muster can no longer be parsed, for example because somebody
// has edited it. A rebase in GitLab's web interface cuts messages at 10,240 bytes
// (GitLab issue 553590), which removes the trailers of long ones.
type Malformed struct {
	// Path is the directory of the overlay; empty if it is invalid.
	Path string
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
// [Malformed] if it was. A message is from muster if its trailers, which are in the last paragraph as
// git finds them, include Overlay, Operation, and at least one more that only muster writes. The text
// above them is not examined. So the message of a commit by people that ends with all of these trailers,
// such as that of a cherry-pick, qualifies: only the commit's committer and its place
// distinguish it.
func Parse(message string) (Operation, error) {
	if len(message) > largestMessage {
		return Operation{}, ErrForeign // larger than any message by muster
	}
	lines := strings.Split(strings.ReplaceAll(message, "\r\n", "\n"), "\n")
	found := readTrailers(lines)
	if !claims(found) {
		return Operation{}, ErrForeign
	}
	for i := range found { // a message is large, and is not kept for them
		if found[i].key != keyObservation {
			found[i].value = strings.Clone(found[i].value)
		}
	}
	r := reader{trailers: found}
	e := r.operation()
	if r.wrong != nil {
		if isPath(e.Path) {
			r.wrong.Path = e.Path
		}
		return Operation{}, r.wrong
	}
	e.Text = withoutMarker(textOf(lines[:found[0].line-1]))
	return e, nil
}

// claims reports whether the trailers are those of a message by muster.
func claims(trailers []trailer) bool {
	overlay, operation, others := false, false, false
	for _, t := range trailers {
		switch {
		case t.key == keyOverlay:
			overlay = true
		case t.key == keyOperation:
			operation = true
		case slices.Contains(ownKeys, t.key):
			others = true
		}
	}
	return overlay && operation && others
}

// textOf joins lines without leading and trailing blank ones.
func textOf(lines []string) string {
	for len(lines) > 0 && blank(lines[0]) {
		lines = lines[1:]
	}
	for len(lines) > 0 && blank(lines[len(lines)-1]) {
		lines = lines[:len(lines)-1]
	}
	return strings.Join(lines, "\n")
}

// reader makes an operation of trailers, and keeps the first problem.
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

func (r *reader) operation() Operation {
	var e Operation
	t := r.one(keyOverlay)
	if e.Path = t.value; r.wrong == nil && !isPath(e.Path) {
		r.fail(t.line, "%s: %.80q is not a directory of a repository", keyOverlay, t.value)
	}
	t = r.one(keyOperation)
	if e.Kind = Kind(t.value); r.wrong == nil && !slices.Contains(Kinds(), e.Kind) && !e.Kind.Command() {
		r.fail(t.line, "%s: %.80q is not an operation: want repair, dispatch, withdraw, retire, cancel or close-breaker", keyOperation, t.value)
	}
	t = r.optional(keyIdentity)
	if e.Identity = t.value; r.wrong == nil && !printable(t.value) {
		r.fail(t.line, "%s: %.80q is not an identifier", keyIdentity, t.value)
	}
	t = r.one(keyBase)
	if e.Base = t.value; r.wrong == nil && !commitRule.MatchString(t.value) {
		r.fail(t.line, "%s: %.80q is not the identifier of a commit", keyBase, t.value)
	}
	e.Orders = r.orders(e.Kind)
	for _, t := range r.trailers {
		if t.key == keyRepaired {
			if !printable(t.value) {
				r.fail(t.line, "%s: %.80q is not a file", keyRepaired, t.value)
			}
			e.Repaired = append(e.Repaired, t.value)
		}
	}
	t = r.optional(keyLimit)
	if e.Limit = t.value; r.wrong == nil && !printable(t.value) {
		r.fail(t.line, "%s: %.80q is not a limit", keyLimit, t.value)
	}
	if t = r.optional(keyFailures); t.key != "" {
		e.Failures = r.number(t.line, keyFailures, t.value)
	}
	if !e.Kind.Command() { // which observes nothing
		t = r.one(keyObservation)
		if r.wrong == nil {
			var err error
			if e.Observation, err = decodeObservation(t.value); err != nil {
				r.fail(t.line, "%s: %s", keyObservation, shown(err.Error()))
			}
			e.Queue, e.Decided = e.Observation.Queue, e.Observation.At
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
	found := r.optional(key)
	if found.key == "" {
		r.fail(0, "%s: there is no such trailer", key)
	}
	return found
}

// optional returns the only trailer with a key; the zero value without one.
func (r *reader) optional(key string) (found trailer) {
	for _, t := range r.trailers {
		switch {
		case t.key != key:
		case found.key != "":
			r.fail(t.line, "%s: it is there twice, first on line %d", key, found.line)
		default:
			found = t
		}
	}
	return found
}

// number returns a number of agents or orders.
func (r *reader) number(line int, key, value string) int {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > maxAgents {
		r.fail(line, "%s: %.80q is not a number from 0 to %d", key, value, maxAgents)
		return 0
	}
	return n
}

// commitRule is the identifier of a commit in hexadecimal.
var commitRule = regexp.MustCompile(`^[0-9a-f]{4,64}$`)

// dispatchRule is the ID of a dispatch: a name that Kubernetes takes.
var dispatchRule = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// orders returns what the trailers state about each dispatch.
func (r *reader) orders(kind Kind) (all []Order) {
	none := kind == Repair || kind == CloseBreaker
	seen := map[string]bool{}
	for _, t := range r.trailers {
		if t.key != keyDispatch {
			continue
		}
		o := r.order(t)
		switch {
		case r.wrong != nil:
			return nil
		case none:
			r.fail(t.line, "%s: a %s has none", keyDispatch, kind)
		case seen[o.ID]:
			r.fail(t.line, "%s: %s is there twice", keyDispatch, o.ID)
		}
		seen[o.ID] = true
		all = append(all, o)
	}
	if len(all) == 0 && !none {
		r.fail(0, "%s: there is no such trailer", keyDispatch)
	}
	return all
}

// order reads the trailer of a dispatch; see [Order.String]. It ignores fields that it does not know.
func (r *reader) order(t trailer) (o Order) {
	words := strings.Fields(t.value)
	if len(words) == 0 || !dispatchRule.MatchString(words[0]) || !printable(t.value) {
		r.fail(t.line, "%s: %.80q is not the ID of a dispatch", keyDispatch, t.value)
		return o
	}
	o.ID = words[0]
	agents := false
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "agents":
			o.Agents, agents = r.number(t.line, keyDispatch+": agents", value), true
		case "registered":
			o.Registered = r.number(t.line, keyDispatch+": registered", value)
		case "purpose":
			o.Purpose = plan.Purpose(value)
		case "not-after":
			var err error
			if o.NotAfter, err = time.Parse(time.RFC3339, value); err != nil {
				r.fail(t.line, "%s: not-after: %.80q is not a time", keyDispatch, value)
			}
		case "reason":
			o.Reason = plan.RetireReason(value)
		case "failure":
			o.Failure = plan.Failure(value)
		}
		for _, flag := range o.flags() {
			*flag.set = *flag.set || flag.name == word
		}
	}
	if !agents {
		r.fail(t.line, "%s: %s has no number of agents", keyDispatch, o.ID)
	}
	return o
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
