package buildkite

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Verify checks, with two requests, that the token is good, that it has the
// scopes, and that it may see the organisation, and returns what Buildkite tells
// about it. A token without read_clusters does for an organisation without
// clusters: snapshots tell of it ([plan.Snapshot].Unread), and it is no error.
//
// It keeps no memory of a 429, for it is told no time.
func (c *Client) Verify(ctx context.Context) (Token, error) {
	s, err := c.open()
	if err != nil {
		return Token{}, err
	}
	token, err := s.accessToken(ctx)
	var syntax *syntaxError
	if errors.As(err, &syntax) {
		return token, errors.New("the Buildkite URL answers, but not as Buildkite does: check it")
	}
	if err != nil {
		return token, err
	}
	var missing []string
	for _, scope := range []string{"read_agents", "read_builds"} {
		if !token.May(scope) {
			missing = append(missing, scope)
		}
	}
	if len(missing) > 0 {
		return token, fmt.Errorf("the Buildkite API token lacks %s: %s", strings.Join(missing, " and "), makeToken)
	}
	_, err = s.get(ctx, s.path("agents")+"?per_page=1", func(st *stream) error { return wholeList(st, st.skip) })
	var answered *syntaxError
	if errors.As(err, &answered) {
		err = fmt.Errorf("listing agents: %w", err)
	}
	return token, err
}
