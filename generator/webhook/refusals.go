package webhook

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/generator/condition"
)

// Refused requests are a problem from fewRefused on, if none was accepted in the last quietFor: the
// sender has another secret, or sends another form. Anybody can send requests that are refused. While
// one is accepted at least every quietFor, they raise no problem; otherwise they raise one, which ends
// with the next accepted request, so that it begins at most once per quietFor.
const (
	fewRefused = 3
	quietFor   = 10 * time.Minute
)

// refusals are the requests of one path that were refused since the last one that was accepted.
type refusals struct {
	accepted time.Time // the last accepted one; zero: none
	count    int
	from     Source    // the sender of the last refused one, by its headers
	result   Result    // of the last one
	since    time.Time // since when they are a problem; zero: they are none
}

// why describes why requests with a result are refused; empty for other results.
func (r Result) why() string {
	switch r {
	case Forged:
		return "the signature or token is missing, or does not match the secret"
	case Outdated:
		return fmt.Sprintf("the signed time differs from muster's clock by more than %d minutes", MaxAge/time.Minute)
	case Replayed:
		return "it was received before"
	case Malformed:
		return "the body is neither JSON nor a form with JSON"
	case Oversized:
		return fmt.Sprintf("the body is larger than %d bytes", MaxBody)
	case Failed:
		return "the file with the secret, or the body, cannot be read"
	}
	return ""
}

// noteResult counts a refused request, and ends a problem with an accepted one.
func (r *Receiver) noteResult(path string, from Source, result Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.refusals[path]
	if x == nil {
		x = &refusals{}
		r.refusals[path] = x
	}
	now := r.cfg.Now()
	switch result {
	case Busy: // says nothing about the sender
	case Triggered, Ignored:
		*x = refusals{accepted: now}
	default:
		x.count, x.from, x.result = x.count+1, from, result
		if x.since.IsZero() && x.count >= fewRefused && (x.accepted.IsZero() || now.Sub(x.accepted) >= quietFor) {
			x.since = now
		}
	}
}

// Problems returns the condition that requests are refused, for [generator.Triggers]; none if they are
// not.
func (r *Receiver) Problems() []condition.Condition {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := condition.Condition{Reason: condition.WebhooksRefused}
	var all []string
	for _, path := range slices.Sorted(maps.Keys(r.refusals)) {
		x := r.refusals[path]
		if x.since.IsZero() {
			continue
		}
		last := "none was accepted since the start"
		if !x.accepted.IsZero() {
			last = "the last accepted one was at " + x.accepted.UTC().Format(time.RFC3339)
		}
		all = append(all, fmt.Sprintf("%d webhooks in a row to %s were refused, and %s; the last refused one, from %s: %s", x.count, path, last, x.from, x.result.why()))
		if c.LastTransitionTime.IsZero() || x.since.Before(c.LastTransitionTime) {
			c.LastTransitionTime = x.since
		}
	}
	if all == nil {
		return nil
	}
	c.Message = strings.Join(all, "; ")
	return []condition.Condition{c}
}
