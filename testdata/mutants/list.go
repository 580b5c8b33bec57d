package main

import "slices"

// mutants are all of them.
var mutants = slices.Concat(incidentMutants, hostMutants, e2eMutants, operationMutants)

var incidentMutants = []mutant{
	{
		without: "the condition that agents are overdue",
		edits:   []edit{{"generator/condition/overlay.go", "	if a.Agents > 0 {\n		overdue =", "	if a.Agents < 0 {\n		overdue ="}},
		rows: map[string][]string{
			"incidents": {
				"TestIncidents/image-cannot-be-pulled", "TestIncidents/image-cannot-be-pulled-for-an-hour", "TestIncidents/Secret-missing",
				"TestIncidents/syncer-suspended", "TestIncidents/quota-full", "TestIncidents/node-pool-empty", "TestIncidents/agent-token-expired",
			},
			"e2e": {"TestRealNode/Secret"},
		},
	},
	{
		without: "patience with agents that are starting",
		edits:   []edit{{"generator/condition/overlay.go", "	if a.Agents > 0 {\n		overdue =", "	{\n		overdue ="}},
		rows:    map[string][]string{"incidents": {"TestIncidents/nothing-is-wrong", "TestIncidents/formatter"}},
	},
	{
		without: "the condition that the circuit breaker is open",
		edits:   []edit{{"generator/condition/overlay.go", "	case b.Open():\n", "	case false:\n"}},
		rows:    map[string][]string{"incidents": {"TestIncidents/agents-register-with-wrong-tags"}},
	},
	{
		without: "the condition that orders failed",
		edits:   []edit{{"generator/condition/overlay.go", "	case a.FailedOrders > 0:\n", "	case false:\n"}},
		rows:    map[string][]string{"incidents": {"TestIncidents/agents-leave-without-a-job"}},
	},
	{
		without: "the condition that agents cannot work",
		edits:   []edit{{"generator/condition/overlay.go", "	case o.Suspended.Code == plan.AgentsCannotWork:\n", "	case false:\n"}},
		rows:    map[string][]string{"incidents": {"TestIncidents/agents-in-another-cluster"}},
	},
	{
		without: "the condition that polls fail",
		edits:   []edit{{"generator/problem.go", "condition.BuildkiteAvailable, condition.PollFailed", "condition.BuildkiteAvailable, condition.InternalError"}},
		rows: map[string][]string{"incidents": {
			"TestIncidents/Buildkite-down", "TestIncidents/Buildkite-slow", "TestIncidents/API-token-expired", "TestIncidents/clock-off-by-ten-minutes",
		}},
	},
	{
		without: "the check of the clock",
		edits:   []edit{{"generator/buildkite/snapshot.go", "	case off > plan.ClockSkew:\n", "	case false:\n"}},
		rows:    map[string][]string{"incidents": {"TestIncidents/clock-off-by-ten-minutes"}},
	},
	{
		without: "the condition that a server asks to wait",
		edits:   []edit{{"generator/problem.go", "		c.Reason = condition.RateLimited\n", ""}},
		rows:    map[string][]string{"incidents": {"TestIncidents/Buildkite-answers-429-for-minutes"}},
	},
	{
		without: "the condition that polls are slow",
		edits:   []edit{{"generator/conditions.go", "if r.PollTook > condition.SlowPoll {", "if false {"}},
		rows:    map[string][]string{"incidents": {"TestIncidents/Buildkite-answers-after-20-s"}},
	},
	{
		without: "the condition that requests fail",
		edits:   []edit{{"generator/conditions.go", `if failing := r.Input.Snapshot.Failing; failing != "" {`, `if failing := r.Input.Snapshot.Failing; false {`}},
		rows:    map[string][]string{"incidents": {"TestIncidents/half-of-Buildkite's-answers-fail"}},
	},
	{
		without: "the condition that metrics cannot be read",
		edits:   []edit{{"generator/conditions.go", "if r.Metrics != nil {", "if false {"}},
		rows:    map[string][]string{"incidents": {"TestIncidents/muster's-agent-token-expired"}},
	},
	{
		without: "the condition that agents are in another queue",
		edits:   []edit{{"generator/condition/overlay.go", "if s.OtherQueue > 0 {", "if s.OtherQueue < 0 {"}},
		rows:    map[string][]string{"incidents": {"TestIncidents/queue-tag-lost", "TestIncidents/all-tags-lost"}},
	},
	{
		without: "the condition that another muster serves the queue",
		edits:   []edit{{"generator/condition/overlay.go", "if s.OtherFleets > 0 {", "if s.OtherFleets < 0 {"}},
		rows:    map[string][]string{"incidents": {"TestIncidents/second-muster"}},
	},
	{
		without: "the condition that webhooks are refused",
		edits:   []edit{{"generator/webhook/refusals.go", "		if x.since.IsZero() {\n			continue", "		if true {\n			continue"}},
		rows:    map[string][]string{"incidents": {"TestIncidents/wrong-webhook-secret"}},
	},
	{
		without: "the condition that a push is refused",
		edits:   []edit{{"generator/problem.go", "		c.Reason = condition.Refused\n", ""}},
		rows:    map[string][]string{"incidents": {"TestIncidents/push-refused-by-a-hook", "TestIncidents/branch-protected"}},
	},
	{
		without: "the condition that the repository cannot be read",
		edits:   []edit{{"generator/problem.go", "condition.RepositoryAvailable, condition.ReadFailed", "condition.RepositoryAvailable, condition.InternalError"}},
		rows: map[string][]string{"incidents": {
			"TestIncidents/repository-gone", "TestIncidents/git-server-down", "TestIncidents/git-credentials-expired",
		}},
	},
	{
		without: "the condition that git is slow",
		edits:   []edit{{"generator/conditions.go", "if r.GitTook > condition.SlowGit {", "if false {"}},
		rows:    map[string][]string{"incidents": {"TestIncidents/git-server-answers-after-20-s"}},
	},
	{
		without: "the condition that the branch was rewritten",
		edits:   []edit{{"generator/conditions.go", "if x := r.Rewritten; x != nil {", "if x := r.Rewritten; false {"}},
		rows:    map[string][]string{"incidents": {"TestIncidents/rewritten-branch"}},
	},
	{
		without: "the conditions of suspended overlays",
		edits:   []edit{{"generator/condition/overlay.go", `	case "", plan.BreakerOpen, plan.AgentsCannotWork, plan.PushRefused: // conditions of their own`, `	case s.Code: // conditions of their own`}},
		rows: map[string][]string{"incidents": {
			"TestIncidents/dispatch-edited", "TestIncidents/template-without-annotations-against-pruning", "TestIncidents/overlay-invalid",
			"TestIncidents/template-invalid", "TestIncidents/paused-and-forgotten",
		}},
	},
	{
		without: "the condition that an edit by hand was repaired",
		edits:   []edit{{"generator/condition/overlay.go", "if !o.Repaired.IsZero() && !o.Now.Before(o.Repaired)", "if o.Repaired.IsZero() && !o.Now.Before(o.Repaired)"}},
		rows:    map[string][]string{"incidents": {"TestIncidents/dispatch-deleted"}},
	},
	{
		without: "the comparison of manifests that ignores their format",
		edits:   []edit{{"generator/fleet/orders.go", "		case again != d.Manifest:\n", "		case again != \"\":\n"}},
		rows:    map[string][]string{"incidents": {"TestIncidents/formatter"}},
	},
	{
		without: "the condition that no overlay serves a queue",
		edits:   []edit{{"generator/conditions.go", "	for _, u := range r.Unserved {\n", "	for _, u := range r.Unserved[:0] {\n"}},
		rows:    map[string][]string{"incidents": {"TestIncidents/jobs-in-an-unknown-queue"}},
	},
	{
		without: "the condition that jobs match no overlay",
		edits:   []edit{{"generator/condition/overlay.go", "	if len(groups) > 0 {\n		c.Status, c.Reason, c.Remedy = False, NoMatch", "	if len(groups) < 0 {\n		c.Status, c.Reason, c.Remedy = False, NoMatch"}},
		rows:    map[string][]string{"incidents": {"TestIncidents/jobs-that-match-no-overlay"}},
	},
	{
		without: "the conditions that limits leave agents out",
		edits:   []edit{{"generator/condition/overlay.go", "for _, l := range o.Decision.Limits() {", "for _, l := range o.Decision.Limits()[:0] {"}},
		rows:    map[string][]string{"incidents": {"TestIncidents/max-too-small", "TestIncidents/hourly-limit-reached"}},
	},
}
