// Package evidence compares the beliefs of package belief with what Buildkite and the git host return to requests
// that only read. Its results contain numbers and names of fields, but no secrets, identifiers, names or contents.
package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"muster/generator/belief"
	"muster/generator/buildkite"
	"muster/generator/ledger"
	"muster/gitops/git/remote"
)

// Verdict is the result for a belief.
type Verdict string

// The verdicts.
const (
	Confirmed    Verdict = "confirmed"
	Contradicted Verdict = "contradicted"
	// Unreachable means that nothing was observed that would confirm or contradict the belief.
	Unreachable Verdict = "not reachable"
)

// Result is the verdict on a belief, and what it is based on.
type Result struct {
	belief.Belief
	Verdict  Verdict
	Evidence string
}

// Config selects the services. Org and Token are required.
type Config struct {
	// Org is the organisation, and URL the address of the REST API; empty means Buildkite's own.
	Org, URL string
	// Token returns the API token.
	Token func() (string, error)
	// AgentToken returns an agent token; nil: without the Agent API. AgentURL is its address.
	AgentToken func() (string, error)
	AgentURL   string
	// Git is a connection to the fleet repository; nil: without a git host. Branch is its branch.
	Git    *remote.Connection
	Branch string
	// Budget is the maximum number of requests to the REST API.
	Budget int
	Clock  buildkite.Clock
	// HTTP sends the requests to Buildkite; nil means the default transport.
	HTTP http.RoundTripper
	// Doing reports what is read; it may be nil.
	Doing func(what string)
	// Write are the settings of writing; nil: live only reads.
	Write *Writing
	// GitHub is the repository as a GitHub App sees it; nil without one.
	GitHub *GitHub
}

// The maximum numbers of requests to the REST API, the Agent API and the git host. [DefaultBudget] suffices for all
// that is read of the REST API, and is below half of Buildkite's limit of a minute for a user.
const (
	DefaultBudget = 24
	AgentRequests = 2
	GitRequests   = 20
)

// noRequestsLeft is the reason for what the budget does not suffice for.
const noRequestsLeft = "no requests left"

// missingName is sent as a token, a password, and a name that do not exist.
const missingName = "muster-live-does-not-exist"

// Collect reads the services and returns a result for each belief, in the order of [belief.Kinds] and their IDs. An
// error means that Buildkite or the git host does not answer to the credentials, or, with results, that not all that
// was created is removed.
func Collect(ctx context.Context, c Config) ([]Result, error) {
	if c.Doing == nil {
		c.Doing = func(string) {}
	}
	git, err := openGit(ctx, c)
	if err != nil {
		return nil, err
	}
	r, err := connect(ctx, c)
	if err != nil {
		return nil, err
	}
	found, written := map[string]finding{}, map[string]finding{}
	var unremoved error
	if c.Write == nil {
		err = r.read(ctx)
	} else {
		w := newWriter(r, git)
		err, unremoved = w.play(ctx)
		written = w.found
	}
	if err != nil {
		return nil, interruption(ctx, c, err, unremoved)
	}
	for _, check := range checks {
		found[check.id] = r.o.finding(check)
	}
	if err := git.read(ctx, c, found); err != nil {
		return nil, interruption(ctx, c, err, unremoved)
	}
	for id, f := range written {
		if has, checked := found[id]; !checked || f.verdict == Contradicted || has.verdict == Unreachable {
			found[id] = f
		}
	}
	var results []Result
	for _, kind := range belief.Kinds() {
		for _, b := range belief.All() {
			if b.About != kind {
				continue
			}
			f, checked := found[b.ID]
			if !checked {
				f = unreachable(cmp.Or(needs[b.ID], "needs --write"))
			}
			results = append(results, Result{b, f.verdict, f.evidence})
		}
	}
	return results, unremoved
}

// interruption returns the errors of a comparison and of the removal.
func interruption(ctx context.Context, c Config, err, unremoved error) error {
	switch {
	case ctx.Err() == nil || c.Write == nil:
		return errors.Join(err, unremoved)
	case unremoved == nil:
		return errors.New("interrupted: the comparison is incomplete; what it created is removed")
	}
	return fmt.Errorf("interrupted: the comparison is incomplete; %w", unremoved)
}

// finding is the result of a check.
type finding struct {
	verdict  Verdict
	evidence string
}

func confirmed(format string, args ...any) finding {
	return finding{Confirmed, fmt.Sprintf(format, args...)}
}

func contradicted(format string, args ...any) finding {
	return finding{Contradicted, fmt.Sprintf(format, args...)}
}

func unreachable(why string) finding { return finding{Unreachable, why} }

// tally collects cases that agree with a belief, and the first that does not.
type tally struct {
	good int
	bad  string
}

// add adds a case. The text describes one that does not agree.
func (t *tally) add(agrees bool, format string, args ...any) {
	switch {
	case agrees:
		t.good++
	case t.bad == "":
		t.bad = fmt.Sprintf(format, args...)
	}
}

// finding returns the finding: of good cases, such as "3 jobs", text follows; none is the reason without any case.
func (t *tally) finding(noun, text, none string) finding {
	switch {
	case t.bad != "":
		return contradicted("%s", t.bad)
	case t.good == 0:
		return unreachable(none)
	}
	return confirmed("%s %s", ledger.Count(t.good, noun), text)
}
