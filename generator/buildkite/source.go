package buildkite

import (
	"context"
	"time"

	"muster/generator/plan"
)

// source reads Buildkite with one kind of credentials.
type source interface {
	// snapshot reads Buildkite; at and since are those of the [plan.Query].
	snapshot(ctx context.Context, at, since time.Time) (plan.Snapshot, error)
	// verify checks the credentials; see [Client.Verify].
	verify(ctx context.Context) (Token, error)
	// agentTokens returns the agent tokens of the served clusters; see [Client.AgentTokens].
	agentTokens(ctx context.Context) ([]AgentToken, error)
	// gaps are what the source cannot know, a sentence each; see [plan.Snapshot].
	gaps() []string
}

// stacksGap is what the Stacks API does not list.
const stacksGap = "jobs come from the Stacks API: jobs that wait for other steps are unknown, so that look-ahead orders nothing, and so are jobs of queues that no overlay serves"

// apiToken reads agents and builds from REST, and jobs from REST or the Stacks API.
type apiToken struct{ *Client }

func (c apiToken) gaps() []string {
	if c.cfg.Stacks == nil {
		return nil
	}
	return []string{stacksGap}
}

// agentTokens reads with agent tokens alone: jobs from the Stacks API, counts of agents from the
// metrics.
type agentTokens struct{ *Client }

// verify returns no token: the first snapshot checks agent tokens.
func (c agentTokens) verify(context.Context) (Token, error) { return Token{}, nil }

// agentTokens returns nothing: the Agent API does not report when a token expires.
func (c agentTokens) agentTokens(context.Context) ([]AgentToken, error) { return nil, nil }

func (c agentTokens) gaps() []string {
	return []string{stacksGap,
		"no API token is given: agents are counted and not listed, and muster infers from the jobs that were taken which of them registered. " +
			"The queues must be muster's alone, agents must exit after their job, and lost agents, min, buffer and reuse cost waiting time: " +
			"see docs/explanation/buildkite.md#running-without-an-api-token",
		"without an API token muster cannot know whether the queues are for self-hosted agents, whether other agents are in them, and whether agents register with their tags"}
}
