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
	// gaps returns what the source does not provide, one sentence each; see [plan.Snapshot].
	gaps() []string
}

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
