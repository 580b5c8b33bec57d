package fakebuildkite

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
)

// graphqlPath is where GraphQL is asked; graphql.buildkite.com has it at /v1
// (docs apis/graphql_api.md).
const graphqlPath = "/graphql/v1"

// answerGraphQL answers the one question that the client has: the command jobs
// of an organisation in some states, newest first, with the states as GraphQL
// has them: it tells LIMITED from SCHEDULED (docs apis/graphql/schemas/enum
// "JobStates"). Any other question gets an error.
func (s *Server) answerGraphQL(r *http.Request) answer {
	if !slices.Contains(s.opts.Scopes, "graphql") {
		return message(http.StatusForbidden, "Forbidden: the token lacks the scope graphql")
	}
	var question struct {
		Query     string `json:"query"`
		Variables struct {
			Slug   string   `json:"slug"`
			States []string `json:"states"`
			First  int      `json:"first"`
		} `json:"variables"`
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(raw, &question) != nil || !strings.Contains(question.Query, "jobs(") {
		return graphqlError("The simulator does not know this question.")
	}
	if question.Variables.Slug != s.opts.Org {
		return answer{status: http.StatusOK, body: encode(map[string]any{"data": map[string]any{"organization": nil}})}
	}
	edges := []any{}
	for _, j := range slices.Backward(s.jobs) {
		state := strings.ToUpper(j.state)
		if j.step.Type == Command && !j.retried && len(edges) < question.Variables.First && slices.Contains(question.Variables.States, state) {
			edges = append(edges, map[string]any{"node": map[string]any{"uuid": j.id, "state": state}})
		}
	}
	return answer{status: http.StatusOK, body: encode(map[string]any{
		"data": map[string]any{"organization": map[string]any{"jobs": map[string]any{"edges": edges}}},
	})}
}

// graphqlError is an answer with errors, which has the status 200 all the same.
func graphqlError(text string) answer {
	return answer{status: http.StatusOK, body: encode(map[string]any{"errors": []any{map[string]string{"message": text}}})}
}
