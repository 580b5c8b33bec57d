// Package ledger defines the commits of muster: the operation of a commit, the message with its
// trailers, and the reader of a log.
//
//	Draft ──Message──▶ commit message ──Parse──▶ Operation
//	log of a branch ──Read──▶ Operations
//
// Commands of muster make operations without a draft, and write their [Operation.Trailers].
//
// The trailers of a message state the operation completely; see docs/reference/commits.md. The text
// above them is for people: [Text] writes it, and nothing reads it. Commits of every released version
// can be read.
package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/generator/plan"
	"muster/gitops/branch"
)

// Kind is the kind of an operation.
type Kind string

// The kinds of operations of muster, in the order in which one tick performs them.
const (
	// Repair restores muster's own directory after it was edited by hand.
	Repair Kind = "repair"
	// Dispatch adds dispatches.
	Dispatch Kind = "dispatch"
	// Withdraw keeps syncers from applying dispatches, which count until their lease expires.
	Withdraw Kind = "withdraw"
	// Retire removes dispatches.
	Retire Kind = "retire"
	// Damaged is a commit by muster that can no longer be parsed.
	Damaged Kind = "damaged"
)

// The kinds of operations that people perform with commands of muster. Their commits have trailers, and
// a person as author.
const (
	// Cancel withdraws dispatches.
	Cancel Kind = "cancel"
	// CloseBreaker closes the circuit breaker.
	CloseBreaker Kind = "close-breaker"
)

// The kinds of changes by people.
const (
	// Policy is an edit of scaling.yaml; Pause and Resume are those that change
	// spec.paused alone.
	Policy Kind = "policy"
	Pause  Kind = "pause"
	Resume Kind = "resume"
	// Template is an edit of the agents' template.
	Template Kind = "template"
	// Edit is an edit of any other file of an overlay, including muster's own.
	Edit Kind = "edit"
	// Create and Delete concern a whole overlay.
	Create Kind = "create"
	Delete Kind = "delete"
	// Revert is a commit by git revert.
	Revert Kind = "revert"
	// Merge brings in edits that were made outside the branch.
	Merge Kind = "merge"
	// Unknown is a commit whose changes cannot be determined.
	Unknown Kind = "unknown"
)

// Kinds returns the kinds of operations of muster that can be read, in the order in which one tick
// performs them.
func Kinds() []Kind { return []Kind{Repair, Dispatch, Withdraw, Retire} }

// AllKinds returns all kinds, those of muster first.
func AllKinds() []Kind {
	return []Kind{Dispatch, Withdraw, Retire, Repair, Damaged, Policy, Pause, Resume, Template, Cancel, CloseBreaker, Edit, Create, Delete, Revert, Merge, Unknown}
}

// Own reports whether such operations are in commits by muster.
func (k Kind) Own() bool { return k == Damaged || slices.Contains(Kinds(), k) }

// Command reports whether a person performs such operations with a command of muster.
func (k Kind) Command() bool { return k == Cancel || k == CloseBreaker }

// Operation is one operation of a log: of a commit by muster, or a change by people. [Read] yields one
// for each commit, and does not know what people changed: package history finds that out.
type Operation struct {
	// Commit is its commit. A commit by people may have several operations. It is zero if the operation
	// was not read from a log.
	branch.Commit
	// Kind is empty for a commit by people.
	Kind Kind
	// Path is the directory of the overlay in the repository, and Overlay the overlay's name. They are
	// empty if the operation concerns all overlays, or if they are unknown.
	Path, Overlay string
	// Damage is why a commit by muster cannot be parsed; nil if it can.
	Damage *Malformed

	// The following are set if muster or one of its commands made the commit, and it can be parsed.

	// Identity is the identifier of the overlay; empty if it had none.
	Identity string
	// Base is the commit that the decision was made on, and Decided the time of its poll, which is zero
	// for commands.
	Base    string
	Decided time.Time
	// Orders are the dispatches that were ordered, withdrawn, retired or cancelled. A repair and a
	// close-breaker have none.
	Orders []Order
	// Repaired are the files that a repair restored.
	Repaired []string
	// Limit is the limit that kept an order from having more agents, as in "max 50"; empty if none did.
	Limit string
	// Failures is the number of consecutive failed orders, after a retirement or before a close-breaker.
	Failures int
	// Observation is the input of the decision, except the tree of Base. Queue is its queue. Commands have
	// neither.
	Observation plan.Observation
	Queue       string
	// Version is the version of muster that decided, as in "v0.3.0".
	Version string
	// Text is the message without the trailers. It is for people.
	Text string

	// Package history sets the following.

	// Why is the reason or the change, in a few words.
	Why string
	// Reason is the reason that a person gave; empty if none.
	Reason string
	// Outcome is the outcome of an order; nil for other operations.
	Outcome *Outcome
	// Changes are the settings of a policy that were changed.
	Changes []Change
	// Files are the paths that people changed, each after a sign: + added, - removed, ~ changed.
	Files []string
}

// ByMuster reports whether muster made the commit, and it can be parsed. A person makes those of commands.
func (o *Operation) ByMuster() bool { return slices.Contains(Kinds(), o.Kind) }

// Dispatches returns the IDs of the orders.
func (o *Operation) Dispatches() []string {
	var ids []string
	for _, x := range o.Orders {
		ids = append(ids, x.ID)
	}
	return ids
}

// Agents returns the number of agents of all orders.
func (o *Operation) Agents() int {
	n := 0
	for _, x := range o.Orders {
		n += x.Agents
	}
	return n
}

// Trial reports whether the operation orders a trial.
func (o *Operation) Trial() bool {
	return slices.ContainsFunc(o.Orders, func(x Order) bool { return x.Trial })
}

