// Package condition describes the state of muster and of each overlay as conditions with the
// fields of Kubernetes' metav1.Condition, and a remedy. Log, status page, metrics, probes and
// commands render conditions and decide nothing on their own.
package condition

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"muster/generator/finding"
	"muster/generator/plan"
)

// Type is what a condition is about.
type Type string

// Types of conditions. Suspended, ScalingLimited, Drifted and Degraded are abnormal when they are
// true, the others when they are false.
const (
	// Ready: muster can order agents for the overlay; of muster itself: it decides and commits.
	Ready Type = "Ready"
	// Suspended: nothing is ordered for the overlay.
	Suspended Type = "Suspended"
	// AgentsArriving: the agents that were ordered register.
	AgentsArriving Type = "AgentsArriving"
	// ScalingLimited: the overlay needs more agents than its policy allows.
	ScalingLimited Type = "ScalingLimited"
	// JobsServed: every runnable job matches an overlay.
	JobsServed Type = "JobsServed"
	// PushAccepted: the git server accepts commits.
	PushAccepted Type = "PushAccepted"
	// Drifted: a person has edited or deleted files in dispatches/.
	Drifted Type = "Drifted"
	// Degraded: something is wrong that does not prevent decisions.
	Degraded Type = "Degraded"
	// RepositoryAvailable and BuildkiteAvailable: the last read succeeded. They concern muster
	// itself and not a single overlay.
	RepositoryAvailable Type = "RepositoryAvailable"
	BuildkiteAvailable  Type = "BuildkiteAvailable"
)

// Status is the status of a condition.
type Status string

// Statuses of a condition.
const (
	True    Status = "True"
	False   Status = "False"
	Unknown Status = "Unknown"
)

