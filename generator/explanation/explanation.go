// Package explanation explains the number of agents of a fleet: why a commit orders this number of agents
// and not more, why nothing was done at a time, and which order was for a job. Git is its only source.
// It replays decisions (package verification), so that the figures are those of the original decision.
//
//	Question ──Config.Explain──▶ []Explanation
package explanation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"muster/generator/condition"
	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/verification"
	"muster/gitops/branch"
)

// Repository reads the fleet repository.
type Repository interface {
	// Commits yields the commit from, or the head if that is empty, and its ancestors, newest first.
	Commits(ctx context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error]
	// Edits returns the changes of commits.
	Edits(ctx context.Context, commits []branch.Commit, trees map[string]string, look branch.Selection) ([]branch.Edits, error)
	// Past returns the files of a past commit; those in dirs will be read.
	Past(ctx context.Context, commit string, dirs []string) (branch.Head, error)
}

// Config is the configuration of explanations. All fields except Doing are required.
type Config struct {
	Repository Repository
	// Overlays is the directory of overlays, as in "overlays".
	Overlays string
	// Loader reads the overlays.
	Loader *fleet.Loader
	// Now is the current time.
	Now time.Time
	// Doing is called with the number of commits read so far, unless it is nil.
	Doing func(commits int)
}

// Question selects what to explain. The zero value selects muster's last commit.
type Question struct {
	// Name is a commit (HEAD, an identifier or the start of one, its page at a git host), a dispatch or
	// one of its agents, an overlay, or a Buildkite job (its page, its identifier, its address in an
	// API). With a moment, empty selects every overlay.
	Name string
	// At is the time to explain; zero is now. It must be zero for a commit, which has its own time.
	At time.Time
}

// Explanation is the answer. Unknown fields are empty.
type Explanation struct {
	// Subject is the subject in one line.
	Subject string `json:"subject"`
	// At is the time of the commit, or the time of the question.
	At      time.Time `json:"at,omitzero"`
	Overlay string    `json:"overlay,omitempty"`
	Queue   string    `json:"queue,omitempty"`
	// Commit is the commit's row of the audit log, with its outcome; nil for a time.
	Commit *ledger.Operation `json:"commit,omitempty"`
	// DecidedOn is the commit that the decision was based on.
	DecidedOn string `json:"decidedOn,omitempty"`
	// Poll is the time of the last poll of Buildkite that git contains.
	Poll time.Time `json:"poll,omitzero"`
	// Conditions are those at the time that are abnormal, or for which git records too little.
	Conditions []condition.Condition `json:"conditions,omitempty"`
	// Why is the answer, in sentences.
	Why []string `json:"why,omitempty"`
	// Steps are the arithmetic.
	Steps []plan.Step `json:"steps,omitempty"`
	// Limits are the reasons why no more agents were ordered, and NotMore the same in sentences.
	Limits  []plan.Limit `json:"limits,omitempty"`
	NotMore []string     `json:"notMore,omitempty"`
	// Uncounted are jobs and agents that existed and are not in the arithmetic.
	Uncounted []Uncounted `json:"uncounted,omitempty"`
	Policy    *Policy     `json:"policy,omitempty"`
	// Timeline lists the events with a known time, in chronological order.
	Timeline []Event `json:"timeline,omitempty"`
	// InFlight are the dispatches that were in git at a time and whose agents could still register.
	InFlight []InFlight `json:"inFlight,omitempty"`
	// Notes are remarks about the answer itself.
	Notes []string `json:"notes,omitempty"`
}

// Event is something that happened.
type Event struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// InFlight is a dispatch whose agents could still register.
type InFlight struct {
	ID string `json:"id"`
	// Agents are those that had not registered at the last poll.
	Agents   int       `json:"agents"`
	Ordered  time.Time `json:"ordered"`
	NotAfter time.Time `json:"notAfter"`
}

// Unknown is the error if the name of a question was not found.
type Unknown struct {
	// Name is the name that was not found. Known are the names of the overlays in the history
	// that was read.
	Name  string
	Known []string
}

// Error implements the error interface.
func (u *Unknown) Error() string {
	if u.Name == "" {
		return "there is no commit of muster's in the history"
	}
	return fmt.Sprintf("%q is no commit, dispatch or overlay in the history that was read", u.Name)
}

func (c Config) replay() verification.Replayer {
	return verification.Replayer{Overlays: c.Overlays, Loader: c.Loader, Tree: c.tree}
}

// log yields the operations of a commit, or of the head if from is empty, and of its ancestors.
func (c Config) log(ctx context.Context, from string) iter.Seq2[ledger.Operation, error] {
	return func(yield func(ledger.Operation, error) bool) {
		read := 0
		for r, err := range ledger.Read(c.Overlays, c.Repository.Commits(ctx, from, branch.Limit{})) {
			if read++; c.Doing != nil && read%1000 == 0 {
				c.Doing(read)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// Explain answers a question. It returns one explanation, except for a question without an overlay and
// for a commit by people: then it returns one for each overlay. The error is an [Unknown] if the name
// is not found.
func (c Config) Explain(ctx context.Context, q Question) ([]Explanation, error) {
	name := strings.TrimSuffix(q.Name, "/")
	switch ref := refersTo(q.Name); {
	case name == "" && !q.At.IsZero():
		return c.moments(ctx, "", q.At)
	case name == "" || name == "HEAD":
		return c.ofCommit(ctx, name, q.At)
	case ref.kind == jobName:
		return c.job(ctx, name, ref.id, q.At)
	case ref.kind == agentPage:
		return absentInGit(name, "agent"), nil
	case ref.kind == buildkitePage:
		return absentInGit(name, ""), nil
	case ref.kind == commitName || ref.kind == dispatchName:
		all, err := c.ofCommit(ctx, ref.id, q.At)
		if unknown := new(Unknown); !errors.As(err, &unknown) {
			return all, err
		}
	}
	return c.moments(ctx, ledger.Name(c.Overlays, name), q.At)
}

// ofCommit explains a commit, or the commit that ordered a dispatch. at must be zero.
func (c Config) ofCommit(ctx context.Context, id string, at time.Time) ([]Explanation, error) {
	f, err := c.find(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case !at.IsZero():
		return nil, ErrOwnTime
	}
	return c.found(ctx, f)
}

// ErrOwnTime reports a question with a time about a commit, which has its own time.
var ErrOwnTime = errors.New("a commit and a dispatch have their own time: leave --at out, or name an overlay")
