package buildkite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Verify checks, with two requests, that the token is good, that it has the
// scopes, and that it may see the organisation. A token without read_clusters
// does for an organisation without clusters: that is logged, and no error.
//
// It keeps no memory of a 429, for it is told no time.
func (c *Client) Verify(ctx context.Context) error {
	s, err := c.open()
	if err != nil {
		return err
	}
	// The token's own scopes, for which none is needed: docs
	// apis/rest_api/access_token.md.
	raw, _, err := s.get(ctx, "v2/access-token")
	if err != nil {
		return err
	}
	var token struct {
		Scopes []string `json:"scopes"`
	}
	if err := json.Unmarshal(raw, &token); err != nil {
		return errors.New("the Buildkite URL answers, but not as Buildkite does: check it")
	}
	var missing []string
	for _, scope := range []string{"read_agents", "read_builds"} {
		if !slices.Contains(token.Scopes, scope) {
			missing = append(missing, scope)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the Buildkite API token lacks %s: %s", strings.Join(missing, " and "), makeToken)
	}
	if !slices.Contains(token.Scopes, "read_clusters") {
		c.cfg.Log.Warn("the Buildkite API token lacks read_clusters: paused queues cannot be seen")
	}
	page := url.Values{"per_page": {"1"}}
	raw, _, err = s.get(ctx, s.path("agents")+"?"+page.Encode())
	if err != nil {
		return err
	}
	if _, err := split(raw); err != nil {
		return fmt.Errorf("listing agents: %w", err)
	}
	return nil
}
