package buildkite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"muster/generator/plan"
)

// DefaultGraphQLURL is Buildkite's own GraphQL API. An API of another address has
// it at graphql/v1 below that.
const DefaultGraphQLURL = "https://graphql.buildkite.com/v1"

// scopeGraphQL is the token's scope for GraphQL (docs apis/graphql_api.md). It
// allows to write as well, so that muster asks nobody for it.
const scopeGraphQL = "graphql"

// ErrNoGraphQL is returned when the token may not ask GraphQL.
var ErrNoGraphQL = errors.New("the token lacks the scope graphql")

// Comparison is what GraphQL says of jobs that REST lists as scheduled: only
// GraphQL tells those that are limited by concurrency from those that are not.
type Comparison struct {
	// Jobs is how many jobs both had.
	Jobs int
	// Limited are those that the rule presumes limited and GraphQL calls
	// SCHEDULED; Runnable are those of which it is the other way round. Both are
	// pages of jobs.
	Limited, Runnable []string
}

// settled is how old a job must be to be compared: the two are not asked at the
// same moment.
const settled = time.Minute

// CompareLimited asks GraphQL for the states of the newest scheduled and limited
// jobs and compares them with the rule that a scheduled job without runnable_at
// is limited. The snapshot must be the client's last. A job that is younger than
// a minute is left out. It returns [ErrNoGraphQL] without asking when the token
// may not.
func (c *Client) CompareLimited(ctx context.Context, token Token, snapshot plan.Snapshot) (Comparison, error) {
	var found Comparison
	if !token.May(scopeGraphQL) {
		return found, ErrNoGraphQL
	}
	states, err := c.jobStates(ctx)
	if err != nil {
		return found, err
	}
	presumed := map[string]bool{}
	c.observing.Lock()
	for _, id := range c.sample {
		presumed[id] = true
	}
	// Counted as pending, and not known one by one.
	unknown := c.cfg.CountLimited && c.limited > len(c.sample)
	c.observing.Unlock()
	for _, j := range snapshot.Jobs {
		state, ok := states[j.ID]
		if !ok || !j.Created.Before(snapshot.At.Add(-settled)) || !presumed[j.ID] && (j.State != plan.JobPending || unknown) {
			continue
		}
		found.Jobs++
		switch {
		case presumed[j.ID] && state == "SCHEDULED":
			found.Limited = append(found.Limited, j.URL)
		case !presumed[j.ID] && state == "LIMITED" && j.Since.Before(snapshot.At.Add(-settled)):
			found.Runnable = append(found.Runnable, j.URL)
		}
	}
	return found, nil
}

const limitedQuery = `query($slug: ID!, $states: [JobStates!], $first: Int) {
  organization(slug: $slug) { jobs(first: $first, type: [COMMAND], state: $states) {
    edges { node { ... on JobTypeCommand { uuid state } } } } }
}`

// jobStates returns the states of jobs as GraphQL has them, by identifier.
func (c *Client) jobStates(ctx context.Context) (map[string]string, error) {
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	address := DefaultGraphQLURL
	if c.cfg.URL != DefaultURL {
		address = c.cfg.URL + "graphql/v1"
	}
	question, err := json.Marshal(map[string]any{
		"query":     limitedQuery,
		"variables": map[string]any{"slug": c.cfg.Org, "states": []string{"SCHEDULED", "LIMITED"}, "first": 5 * sampleSize},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "muster")
	var answer graphQLAnswer
	_, err = s.api.Do(request, sink{answer.read, s.window, cancel})
	var syntax *syntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("asking GraphQL: %w", syntax)
	case err != nil:
		return nil, s.explain(err, "graphql")
	}
	switch {
	case len(answer.Errors) > 0:
		return nil, fmt.Errorf("GraphQL answers: %s", s.clean(answer.Errors[0].Message))
	case answer.Data.Organization == nil:
		return nil, fmt.Errorf("GraphQL shows no organisation %q", c.cfg.Org)
	}
	states := map[string]string{}
	for _, e := range answer.Data.Organization.Jobs.Edges {
		states[e.Node.UUID] = strings.ToUpper(e.Node.State)
	}
	return states, nil
}

// graphQLAnswer is what GraphQL answers to [limitedQuery].
type graphQLAnswer struct {
	Errors []struct{ Message string }
	Data   struct {
		Organization *struct {
			Jobs struct {
				Edges []struct{ Node struct{ UUID, State string } }
			}
		}
	}
}

// read reads the answer, which is one value of [biggestValue] at most: 500 jobs are
// some 40 KiB.
func (a *graphQLAnswer) read(st *stream) error {
	raw, err := st.raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, a); err != nil {
		return &syntaxError{"the answer is not what was asked for"}
	}
	return st.finish()
}
