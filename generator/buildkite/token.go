package buildkite

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// Token is what Buildkite tells about an API access token (docs
// apis/rest_api/access_token.md).
type Token struct {
	// Scopes are what it may do, as in read_builds.
	Scopes []string
	// Expires is when it stops to work; zero when it does not, or that is not
	// told. New tokens expire, after seven days unless told otherwise (docs
	// apis/managing_api_tokens.md).
	Expires time.Time
}

// May reports whether the token has a scope.
func (t Token) May(scope string) bool { return slices.Contains(t.Scopes, scope) }

// The days before its end from which a token that expires is a warning, and an
// error.
const (
	ExpiryWarning = 14 * 24 * time.Hour
	ExpiryError   = 2 * 24 * time.Hour
)

// Expiry says that a token is about to expire, and what to do; the level is
// below [slog.LevelWarn] when it is not.
func (t Token) Expiry(at time.Time) (slog.Level, string) {
	left := t.Expires.Sub(at)
	level := slog.LevelError
	switch {
	case t.Expires.IsZero() || left >= ExpiryWarning:
		return slog.LevelDebug, ""
	case left >= ExpiryError:
		level = slog.LevelWarn
	}
	end := t.Expires.Format(time.RFC3339)
	text := fmt.Sprintf("the Buildkite API token expires in %d days, at %s", daysLeft(left), end)
	switch {
	case left <= 0:
		text = "the Buildkite API token expired at " + end
	case daysLeft(left) == 1:
		text = "the Buildkite API token expires in 1 day, at " + end
	case daysLeft(left) == 0:
		text = "the Buildkite API token expires in less than a day, at " + end
	}
	return level, text + ": " + makeToken
}

// daysLeft is in whole days.
func daysLeft(left time.Duration) int { return max(0, int(left/(24*time.Hour))) }

// watchEvery is how often a client looks when its token expires.
const watchEvery = 24 * time.Hour

// watchToken logs, once a day, when the token is about to expire. That it cannot
// be found out is no trouble: the readings say whether the token works.
func (s *session) watchToken(ctx context.Context, at time.Time) {
	c := s.client
	if !c.cfg.WatchToken || !c.watched.IsZero() && at.Sub(c.watched) < watchEvery && !at.Before(c.watched) {
		return
	}
	token, err := s.accessToken(ctx)
	if err != nil {
		c.cfg.Log.Debug("when the Buildkite API token expires cannot be read", "err", err)
		if waits(err) {
			return // and ask again at the next look
		}
	}
	c.watched = at
	if err != nil {
		return
	}
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

// accessToken asks about the token itself, for which no scope is needed.
func (s *session) accessToken(ctx context.Context) (Token, error) {
	var token Token
	var scopes texts
	var expires moment
	_, err := s.get(ctx, "v2/access-token", func(st *stream) error {
		isObject, err := st.object(func(name []byte) error {
			switch string(name) {
			case "scopes":
				return st.into(&scopes)
			case "expires_at":
				return st.into(&expires)
			}
			return st.skip()
		})
		if err == nil && !isObject {
			err = notWhole("it is not an object")
		}
		if err != nil {
			return err
		}
		return st.finish()
	})
	token.Scopes, token.Expires = scopes, expires.at
	return token, err
}
