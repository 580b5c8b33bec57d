package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// zero is the identifier of no commit.
const zero = "0000000000000000000000000000000000000000"

// Check checks whether each receiver would accept a push, and returns the problems as the receivers
// report them.
//
//   - Argo CD gets a signed ping, which it checks and ignores (argo-cd,
//     util/webhook/webhook.go, Handler).
//   - Flux defines no such event, and a request without a signature does not test the
//     secret. So it gets a signed event, for which it fetches the repository once, as it
//     does at each interval.
//   - A URL gets a HEAD, because the effect of a POST is not known. It shows that the host
//     answers; only 401, 403 and statuses from 500 on count as problems.
func (n *Notifier) Check(ctx context.Context) []error {
	var findings []error
	for _, t := range n.senders {
		if err := t.check(ctx); err != nil {
			findings = append(findings, fmt.Errorf("the receiver %s: %w", t.post.Name, err))
		}
	}
	return findings
}

func (t *sender) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxTry)
	defer cancel()
	p := t.post
	switch {
	case p.Kind == URL:
		made, secrets, err := p.event(Push{Unlisted: true})
		if err != nil {
			return err
		}
		made.body = nil
		return t.headed(p.do(ctx, http.MethodHead, made, secrets))
	case p.Kind == ArgoCD:
		return p.ping(ctx)
	}
	return p.send(ctx, Push{Before: zero, After: zero, Unlisted: true})
}

// ping sends GitHub's event of that name (docs.github.com/webhooks/
// webhook-events-and-payloads, "ping").
func (p *post) ping(ctx context.Context) error {
	_, secrets, err := p.event(Push{Unlisted: true})
	if err != nil {
		return err
	}
	body := []byte(`{"zen":"muster check","hook_id":0}`)
	return p.do(ctx, http.MethodPost, event{body: body, header: hubHeader("ping", body, []byte(secrets[0]))}, secrets)
}

// headed returns the error of a HEAD request if it is a problem of the receiver.
func (t *sender) headed(err error) error {
	var r refused
	if errors.As(err, &r) {
		fault := r.status >= http.StatusInternalServerError && r.status != http.StatusNotImplemented ||
			r.status == http.StatusUnauthorized || r.status == http.StatusForbidden || r.status < http.StatusBadRequest
		if !fault {
			t.log.Info("the receiver answers; only a push shows whether it accepts pushes", "receiver", t.post.Name, "status", r.status)
			return nil
		}
	}
	return err
}
