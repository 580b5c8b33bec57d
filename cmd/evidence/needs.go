package evidence

// needs has the reason for each belief that no check compares, with or without writing.
var needs = map[string]string{

	"git-hooks-first":           "needs a protected branch",
	"git-limit-status":          "needs more requests than the host allows",
	"git-rename-redirects":      "needs a renamed repository",
	"git-signatures":            "needs a push, and the host's page",
	"git-skip-marker-buildkite": "needs a push, and a pipeline on the repository",
	"git-skip-marker-host":      "needs a push, and CI of the host",
	"git-webhook-signature":     "needs a webhook",
	"github-limit-response":     "needs more requests than GitHub allows",
	"github-token-revoked":      "needs a token that is revoked",
	"github-write-limits":       "needs commits",

	"rest-all-teams": "needs a user who is not in all teams",
	"stacks-limit":   "needs 30 stacks, which others may need",

	"syncer-argocd-event":   "needs a syncer and a push",
	"syncer-flux-signature": "needs a syncer and a push",

	"webhook-agent-events":  "needs a webhook",
	"webhook-job-scheduled": "needs a webhook",
	"webhook-repeated":      "needs a webhook",
	"webhook-signature":     "needs a webhook",
	"webhook-timestamp":     "needs a webhook",
}
