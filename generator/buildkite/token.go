package buildkite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"muster/generator/plan"
)

// Token is Buildkite's record of an API access token (docs
// apis/rest_api/access_token.md).
type Token struct {
	// Scopes are its permissions, such as read_builds.
	Scopes []string
	// Expires is when it expires; zero if it does not, or if that is unknown. New tokens
	// expire after seven days by default (docs apis/managing_api_tokens.md).
	Expires time.Time
}

// The times before the expiry of a token from which it is a warning, and an error.
const (
	ExpiryWarning = 14 * 24 * time.Hour
	ExpiryError   = 2 * 24 * time.Hour
)

// Expiry returns a message and its level if the token is about to expire; otherwise the level is
// below [slog.LevelWarn].
func (t Token) Expiry(at time.Time) (slog.Level, string) {
	return expiry("the Buildkite API token", t.Expires, at, makeToken)
}

// expiry returns the log level and the warning for a token that expires.
func expiry(token string, expires, at time.Time, remedy string) (slog.Level, string) {
	left := expires.Sub(at)
	level := slog.LevelError
	switch {
	case expires.IsZero() || left >= ExpiryWarning:
		return slog.LevelDebug, ""
	case left >= ExpiryError:
		level = slog.LevelWarn
	}
	when := fmt.Sprintf("expires in %d days, at ", daysLeft(left))
	switch {
	case left <= 0:
		when = "expired at "
	case daysLeft(left) == 1:
		when = "expires in 1 day, at "
	case daysLeft(left) == 0:
		when = "expires in less than a day, at "
	}
	return level, token + " " + when + expires.Format(time.RFC3339) + ": " + remedy
}

// AgentToken is an agent token of a cluster (docs apis/rest_api/clusters/agent_tokens.md
// "Token data model").
type AgentToken struct {
	// ID and Description identify it; Cluster is its cluster's name.
	ID, Description, Cluster string
	// Expires is the time from which agents cannot register with it; zero if it does not
	// expire.
	Expires time.Time
}

// Expiry is like [Token.Expiry]. It returns no warning for a token that expired more than
// a day ago: the token has been replaced, or agents fail to register, which has a warning
// of its own.
func (t AgentToken) Expiry(at time.Time) (slog.Level, string) {
	if at.Sub(t.Expires) > 24*time.Hour {
		return slog.LevelDebug, ""
	}
	return expiry(fmt.Sprintf("the agent token %q of the Buildkite cluster %q", t.Description, t.Cluster), t.Expires, at,
		"agents cannot register with it after that; replace it where it is used, or revoke it if it is unused")
}

// AgentTokens returns the agent tokens of the clusters whose queues are served. The clusters
// are those of the last snapshot. Without an API token it returns none.
func (c *Client) AgentTokens(ctx context.Context) ([]AgentToken, error) {
	return c.source.agentTokens(ctx)
}

func (c apiToken) agentTokens(ctx context.Context) ([]AgentToken, error) {
	c.observing.Lock()
	defer c.observing.Unlock()
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	var all []AgentToken
	for _, cluster := range c.servedClusters() {
		tokens, err := s.agentTokens(ctx, cluster)
		if err != nil {
			return nil, err
		}
		all = append(all, tokens...)
	}
	return all, nil
}

// servedClusters returns the clusters with a served queue, each once.
func (c *Client) servedClusters() []plan.Queue {
	served := slices.DeleteFunc(slices.Clone(c.clusters.list), func(q plan.Queue) bool {
		return q.Hosted || !slices.Contains(c.serves, q.Key)
	})
	return slices.CompactFunc(served, func(a, b plan.Queue) bool { return a.Cluster == b.Cluster })
}

// agentTokens reads the agent tokens of a queue's cluster.
func (s *session) agentTokens(ctx context.Context, of plan.Queue) (tokens []AgentToken, err error) {
	list := &listing{path: s.path("clusters/" + of.Cluster + "/tokens")}
	err = readAll(ctx, s, "agent token", list, func(r agentTokenRecord) {
		tokens = append(tokens, AgentToken{
			ID: string(r.ID), Description: s.clean(string(r.Description)), Cluster: of.ClusterName, Expires: r.Expires.at,
		})
	})
	return tokens, err
}

// daysLeft returns whole days, at least zero.
func daysLeft(left time.Duration) int { return max(0, int(left/(24*time.Hour))) }

// watchedTokens is the last state of the agent tokens of a cluster.
type watchedTokens struct {
	at       time.Time
	expiring map[string]time.Time // time of the first warning, by identifier
}

