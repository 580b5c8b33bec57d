package fakebuildkite

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// What an agent asks about its job; see agentapi.go.

// apiAccept returns the job to run. The agent's bootstrap requires a repository, but does not check it
// out (buildkite/agent clicommand/bootstrap.go and
// agent/job_runner.go).
func (s *Server) apiAccept(c call) (any, error) {
	j := c.job
	if j.agent != c.agent || j.state != stateAssigned {
		return nil, errNotYours
	}
	address := fmt.Sprintf("https://buildkite.com/%s/%s/builds/%d", s.opts.Org, j.build.spec.Pipeline, j.build.number)
	return map[string]any{
		"id": j.id, "state": "accepted", "runnable_at": stamp(j.runnable),
		"chunks_max_size_bytes": 1 << 16, "chunks_interval_seconds": 1, "log_max_size_bytes": 1 << 20,
		"env": map[string]string{
			"BUILDKITE": "true", "CI": "true",
			"BUILDKITE_AGENT_ID":          c.agent.id,
			"BUILDKITE_AGENT_NAME":        c.agent.spec.Name,
			"BUILDKITE_ORGANIZATION_SLUG": s.opts.Org,
			"BUILDKITE_PIPELINE_SLUG":     j.build.spec.Pipeline,
			"BUILDKITE_BRANCH":            j.build.spec.Branch,
			"BUILDKITE_BUILD_ID":          j.build.id,
			"BUILDKITE_BUILD_NUMBER":      fmt.Sprint(j.build.number),
			"BUILDKITE_BUILD_URL":         address,
			"BUILDKITE_COMMIT":            "HEAD",
			"BUILDKITE_JOB_ID":            j.id,
			"BUILDKITE_COMMAND":           j.step.Command,
			"BUILDKITE_PIPELINE_PROVIDER": "git",
			"BUILDKITE_REPO":              "https://example.com/app.git",
			"BUILDKITE_SKIP_CHECKOUT":     "true",
		},
		"step": map[string]string{"command": j.step.Command},
	}, nil
}

func (s *Server) apiStart(c call) (any, error) {
	j := c.job
	if j.agent != c.agent || j.state != stateAssigned {
		return nil, errNotYours
	}
	s.startJob(j, c.agent)
	return none{}, nil
}

// apiFinish ends a job. With ignore_agent_in_dispatches the agent takes no
// other: it was started with --disconnect-after-job.
func (s *Server) apiFinish(c call) (any, error) {
	j := c.job
	if j.agent != c.agent || j.state != stateRunning && j.state != stateCanceling {
		return nil, errNotYours
	}
	var request struct {
		Exit   string `json:"exit_status"`
		Ignore bool   `json:"ignore_agent_in_dispatches"`
	}
	c.decode(&request)
	c.agent.spec.AfterJob = c.agent.spec.AfterJob || request.Ignore
	if j.state == stateCanceling {
		s.endCanceled(j)
	} else {
		s.endJob(j, request.Exit == "0")
	}
	return none{}, nil
}

// apiJobState returns whether the agent's job is being cancelled.
func (s *Server) apiJobState(c call) (any, error) {
	return map[string]string{"id": c.job.id, "state": c.job.apiState()}, nil
}

// apiChunk takes a part of a job's log. Parts come in order from an agent that
// sends one at a time; where they do not, the log is only out of order.
func (s *Server) apiChunk(c call) (any, error) {
	text := c.body
	if c.gzip {
		r, err := gzip.NewReader(bytes.NewReader(c.body))
		if err == nil {
			text, err = io.ReadAll(r)
		}
		if err != nil {
			return nil, fmt.Errorf("the chunk cannot be unpacked: %w", err)
		}
	}
	c.job.log = append(c.job.log, text...)
	return none{}, nil
}
