package ledger

import (
	"strconv"
	"strings"
	"time"
)

// The keys of the trailers, in the order in which they are written.
const (
	keyOverlay     = "Overlay"
	keyOperation   = "Operation"
	keyIdentity    = "Identity"
	keyBase        = "Based-on"
	keyDispatch    = "Dispatch"
	keyRepaired    = "Repaired"
	keyLimit       = "Limit"
	keyFailures    = "Failures"
	keyObservation = "Observation"
	keyMuster      = "Muster"
)

// ownKeys are the keys of all trailers that only muster writes.
var ownKeys = []string{keyOverlay, keyOperation, keyIdentity, keyBase, keyDispatch, keyRepaired, keyLimit, keyFailures, keyObservation, keyMuster}

// Message renders the commit message of an operation: a subject with its outcome, the reasons with
// their arithmetic, and trailers with every input of the decision that is not in the tree of the
// commit that it was made on. The line after the subject keeps CI from building the commit, and is
// within the 250 characters that CircleCI reads (circleci.com/docs/skip-build). version is the version of
// muster.
func Message(op Draft, version string) string { return Style{}.Message(op, version) }

// Message renders the commit message of an operation like [Message], in this style.
func (s Style) Message(op Draft, version string) string {
	e := op.Operation(version)
	head, body, _ := strings.Cut(e.Text, "\n\n")
	paragraphs := []string{head}
	for _, p := range []string{s.marker(), body, strings.Join(append(e.Trailers(), s.trailers()...), "\n")} {
		if p != "" {
			paragraphs = append(paragraphs, p)
		}
	}
	return strings.Join(paragraphs, "\n\n") + "\n"
}

// Trailers returns the trailers that state the operation.
func (o *Operation) Trailers() []string {
	var all []string
	add := func(key, value string) { all = append(all, key+": "+value) }
	add(keyOverlay, o.Path)
	add(keyOperation, string(o.Kind))
	if o.Identity != "" {
		add(keyIdentity, o.Identity)
	}
	add(keyBase, o.Base)
	for _, x := range o.Orders {
		add(keyDispatch, x.String())
	}
	for _, file := range o.Repaired {
		add(keyRepaired, file)
	}
	if o.Limit != "" {
		add(keyLimit, o.Limit)
	}
	if o.Failures > 0 {
		add(keyFailures, strconv.Itoa(o.Failures))
	}
	if !o.Kind.Command() {
		add(keyObservation, encodeObservation(o.Observation))
	}
	add(keyMuster, o.Version)
	return all
}

// String returns the value of the trailer of a dispatch: its ID, fields with values, and flags, as in
// "default-7f3k9c2b agents=8 registered=5 reason=expired stale".
func (o Order) String() string {
	text := []string{o.ID}
	add := func(key, value string) { text = append(text, key+"="+value) }
	add("agents", strconv.Itoa(o.Agents))
	if o.Purpose != "" {
		add("purpose", string(o.Purpose))
	}
	if !o.NotAfter.IsZero() {
		add("not-after", o.NotAfter.UTC().Format(time.RFC3339))
	}
	if o.Reason != "" {
		add("registered", strconv.Itoa(o.Registered))
		add("reason", string(o.Reason))
	}
	if o.Failure != "" {
		add("failure", string(o.Failure))
	}
	for _, flag := range o.flags() {
		if *flag.set {
			text = append(text, flag.name)
		}
	}
	return strings.Join(text, " ")
}

// orderFlag is a field of an order that is either set or absent.
type orderFlag struct {
	name string
	set  *bool
}

func (o *Order) flags() []orderFlag {
	return []orderFlag{{"trial", &o.Trial}, {"wrong-tags", &o.WrongTags}, {"stale", &o.Stale}, {"copied", &o.Copied}, {"withdrawn", &o.Withdrawn}, {"never-created", &o.NeverCreated}}
}

// Subject returns the first line of an operation's message.
func Subject(op Draft) string {
	line, _, _ := strings.Cut(Text(op), "\n")
	return line
}

// Text returns the part of an operation's message for people: the subject, and after an empty line the
// reasons that it does not contain, if any.
func Text(op Draft) string {
	d := op.Decision
	var summary, body string
	switch op.Kind {
	case Repair:
		summary, body = repairSubject(op), repairProse(op)
	case Dispatch:
		summary, body = dispatchSubject(d), dispatchProse(d)
	case Withdraw:
		summary, body = endSubject(op), strings.Join(outcomeLines(op.orders()), "\n")
	case Retire:
		summary, body = endSubject(op), retireProse(op)
	}
	return strings.TrimRight(summary+"\n\n"+body, "\n")
}
