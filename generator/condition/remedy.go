package condition

import "muster/generator/plan"

// WithRemedy returns the condition with the remedy for its reason.
func (c Condition) WithRemedy() Condition {
	c.Remedy = remedies[c.Reason]
	return c
}

// pods are the checks for agents that do not register, in order.
const pods = "Check in this order: the syncer has applied the newest commit; the Job exists (kubectl get jobs -A -l muster.dev/overlay=NAME); " +
	"its pods start (kubectl get pods -A -l muster.dev/overlay=NAME: image, Secret, quota, nodes); the log of a pod (agent token, queue)."

// remedies are what to do about an abnormal condition, by its reason or by the cause of failed
// orders.
var remedies = map[string]string{
	string(plan.Paused):            "Remove paused: true from scaling.yaml, or run muster resume.",
	string(plan.PausedInBuildkite): "Resume the queue in Buildkite.",
	string(plan.Invalid):           "Correct what the message names and push; muster check, in a clone, reports when the files are valid. Running agents continue.",
	string(plan.UnknownCluster):    queueRemedy,
	string(plan.UnknownQueue):      queueRemedy,
	string(plan.AmbiguousQueue):    "Set spec.cluster in scaling.yaml to one of these clusters: without it, muster does not know which of them starts the agents.",
	string(plan.HostedQueue):       queueRemedy,
	string(plan.Drifted):           "Restore the manifest as the commit that added it has it (git checkout COMMIT -- FILE), or wait: muster orders again when no agent of the order can register any more.",
	string(plan.UnknownOrders):     "Nothing: muster orders again at that time. Find out who set the branch back, and protect it against force pushes.",
	string(plan.AgentsCannotWork):  tagsRemedy,
	Overdue:                        pods,
	OrdersFailed:                   pods,
	BreakerOpen:                    pods,
	string(plan.NoJobTaken):        tagsRemedy + " If agents exit, look at the log of a pod.",
	NotRecorded:                    "Run muster status --live URL, which asks the running muster, or muster plan, which polls Buildkite.",
	MaxReached:                     "Raise max in scaling.yaml (muster set) if the cluster has room; otherwise jobs wait for agents to finish.",
	HourlyLimitReached:             "See first whether the agents finished their jobs (muster history): if they end early, a higher limit only starts more. Then raise maxPerHour in scaling.yaml (muster set), or wait: the limit counts the last 60 minutes.",
	NoMatch:                        "Correct the rules in the step's agents, or add an overlay with the missing tag (muster init . --overlay NAME --queue QUEUE).",
	NoOverlay:                      "Correct the queue in the step's agents or in the policy, or add an overlay for the queue in that cluster (muster init . --queue QUEUE). If other agents serve it, do nothing.",
	EditedByHand:                   "Nothing: muster history shows the edit and the repair. Change scaling.yaml or template/ instead of dispatches/.",
	Refused:                        "Check branch protection, server hooks and muster's write access: muster check, with the same flags and variables, finds what is refused to every push; a rule for paths or contents is only in the server's message.",
	Conflict:                       "Nothing if it ends soon. Otherwise find out who pushes to the branch continuously: git log.",
	PushFailed:                     gitRemedy,
	ReadFailed:                     gitRemedy + " --overlays names a directory of the repository.",
	PollFailed:                     "Read the error first. 401 or 403: replace the API token; a wrong clock: synchronize it; otherwise check Buildkite's status page. muster check, with the same flags and variables, repeats the requests.",
	NoAnswer:                       "Check the server, the network policy and the log. muster decides nothing meanwhile; running agents continue.",
	RateLimited:                    "Nothing: muster waits as the server asks. If it lasts, find out who else uses that limit, or set a longer --interval.",
	InternalError:                  "This is a defect of muster: report it with the log.",
	Stuck:                          "Restart muster: its state is in git.",
	AgentsInOtherQueue:             "Nothing if the policy was just edited: these agents disconnect by themselves. " + templateRemedy,
	OtherMuster:                    "Give the two musters different queues, or stop one of them: the agents' tag muster= is the identity in the state.yaml of its overlays. Nothing if an overlay of the queue was just removed, or its identity: these agents exit by themselves.",
	BranchRewritten:                "Find out who pushed with --force, and protect the branch against it. muster restores the orders that it knows with its next commit.",
	StateInvalid:                   "Nothing: the next commit writes the file again.",
	PollSlow:                       "Check Buildkite's status page, the network and the proxy. muster continues.",
	GitSlow:                        "Check the git server's load, the network and the proxy; git ls-remote, from elsewhere, shows where the time is lost. muster continues.",
	RequestsFail:                   "Check Buildkite's status page, the network and the proxy. muster repeats the requests and continues.",
	MetricsUnavailable:             "Nothing is lost: muster polls at its interval. muster check, with the same flags and variables, reports what is wrong with the agent token.",
	WebhooksRefused:                "Nothing is lost: muster polls at its interval. Set the secret of the file (--buildkite-webhook-secret-file, --git-webhook-secret-file) at the sender, which must sign with it. If muster expects no webhook there, do not expose the path.",
	TokenExpires:                   "Create another token with the same scopes, and put it where muster reads it.",
}

const (
	gitRemedy   = "Check the git server and muster's credentials: muster check, with the same flags and variables."
	queueRemedy = "Correct spec.queue or spec.cluster in scaling.yaml, or create the queue in Buildkite."
	tagsRemedy  = "Compare the agents' tags and cluster in Buildkite with spec.tags and spec.cluster: a template or image that changes tags has this effect. " + templateRemedy
	// templateRemedy names the field of the template that gives agents their queue and tags.
	templateRemedy = `If a template changes the container's command or args: the agent must start with --tags "$MUSTER_AGENT_TAGS,index=$JOB_COMPLETION_INDEX", as in base/job.yaml, with no other --tags or BUILDKITE_AGENT_TAGS, and with a token of the policy's cluster. Without its queue tag, an agent is in the cluster's default queue.`
)
