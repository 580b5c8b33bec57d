package buildkite

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Leave removes the stacks that this process has made known, for one that only tried: each
// is one of the 30 that an organisation may have. One that was there before is another
// process's, and stays.
func (k *Stacks) Leave(ctx context.Context) error {
	var all []error
	for _, c := range k.clusters {
		if !c.created {
			continue
		}
		token, err := agentToken(c.token)
		if err == nil {
			err = k.deregister(ctx, c, token)
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// deregister removes a stack that was registered to try (docs apis/agent_api/stacks.md
// "De-register a stack").
func (k *Stacks) deregister(ctx context.Context, c *stackCluster, token string) error {
	c.registered, c.created = false, false
	if _, err := k.ask(ctx, http.MethodPost, "stacks/"+c.key+"/deregister", token, map[string]any{}, nil, biggestSmall); err != nil {
		return fmt.Errorf("removing the stack %s, which was registered to try: %w", c.key, err)
	}
	return nil
}