// Condition is one aspect of the state of an overlay, of a queue, or of muster itself.
type Condition struct {
	Type   Type   `json:"type"`
	Status Status `json:"status"`
	// Reason is a word in CamelCase for the cause of the status.
	Reason string `json:"reason"`
	// Message is the cause with its figures; it may be empty in a normal condition.
	Message string `json:"message,omitempty"`
	// Remedy is what to do about an abnormal condition, in order.
	Remedy string `json:"remedy,omitempty"`
	// LastTransitionTime is when the status changed; zero if that is unknown.
	LastTransitionTime time.Time `json:"lastTransitionTime,omitzero"`
	// Overlay and Queue are what the condition is about, and Cluster that of a queue that no
	// overlay serves. All are empty for muster itself.
	Overlay string `json:"overlay,omitempty"`
	Queue   string `json:"queue,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	// Misspelled: no overlay serves Queue, but one has almost the same name. Another overlay would be
	// wrong.
	Misspelled bool `json:"-"`
}

// abnormalIfTrue are the types that are normally false.
var abnormalIfTrue = []Type{Suspended, ScalingLimited, Drifted, Degraded}

// Abnormal reports whether the condition needs attention. An unknown status does not.
func (c Condition) Abnormal() bool {
	if slices.Contains(abnormalIfTrue, c.Type) {
		return c.Status == True
	}
	return c.Status == False
}

// String returns the condition and its subject on one line, as in "overlay default:
// AgentsArriving=False (Overdue): 0 of 10 agents registered".
func (c Condition) String() string {
	subject := ""
	switch {
	case c.Queue != "":
		subject = "queue " + c.Queue + ": "
	case c.Overlay != "":
		subject = "overlay " + c.Overlay + ": "
	}
	text := subject + string(c.Type) + "=" + string(c.Status) + " (" + c.Reason + ")"
	if c.Message != "" {
		text += ": " + strings.ReplaceAll(c.Message, "\n", " | ")
	}
	return text
}

// Level returns how urgent an abnormal condition is: [slog.LevelError] if nothing is ordered and
// nobody asked for that, [slog.LevelInfo] if muster works as its policy says, and otherwise
// [slog.LevelWarn].
func (c Condition) Level() slog.Level {
	switch c.Type {
	case ScalingLimited, Drifted:
		return slog.LevelInfo
	case Suspended:
		if !c.paused() {
			return slog.LevelError
		}
	case AgentsArriving:
		if c.Reason == BreakerOpen || c.Reason == string(plan.AgentsCannotWork) {
			return slog.LevelError
		}
	case Ready, RepositoryAvailable, BuildkiteAvailable, PushAccepted:
		if !slices.Contains([]string{RateLimited, Conflict, Overdue, OrdersFailed, "Paused", "PausedInBuildkite"}, c.Reason) {
			return slog.LevelError
		}
	}
	return slog.LevelWarn
}

// Summary returns an abnormal condition in words without figures, which stay the same while it
// lasts.
func (c Condition) Summary() string {
	if c.Type == Suspended {
		return "suspended: " + c.Message
	}
	return cmp.Or(summaries[c.Reason], c.Message)
}

// summaries are the words for reasons.
var summaries = map[string]string{
	Overdue:                       "agents that were ordered have not registered",
	OrdersFailed:                  "orders fail",
	BreakerOpen:                   "the circuit breaker is open",
	string(plan.AgentsCannotWork): "agents that registered match none of the jobs",
	MaxReached:                    "the overlay needs more agents than max allows",
	HourlyLimitReached:            "the overlay needs more agents than maxPerHour allows",
	NoMatch:                       "jobs match no overlay of their queue",
	NoOverlay:                     "jobs are pending in a queue that no overlay serves",
	EditedByHand:                  "a manual edit was repaired",
	Refused:                       "the git server refuses pushes",
	AgentsInOtherQueue:            "agents are in another queue or cluster than the policy says",
	OtherMuster:                   "the queue has agents of another muster",
	BranchRewritten:               "the branch was rewritten",
	MetricsUnavailable:            "Buildkite's metrics cannot be read",
	PollSlow:                      "polls of Buildkite are slow",
	WebhooksRefused:               "webhooks are refused",
	GitSlow:                       "the git server is slow",
	RequestsFail:                  "requests to Buildkite fail and are repeated",
	RateLimited:                   "polls are spread over several ticks: they need more than half of Buildkite's rate limit",
}

// Same reports whether two conditions have the same subject, type, status and reason. Their
// messages may differ.
func (c Condition) Same(o Condition) bool {
	return c.Overlay == o.Overlay && c.Queue == o.Queue && c.Cluster == o.Cluster && c.Type == o.Type && c.Status == o.Status && c.Reason == o.Reason
}

// Problems returns the abnormal conditions, the most urgent first. It leaves out Ready if another
// condition is its cause, and returns a condition that is about a queue once and
// not for each overlay of the queue.
func Problems(all []Condition) []Condition {
	var found []Condition
	for _, c := range all {
		if c.Queue != "" {
			c.Overlay = ""
		}
		cause := func(o Condition) bool {
			return o.Type != Ready && o.Abnormal() && (c.Overlay == "" || o.Overlay == c.Overlay || o.Overlay == "") && o.Reason == c.Reason
		}
		if !c.Abnormal() || slices.ContainsFunc(found, c.Same) || c.Type == Ready && slices.ContainsFunc(all, cause) {
			continue
		}
		found = append(found, c)
	}
	slices.SortStableFunc(found, func(a, b Condition) int { return cmp.Compare(b.Level(), a.Level()) })
	return found
}

// ProblemsInGit returns the abnormal conditions, as [Problems] does, and after them those for
// which git records too little.
func ProblemsInGit(all []Condition) []Condition {
	found := Problems(all)
	for _, c := range all {
		if c.Reason == NotRecorded && c.Type != Ready {
			found = append(found, c)
		}
	}
	return found
}

// Of returns the conditions of an overlay; those that concern none if the name is empty. The
// result is not nil.
func Of(all []Condition, overlay string) []Condition {
	found := []Condition{}
	for _, c := range all {
		if c.Overlay == overlay {
			found = append(found, c)
		}
	}
	return found
}

// Find returns the condition of a type; false without one.
func Find(all []Condition, t Type) (Condition, bool) {
	i := slices.IndexFunc(all, func(c Condition) bool { return c.Type == t })
	if i < 0 {
		return Condition{}, false
	}
	return all[i], true
}

// Chosen returns the condition that the state of an overlay is about: the first of [Problems], or another
// one of its level instead of a pause, or else Ready. An unknown Ready comes before conditions below
// [slog.LevelWarn].
func Chosen(all []Condition) Condition {
	ready, _ := Find(all, Ready)
	problems := Problems(all)
	if len(problems) == 0 || ready.Status != True && problems[0].Level() < slog.LevelWarn {
		return ready
	}
	if i := slices.IndexFunc(problems, func(c Condition) bool { return !c.paused() }); i > 0 && problems[i].Level() == problems[0].Level() {
		return problems[i]
	}
	return problems[0]
}

// paused reports whether people paused the overlay or its queue.
func (c Condition) paused() bool {
	return c.Type == Suspended && plan.Suspension{Code: plan.SuspensionCode(c.Reason)}.Wanted()
}

// State returns the state of an overlay in a word: the reason of the [Chosen] condition, or "Ready".
func State(all []Condition) string {
	switch c := Chosen(all); {
	case c.Abnormal() || c.Reason == NotRecorded:
		return c.Reason
	case c.Status == True:
		return string(Ready)
	}
	return string(Unknown)
}

// StateLevel returns the level of the [Chosen] condition, at least [slog.LevelWarn], and
// [slog.LevelDebug] if the state is "Ready".
func StateLevel(all []Condition) slog.Level {
	switch c := Chosen(all); {
	case c.Abnormal():
		return max(c.Level(), slog.LevelWarn)
	case c.Status != True:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// Since returns the conditions with the time of their last transition: that of the condition
// before if the status is the same, and otherwise the time that it contains, or now.
func Since(before, all []Condition, now time.Time) []Condition {
	all = slices.Clone(all)
	for i := range all {
		c := &all[i]
		c.LastTransitionTime = cmp.Or(c.LastTransitionTime, now)
		for _, b := range before {
			same := b.Type == c.Type && b.Status == c.Status && (b.Type != Degraded || b.Reason == c.Reason)
			if same && b.Overlay == c.Overlay && b.Queue == c.Queue && b.Cluster == c.Cluster {
				c.LastTransitionTime = b.LastTransitionTime
			}
		}
	}
	return all
}

// SlowPoll is the duration above which a poll of Buildkite is slow: polls usually take a few
// seconds. SlowGit is that of reading and pushing the branch in a tick, which usually take less than
// one second each.
const (
	SlowPoll = 30 * time.Second
	SlowGit  = 10 * time.Second
)

// Reasons of conditions, in addition to the codes of [plan.Suspension].
const (
	// AsExpected is the reason of every normal condition.
	AsExpected = "AsExpected"
	// NotDecided: muster could not decide on the overlay.
	NotDecided = "NotDecided"

	// Overdue: an agent has not registered in the time that agents of the overlay need.
	Overdue = "Overdue"
	// OrdersFailed: the last order failed, and no agent has registered since.
	OrdersFailed = "OrdersFailed"
	// BreakerOpen: several orders in a row have failed, so muster sends only trials.
	BreakerOpen = "BreakerOpen"
	// NotRecorded: git contains no poll since the order.
	NotRecorded = "NotRecorded"

	// MaxReached and HourlyLimitReached: max or maxPerHour of the policy leaves agents out.
	MaxReached         = "MaxReached"
	HourlyLimitReached = "HourlyLimitReached"

	// NoOverlay: no overlay serves the queue. NoMatch: no overlay of the queue has the tags.
	NoOverlay = "NoOverlay"
	NoMatch   = "NoMatch"

	// EditedByHand: muster has repaired a change of a person.
	EditedByHand = "EditedByHand"

	// Refused: the git server refused the push. Conflict: another writer pushed before every
	// attempt. PushFailed: the push failed otherwise.
	Refused    = "PushRefused"
	Conflict   = "Conflict"
	PushFailed = "PushFailed"
	// ReadFailed and PollFailed: reading git, or polling Buildkite, failed.
	ReadFailed = "ReadFailed"
	PollFailed = "PollFailed"
	// RateLimited: the server asks to wait.
	RateLimited = "RateLimited"
	// NoAnswer: the server has not answered for two intervals.
	NoAnswer = "NoAnswer"
	// InternalError: muster failed on its own. Stuck: no tick has ended for long.
	InternalError = "InternalError"
	Stuck         = "Stuck"

	// AgentsInOtherQueue: agents of the overlay are in another queue or cluster.
	AgentsInOtherQueue = "AgentsInOtherQueue"
	// OtherMuster: the queue has agents of another muster.
	OtherMuster = "OtherMuster"
	// BranchRewritten: the history of the branch no longer has the head that muster had read.
	BranchRewritten = "BranchRewritten"
	// StateInvalid: state.yaml is invalid and is ignored.
	StateInvalid = "StateInvalid"
	// ListUnread: an optional part of Buildkite could not be read.
	ListUnread = "ListUnread"
	// PollSlow: a poll of Buildkite took longer than SlowPoll.
	PollSlow = "PollSlow"
	// GitSlow: reading and pushing the branch, its files and its history took longer than SlowGit.
	GitSlow = "GitSlow"
	// RequestsFail: many requests to Buildkite fail, but muster decides.
	RequestsFail = "RequestsFail"
	// MetricsUnavailable: Buildkite's metrics cannot be read, so they trigger no tick.
	MetricsUnavailable = "MetricsUnavailable"
	// TokenExpires: a Buildkite token expires soon.
	TokenExpires = "TokenExpires"
	// WebhooksRefused: several webhooks were refused, and none was accepted.
	WebhooksRefused = "WebhooksRefused"
)

// OfPoll reports whether an abnormal condition is a result of the poll, and not of files or time.
func (c Condition) OfPoll() bool {
	switch c.Type {
	case Suspended:
		return c.Reason != string(plan.Paused) && c.Reason != string(plan.Invalid)
	case AgentsArriving:
		return c.Reason == string(plan.AgentsCannotWork)
	case Degraded:
		return c.Reason == AgentsInOtherQueue || c.Reason == OtherMuster
	}
	return c.Type == ScalingLimited || c.Type == JobsServed
}

// Normal returns the normal condition of a type.
func Normal(t Type) Condition {
	c := Condition{Type: t, Status: True, Reason: AsExpected}
	if c.Abnormal() {
		c.Status = False
	}
	return c
}

// notDecided returns the condition of a type if muster could not decide on the overlay.
func notDecided(t Type) Condition { return Condition{Type: t, Status: Unknown, Reason: NotDecided} }

// DegradedBy returns a condition Degraded for each problem, with its Reason, Message and
// LastTransitionTime. Without a problem it returns the normal one.
func DegradedBy(problems ...Condition) []Condition {
	if len(problems) == 0 {
		return []Condition{Normal(Degraded)}
	}
	var all []Condition
	for _, p := range problems {
		p.Type, p.Status = Degraded, True
		all = append(all, p.WithRemedy())
	}
	return all
}

// NotServed returns the condition of a queue that no overlay serves. It names an overlay whose queue has
// almost the same name.
func NotServed(u plan.Unserved, overlays []plan.Overlay) Condition {
	c := Condition{
		Type: JobsServed, Status: False, Reason: NoOverlay, Queue: u.Queue, Cluster: u.Cluster,
		Message: fmt.Sprintf("%s pending in a queue that no overlay serves%s, for example %q", count(u.Jobs, "job is", "jobs are"), u.Where(), u.Example),
	}
	if i := slices.IndexFunc(overlays, func(o plan.Overlay) bool { return Similar(u, o) }); i >= 0 {
		c.Misspelled = true
		c.Message += fmt.Sprintf("; the overlay %s has the queue %q: is one of them misspelled?", overlays[i].Name, overlays[i].Policy.Queue)
	}
	return c.WithRemedy()
}

// Similar reports whether the queue of an overlay may be a misspelling of one that no overlay serves, or
// the reverse.
func Similar(u plan.Unserved, o plan.Overlay) bool {
	const letters = 2
	d := finding.Distance(strings.ToLower(u.Queue), strings.ToLower(o.Policy.Queue))
	return u.Queue == o.Name || d <= letters && 2*d < len(u.Queue)
}