// watchAgentTokens logs, once a day for each served cluster, which agent tokens are about
// to expire. It is not known which token the agents of an overlay use.
func (s *session) watchAgentTokens(ctx context.Context, at time.Time) {
	c := s.client
	for _, cluster := range c.servedClusters() {
		known := c.agentTokens[cluster.Cluster]
		if !c.cfg.WatchToken || !known.at.IsZero() && at.Sub(known.at) < watchEvery && !at.Before(known.at) {
			continue
		}
		tokens, err := s.agentTokens(ctx, cluster)
		if err != nil {
			c.cfg.Log.Debug("the agent tokens of a Buildkite cluster cannot be read", "cluster", cluster.ClusterName, "err", err)
			if waits(err) {
				return // and retry after the next poll
			}
		}
		read := watchedTokens{at: at, expiring: map[string]time.Time{}}
		for _, t := range tokens {
			level, text := t.Expiry(at)
			if level < slog.LevelWarn {
				continue
			}
			c.cfg.Log.Log(ctx, level, text, "reason", "agent-token-expires", "days", daysLeft(t.Expires.Sub(at)))
			if read.expiring[t.ID] = known.expiring[t.ID]; known.expiring[t.ID].IsZero() {
				read.expiring[t.ID] = at
			}
		}
		for _, id := range sorted(known.expiring) {
			if err == nil && read.expiring[id].IsZero() {
				c.cfg.Log.Info("resolved: an agent token expires", "reason", "agent-token-expires", "cluster", cluster.ClusterName, "token", id, "duration", at.Sub(known.expiring[id]))
			}
		}
		if err != nil {
			read.expiring = known.expiring
		}
		if c.agentTokens == nil {
			c.agentTokens = map[string]watchedTokens{}
		}
		c.agentTokens[cluster.Cluster] = read
	}
}

// watchEvery is how often a client checks when its tokens expire.
const watchEvery = 24 * time.Hour

// watchToken logs, once a day, that the token is about to expire. A failure to read the expiry
// is not an error: the polls show whether the token works.
func (s *session) watchToken(ctx context.Context, at time.Time) {
	c := s.client
	if !c.cfg.WatchToken || !c.watched.IsZero() && at.Sub(c.watched) < watchEvery && !at.Before(c.watched) {
		return
	}
	token, err := s.accessToken(ctx)
	if err != nil {
		c.cfg.Log.Debug("when the Buildkite API token expires cannot be read", "err", err)
		if !waits(err) { // else retry in the next poll
			c.watched = at
		}
		return
	}
	c.watched = at
	c.mu.Lock()
	c.stats.TokenExpires = token.Expires
	c.mu.Unlock()
	level, text := token.Expiry(at)
	switch {
	case level >= slog.LevelWarn:
		c.cfg.Log.Log(ctx, level, text, "reason", "token-expires", "days", daysLeft(token.Expires.Sub(at)))
		if c.expiring.IsZero() {
			c.expiring = at
		}
	case !c.expiring.IsZero():
		c.cfg.Log.Info("resolved: the Buildkite API token expires", "reason", "token-expires", "duration", at.Sub(c.expiring))
		c.expiring = time.Time{}
	}
}

// accessToken requests the record of the token, which requires no scope.
func (s *session) accessToken(ctx context.Context) (Token, error) {
	var token optional[struct {
		Scopes  texts  `json:"scopes"`
		Expires moment `json:"expires_at"`
	}]
	err := s.get(ctx, "v2/access-token", func(d *decoder) error {
		err := token.UnmarshalJSONFrom(d)
		if err == nil && !token.there {
			err = notWhole("it is not an object")
		}
		if err != nil {
			return err
		}
		return finish(d)
	})
	return Token{Scopes: token.value.Scopes, Expires: token.value.Expires.at}, err
}

// Verify checks, with two requests, that the token is valid, that it has the
// scopes, and that it may see the organisation. It returns Buildkite's record of the
// token. A token without read_clusters suffices for an organisation without clusters: Verify
// returns no error, and snapshots contain the fact ([plan.Snapshot].Unread).
//
// Without an API token it returns the zero Token, and makes no request.
//
// Verify does not remember a 429, because it does not know the caller's time.
func (c *Client) Verify(ctx context.Context) (Token, error) { return c.source.verify(ctx) }

func (c apiToken) verify(ctx context.Context) (Token, error) {
	s, err := c.open()
	if err != nil {
		return Token{}, err
	}
	token, err := s.accessToken(ctx)
	if syntax, isSyntax := errors.AsType[*syntaxError](err); isSyntax {
		return token, fmt.Errorf("the Buildkite URL answers, but not as Buildkite does: %w", syntax)
	}
	if err != nil {
		return token, err
	}
	var missing []string
	for _, scope := range []string{"read_agents", "read_builds"} {
		if !slices.Contains(token.Scopes, scope) {
			missing = append(missing, scope)
		}
	}
	if len(missing) > 0 {
		return token, fmt.Errorf("the Buildkite API token lacks %s: %s", strings.Join(missing, " and "), makeToken)
	}
	err = s.get(ctx, s.path("agents")+"?per_page=1", func(d *decoder) error { return wholeList(d, d.SkipValue) })
	if _, isSyntax := errors.AsType[*syntaxError](err); isSyntax {
		err = fmt.Errorf("listing agents: %w", err)
	}
	return token, err
}