// NeverCreated reports whether the operation cancels orders whose Jobs were never created.
func (o *Operation) NeverCreated() bool {
	return slices.ContainsFunc(o.Orders, func(x Order) bool { return x.NeverCreated })
}

// Lost returns how many agents of a retired order did not register.
func (o *Operation) Lost() int {
	if o.Outcome == nil || o.Outcome.State != Retired {
		return 0
	}
	return o.Agents() - o.Outcome.Registered
}

// Subject returns the first line of the text.
func (o *Operation) Subject() string {
	subject, _, _ := strings.Cut(o.Text, "\n")
	return subject
}

// Reasons returns the text after the first line.
func (o *Operation) Reasons() string {
	_, reasons, _ := strings.Cut(o.Text, "\n")
	return strings.TrimLeft(reasons, "\n")
}

// Brief returns the operation without its message, its observation, and its text except the subject: they
// are large.
func (o Operation) Brief() Operation {
	o.Message, o.Text, o.Observation = "", strings.Clone(o.Subject()), plan.Observation{}
	return o
}

// MarshalJSON returns what commands print of an operation.
func (o Operation) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		At         time.Time  `json:"at,omitzero"`
		DecidedAt  *time.Time `json:"decidedAt,omitempty"`
		Overlay    string     `json:"overlay,omitempty"`
		Kind       Kind       `json:"operation"`
		Agents     int        `json:"agents,omitempty"`
		Subject    string     `json:"subject,omitempty"`
		Why        string     `json:"why,omitempty"`
		Limit      string     `json:"limit,omitempty"`
		Reason     string     `json:"reason,omitempty"`
		Outcome    *Outcome   `json:"outcome,omitempty"`
		Changes    []Change   `json:"changes,omitempty"`
		Files      []string   `json:"files,omitempty"`
		Commit     string     `json:"commit,omitempty"`
		By         string     `json:"by,omitempty"`
		Email      string     `json:"email,omitempty"`
		Queue      string     `json:"queue,omitempty"`
		Dispatches []string   `json:"dispatches,omitempty"`
		Version    string     `json:"version,omitempty"`
	}{
		o.At, decidedAt(o.Decided), o.Overlay, o.Kind, o.Agents(), o.Subject(), o.Why, o.Limit, o.Reason, o.Outcome, o.Changes, o.Files,
		o.ID, o.Author, o.Email, o.Queue, o.Dispatches(), o.Version,
	})
}

func decidedAt(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Order is what an operation states about one dispatch.
type Order struct {
	// ID is the dispatch's, and Agents the number of agents ordered.
	ID     string
	Agents int
	// Purpose, NotAfter, which is the end of the lease, and Trial are set if the operation orders the
	// agents.
	Purpose  plan.Purpose
	NotAfter time.Time
	Trial    bool
	// Reason is why the dispatch is withdrawn or retired, Registered the number of its agents that
	// registered, and Failure how it failed. WrongTags reports that it failed because agents registered
	// without tags that they were ordered with.
	Reason     plan.RetireReason
	Registered int
	Failure    plan.Failure
	WrongTags  bool
	// Stale reports that muster did not look up its agents in Buildkite, because the lease had expired
	// long before. Copied and Withdrawn are those of [plan.Retirement].
	Stale, Copied, Withdrawn bool
	// NeverCreated reports that a person cancelled it, and said that its Job was never created.
	NeverCreated bool
}

// Change is a changed setting. Before and After are empty if it was, or is, unset.
type Change struct {
	Setting string `json:"setting"`
	Before  string `json:"before,omitempty"`
	After   string `json:"after,omitempty"`
}

// String returns the change as in "max 10 -> 40".
func (c Change) String() string {
	return c.Setting + " " + cmp.Or(c.Before, "none") + " -> " + cmp.Or(c.After, "none")
}

// OrderState is the state of an order.
type OrderState string

// The states of an order.
const (
	// InFlight: no commit contains its outcome yet.
	InFlight OrderState = "in flight"
	// Retired: all its agents have registered, or its lease has expired.
	Retired OrderState = "retired"
	// OutcomeUnknown: it was never retired, or so long after its lease that muster did not ask
	// Buildkite.
	OutcomeUnknown OrderState = "unknown"
)

// Outcome is the outcome of one commit's dispatches, by the commits since. Dispatches that were
// ordered together are retired together.
type Outcome struct {
	State OrderState `json:"state"`
	// Registered is how many of the agents have registered, by the newest observation that
	// names their dispatches: that of the retirement. It never exceeds the number ordered.
	Registered int `json:"registered"`
	// FirstAfter and AllAfter are the seconds until the first and until all of them
	// were known to have registered, by the firstAt and registeredAt of an observation; nil
	// if no process polled in between, as after a restart: registeredAt is then the time of
	// the order itself.
	FirstAfter *int `json:"firstAfter,omitempty"`
	AllAfter   *int `json:"allAfter,omitempty"`
	// HadJob is the minimum number of them that had a job: a dispatch leaves git when its agents
	// have registered, and others may get a job after that.
	HadJob int `json:"hadJob,omitempty"`
	// Unused is how many had registered and disconnected by the retirement, of dispatches without
	// an agent that is known to have had a job. There may be more: they disconnect later.
	Unused int `json:"unused,omitempty"`
}

// WhoWorked describes how many agents are known to have had a job; empty if none is.
func (o Outcome) WhoWorked() string {
	switch {
	case o.HadJob > 0 && o.HadJob == o.Registered:
		return "all had a job"
	case o.HadJob > 0:
		return fmt.Sprintf("at least %d had a job", o.HadJob)
	}
	return ""
}
