package fakebuildkite

import (
	"encoding/json"
	"net/http"
)

// maxStates is the maximum number of jobs in one request (docs apis/agent_api/stacks.md "Get job
// states").
const maxStates = 1000

// jobStates tells the states of jobs of the stack's cluster (docs apis/agent_api/stacks.md
// "Get job states"; limit "batch-load-job-states"). The names are those of Buildkite's own
// states (docs pipelines/configure/defining_steps.md "Job states"), in which a job that has
// ended is finished; buildkite/stacksapi get_job_states_test.go also has failed, as REST
// says, so that either may come: [Options].RESTStates. What is answered of a job that there
// is not is not documented: here it is left out.
func (s *Server) jobStates(c *cluster, body []byte) answer {
	var request struct {
		Jobs []string `json:"job_uuids"`
	}
	if err := json.Unmarshal(body, &request); err != nil || request.Jobs == nil {
		return message(http.StatusBadRequest, "job_uuids is not an array")
	}
	if len(request.Jobs) > maxStates {
		return message(http.StatusUnprocessableEntity, "too many job_uuids")
	}
	states := map[string]string{}
	for _, id := range request.Jobs {
		j := s.jobByID[id]
		if j == nil || j.build.cluster != c {
			continue
		}
		states[id] = j.state
		if !s.opts.RESTStates && (j.state == statePassed || j.state == stateFailed) {
			states[id] = "finished"
		}
	}
	return answer{status: http.StatusOK, body: encode(map[string]any{"states": states})}
}
