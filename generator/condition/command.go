package condition

import (
	"cmp"
	"slices"
	"strings"

	"muster/generator/plan"
)

// commands are the first commands of the remedies, by reason. NAME is the overlay, SLUG its name in
// labels, QUEUE the queue and CLUSTER its cluster.
var commands = map[string]string{
	string(plan.Paused):           "muster resume NAME",
	string(plan.Invalid):          "muster check",
	string(plan.AgentsCannotWork): "muster explain NAME",
	string(plan.Drifted):          "muster history NAME",
	string(plan.UnknownOrders):    "git log --oneline --walk-reflogs",
	Overdue:                       podsCommand,
	OrdersFailed:                  podsCommand,
	BreakerOpen:                   podsCommand,
	NotRecorded:                   "muster plan NAME",
	MaxReached:                    "muster plan NAME",
	HourlyLimitReached:            "muster history NAME",
	NoMatch:                       "muster plan",
	NoOverlay:                     "muster init . --queue QUEUE --cluster CLUSTER",
	EditedByHand:                  "muster history NAME",
	Refused:                       "muster check",
	Conflict:                      "git log --oneline -20",
	PushFailed:                    "muster check",
	ReadFailed:                    "muster check",
	PollFailed:                    "muster check",
	NoAnswer:                      "kubectl logs --namespace=muster deployment/muster --tail=50",
	InternalError:                 "kubectl logs --namespace=muster deployment/muster --tail=200",
	Stuck:                         "kubectl rollout restart --namespace=muster deployment/muster",
	AgentsInOtherQueue:            "muster explain NAME",
	BranchRewritten:               "git log --oneline -20",
	MetricsUnavailable:            "muster check",
}

const podsCommand = "kubectl get jobs,pods --all-namespaces --selector=muster.dev/overlay=SLUG"

// Command returns the first command of the remedy, for a shell in a clone of the fleet repository. It may
// be empty.
func (c Condition) Command() string { return Command([]Condition{c}) }

// mostNamed is the number of overlays that a command names.
const mostNamed = 20

// Command returns the command of conditions with one reason, for all their overlays or the first of many. It is
// empty for several if the command takes one.
func Command(all []Condition) string {
	c := all[0]
	text := commands[c.Reason]
	names, slugs := []string{quoted(c.Overlay)}, []string{cmp.Or(plan.Slug(c.Overlay), "NAME")}
	if len(all) > 1 && (strings.HasPrefix(text, "muster explain ") || strings.HasPrefix(text, "muster init ")) { // it takes one
		return ""
	}
	if len(all) > 1 && c.Overlay != "" {
		text = strings.Replace(text, "=muster.dev/overlay=SLUG", "='muster.dev/overlay in (SLUG)'", 1)
		for _, o := range all[1:min(len(all), mostNamed)] {
			names, slugs = append(names, quoted(o.Overlay)), append(slugs, plan.Slug(o.Overlay))
		}
	}
	if c.Misspelled {
		return ""
	}
	if c.Cluster == "" {
		text = strings.TrimSuffix(text, " --cluster CLUSTER")
	}
	if c.Overlay == "" {
		text = strings.TrimSuffix(text, " NAME")
	}
	return strings.NewReplacer("NAME", strings.Join(names, " "), "SLUG", strings.Join(slugs, ","), "QUEUE", quoted(c.Queue), "CLUSTER", quoted(c.Cluster)).Replace(text)
}

// quoted returns a word for a POSIX shell.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./@", r)
	}
	if word != "" && word[0] != '-' && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// titles are those of reasons that have no summary.
var titles = map[string]string{
	string(plan.Paused):            "paused by the policy",
	string(plan.PausedInBuildkite): "the queue is paused in Buildkite",
	string(plan.Invalid):           "files of the overlay are invalid",
	string(plan.UnknownCluster):    "Buildkite has no such cluster",
	string(plan.UnknownQueue):      "Buildkite has no such queue",
	string(plan.AmbiguousQueue):    "several clusters have the queue",
	string(plan.HostedQueue):       "only agents that Buildkite hosts can join the queue",
	string(plan.Drifted):           "a manifest was edited",
	string(plan.UnknownOrders):     "agents of orders that git does not contain are connected",
	string(plan.NoJobTaken):        "agents of the last orders took no job",
	NotRecorded:                    "git records no poll since the order",
	Conflict:                       "other writers push continuously",
	PushFailed:                     "pushes fail",
	ReadFailed:                     "the branch cannot be read",
	PollFailed:                     "Buildkite cannot be polled",
	NoAnswer:                       "a server does not answer",
	InternalError:                  "muster failed",
	Stuck:                          "no tick ends",
	StateInvalid:                   "state.yaml is invalid",
	ListUnread:                     "a part of Buildkite cannot be read",
	TokenExpires:                   "the Buildkite token expires soon",
}

// Title returns an abnormal condition in a few words without figures.
func (c Condition) Title() string { return title(c.Reason, string(c.Type)) }

func title(reason, otherwise string) string {
	return cmp.Or(titles[reason], summaries[reason], otherwise)
}

// Reason is a reason of conditions, with its title and its remedy.
type Reason struct{ Name, Title, Remedy string }

// Reasons returns all reasons that have a remedy, by name.
func Reasons() []Reason {
	var all []Reason
	for name, remedy := range remedies {
		all = append(all, Reason{name, title(name, ""), remedy})
	}
	slices.SortFunc(all, func(a, b Reason) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
