package buildkite

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"muster/generator/plan"
)

// JobNote is a notification on a job's page.
type JobNote struct {
	// Job is the job's identifier.
	Job string
	// Text is cut to 256 characters (docs apis/agent_api/stacks.md "Create stack
	// notifications").
	Text string
}

const (
	// longestNote is the maximum number of characters of a notification, and notesTogether the
	// number of notifications in one request.
	longestNote   = 256
	notesTogether = 1000
)

// Notify sends notifications and returns how many were accepted. The overlays have the queues with
// which a stack is registered, and its key. The caller need not know a job's cluster: a notification that one cluster refuses is sent to the next.
func (k *Stacks) Notify(ctx context.Context, overlays []plan.Overlay, notes []JobNote) (sent int, err error) {
	queues := k.name(overlays)
	for _, c := range k.clusters {
		var left []JobNote
		for some := range slices.Chunk(notes, notesTogether) {
			refused, err := k.notify(ctx, c, queues, some)
			if err != nil {
				return sent, err
			}
			sent += len(some) - len(refused)
			left = append(left, refused...)
		}
		if notes = left; len(notes) == 0 {
			break
		}
	}
	return sent, nil
}

// notify sends one request to one cluster, and returns the notifications that were refused.
func (k *Stacks) notify(ctx context.Context, c *stackCluster, queues []string, notes []JobNote) ([]JobNote, error) {
	token, err := agentToken(c.token)
	if err != nil {
		return nil, err
	}
	if !c.registered {
		if there, err := k.register(ctx, c, token, queues); err != nil || !there {
			return notes, err
		}
	}
	type note struct {
		Job    string `json:"job_uuid"`
		Detail string `json:"detail"`
	}
	sent := make([]note, len(notes))
	for i, n := range notes {
		text := []rune(n.Text)
		sent[i] = note{n.Job, string(text[:min(longestNote, len(text))])}
	}
	var answer struct {
		Errors []struct {
			Indexes []int `json:"indexes"`
		} `json:"errors"`
	}
	if _, err := k.ask(ctx, http.MethodPost, "stacks/"+c.key+"/notifications", token, map[string]any{"notifications": sent}, &answer, biggestSmall); err != nil {
		c.registered = false // Buildkite may have removed it
		return nil, fmt.Errorf("sending job notifications: %w", err)
	}
	var wrong []int
	for _, e := range answer.Errors {
		wrong = append(wrong, e.Indexes...)
	}
	var refused []JobNote
	for i, n := range notes {
		if slices.Contains(wrong, i) {
			refused = append(refused, n)
		}
	}
	return refused, nil
}

// noJob is the identifier of a job that does not exist.
const noJob = "00000000-0000-4000-8000-000000000000"

// TryNotify checks whether notifications can be sent: it sends one to a job that does not exist,
// which Buildkite must refuse. If it has to register a stack, it removes that again. Overlays
// are as for [Stacks.Notify]. It does not check that a page shows notifications.
func (k *Stacks) TryNotify(ctx context.Context, overlays []plan.Overlay) error {
	queues := k.name(overlays)
	found := false
	for _, c := range k.clusters {
		there, err := k.tryNotify(ctx, c, queues)
		if err != nil {
			return err
		}
		found = found || there
	}
	if !found {
		return errors.New("sending job notifications: no cluster of the agent tokens has a queue of an overlay")
	}
	return nil
}

// tryNotify checks one cluster, and reports whether it has one of the queues.
func (k *Stacks) tryNotify(ctx context.Context, c *stackCluster, queues []string) (there bool, err error) {
	try := func() error {
		refused, err := k.notify(ctx, c, queues, []JobNote{{Job: noJob, Text: "muster check"}})
		if err == nil && len(refused) == 0 {
			return errors.New("a notification for a job that does not exist was accepted")
		}
		return err
	}
	was := c.registered
	c.registered = true // another process may have registered it
	if err = try(); !hasStatus(err, http.StatusNotFound) {
		c.registered = was && err == nil
		return err == nil, err
	}
	token, err := agentToken(c.token)
	if err != nil {
		return false, err
	}
	if there, err = k.register(ctx, c, token, queues); err != nil || !there {
		return false, err
	}
	err = try()
	return true, errors.Join(err, k.deregister(ctx, c, token))
}
