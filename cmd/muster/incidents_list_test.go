package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/condition"
	"muster/generator/plan"
	"muster/generator/simulation"
	"muster/gitops/branch"
	"muster/gitops/leaktest"
)

// shortIncident is the incident that TestIncidents plays without -incidents.
const shortIncident = "image cannot be pulled"

// ofOverlay is a condition of the overlay, and ofMuster one of muster itself or of a queue.
func ofOverlay(t condition.Type, reason string) conditionKey {
	return conditionKey{Type: t, Reason: reason, Overlay: incidentOverlay}
}

func ofMuster(t condition.Type, reason string) conditionKey {
	return conditionKey{Type: t, Reason: reason}
}

var overdue = ofOverlay(condition.AgentsArriving, condition.Overdue)

const (
	notPushed = "it does not push"
	notPolled = "it does not read the metrics"
	notSlow   = "its own requests are not slow here"
	waits     = "it waits until Buildkite allows its poll"
	// A report needs some requests.
	fewRequests = "it sends few requests"
)

// incidents are all incidents that are played.
var incidents = []incident{
	{name: "nothing is wrong", fine: true, ownBuilds: true, begin: func(w *incidentWorld) { w.build(5, 2*time.Minute) }},
	{
		name: "image cannot be pulled", want: overdue, firstDay: true,
		begin: func(w *incidentWorld) { w.fate.NoShow = true },
	},
	{ // orders fail, the circuit breaker opens, trials are sent
		name: "image cannot be pulled for an hour", ownBuilds: true, want: overdue, lasts: time.Hour,
		begin: func(w *incidentWorld) { w.fate.NoShow = true; w.build(5, 2*time.Hour) },
	},
	{name: "Secret missing", want: overdue, begin: func(w *incidentWorld) { w.fate.Startup = 24 * time.Hour }},
	{name: "syncer suspended", want: overdue, begin: func(w *incidentWorld) { w.stopped = true }},
	{ // the Job controller creates no pod
		name: "quota full", want: overdue,
		begin: func(w *incidentWorld) { w.fate.Made = 24 * time.Hour },
	},
	{ // a single pod, which never starts, has the only node
		name: "node pool empty", want: overdue,
		begin: func(w *incidentWorld) {
			w.cluster.SetNodes(1)
			w.fate.Startup = 24 * time.Hour
		},
	},
	{
		name: "agents register with wrong tags", ownBuilds: true,
		want:    ofOverlay(condition.AgentsArriving, condition.BreakerOpen),
		prepare: func(w *incidentWorld) { w.policy(`# tags: {}    `, `tags: {os: linux}`) },
		begin: func(w *incidentWorld) {
			w.cluster.Untagged = "os=linux"
			w.build(5, 20*time.Minute, "os=linux")
		},
	},
	{
		name: "agents leave without a job", ownBuilds: true,
		want:    ofOverlay(condition.AgentsArriving, condition.OrdersFailed),
		prepare: func(w *incidentWorld) { w.buildkite.At(w.begin.Add(7*time.Minute), func() { w.build(1, time.Hour) }) },
		begin: func(w *incidentWorld) {
			w.cluster.Registered = func(p *simulation.Pod) {
				w.buildkite.At(w.buildkite.Now().Add(time.Minute), func() { w.buildkite.StopAgent(p.Agent) })
			}
			w.buildkite.AddInvalid("jobs", untakenJob(w.buildkite.Now()))
		},
	},
	{ // the Secret has a token of another cluster
		name: "agents in another cluster", ownBuilds: true,
		want:    ofOverlay(condition.AgentsArriving, string(plan.AgentsCannotWork)),
		prepare: func(w *incidentWorld) { w.policy(`# cluster: ""  `, "cluster: ci    ") },
		begin: func(w *incidentWorld) {
			ci := w.cluster.BuildkiteCluster
			w.cluster.BuildkiteCluster = w.buildkite.AddCluster("other")
			w.buildkite.AddQueue(w.cluster.BuildkiteCluster, "default")
			w.buildIn(ci, 5, 20*time.Minute)
		},
	},
	{
		name: "Buildkite down", want: ofMuster(condition.BuildkiteAvailable, condition.PollFailed),
		begin: func(w *incidentWorld) {
			w.buildkite.Fail(fakebuildkite.Fault{Times: -1, Status: http.StatusServiceUnavailable})
		},
	},
	{ // muster asks once a minute, and git, which it asks as rarely, is available
		name: "Buildkite answers 429 for minutes", want: ofMuster(condition.BuildkiteAvailable, condition.RateLimited),
		blind: map[surface]string{surfacePlan: waits},
		begin: func(w *incidentWorld) {
			w.buildkite.Fail(fakebuildkite.Fault{Times: -1, Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"60"}}})
		},
	},
	{ // polls and orders take longer
		name: "Buildkite answers after 20 s", want: ofMuster(condition.Degraded, condition.PollSlow), blind: map[surface]string{surfacePlan: notSlow},
		begin: func(w *incidentWorld) { w.slow.Store(int64(20 * time.Second)) },
	},
	{ // a proxy gives up after 30 s
		name: "Buildkite slow", want: ofMuster(condition.BuildkiteAvailable, condition.PollFailed),
		begin: func(w *incidentWorld) {
			w.slow.Store(int64(30 * time.Second))
			w.buildkite.Fail(fakebuildkite.Fault{Times: -1, Status: http.StatusGatewayTimeout})
		},
	},
	{ // in every way; muster decides, later
		name: "half of Buildkite's answers fail", want: ofMuster(condition.Degraded, condition.RequestsFail),
		blind: map[surface]string{surfacePlan: fewRequests},
		begin: func(w *incidentWorld) {
			draw := rand.New(rand.NewPCG(1, 2))
			w.buildkite.Fail(fakebuildkite.Fault{Times: -1, Path: "/v2/", Status: http.StatusInternalServerError, Hits: func() bool { return draw.Float64() < 0.25 }})
			w.buildkite.Fail(fakebuildkite.Fault{Times: -1, Path: "/v2/", Half: true, Hits: func() bool { return draw.Float64() < 1.0/3 }})
		},
	},
	{
		name: "API token expired", want: ofMuster(condition.BuildkiteAvailable, condition.PollFailed),
		begin: func(w *incidentWorld) {
			w.buildkite.Fail(fakebuildkite.Fault{Times: -1, Status: http.StatusUnauthorized, Path: "/v2/"})
		},
	},
	{
		name: "agent token expired", want: overdue,
		begin: func(w *incidentWorld) {
			w.fate.NoShow = true
			w.buildkite.ExpireAgentToken(leaktest.AgentToken, w.buildkite.Now())
		},
	},
	{
		name: "muster's agent token expired", want: ofMuster(condition.Degraded, condition.MetricsUnavailable),
		blind:      map[surface]string{surfacePlan: notPolled},
		begin:      func(w *incidentWorld) { w.buildkite.ExpireAgentToken(leaktest.AgentToken, w.buildkite.Now()) },
		agentToken: true,
	},
	{ // a template sets --tags without the queue: agents register in the cluster's default queue
		name: "queue tag lost", ownBuilds: true, alone: true, want: ofOverlay(condition.Degraded, condition.AgentsInOtherQueue), lasts: 5 * time.Minute,
		begin: func(w *incidentWorld) {
			w.buildkite.AddQueue(w.cluster.BuildkiteCluster, "other")
			w.buildkite.SetDefaultQueue(w.cluster.BuildkiteCluster, "other")
			w.cluster.Untagged = "queue=default"
			w.build(10, 20*time.Minute, "queue=default")
		},
	},
	{ // a template sets other --tags: only the name of an agent tells its order
		name: "all tags lost", ownBuilds: true, want: ofOverlay(condition.Degraded, condition.AgentsInOtherQueue), lasts: 5 * time.Minute,
		begin: func(w *incidentWorld) {
			w.buildkite.AddQueue(w.cluster.BuildkiteCluster, "other")
			w.buildkite.SetDefaultQueue(w.cluster.BuildkiteCluster, "other")
			w.cluster.Untagged = "*"
			w.build(10, 20*time.Minute, "queue=default")
		},
	},
	{ // with another repository and another name of the overlay
		name: "second muster", ownBuilds: true, want: ofOverlay(condition.Degraded, condition.OtherMuster), lasts: lateAlert,
		begin: func(w *incidentWorld) {
			w.build(5, time.Hour)
			w.secondMuster("linux")
		},
	},
	{ // the token at Buildkite is another one than in the Secret
		name: "wrong webhook secret", want: ofMuster(condition.Degraded, condition.WebhooksRefused),
		blind: map[surface]string{surfacePlan: "it receives no webhooks"},
		begin: func(w *incidentWorld) {
			w.buildkite.AddWebhook(fakebuildkite.Webhook{Events: []string{"job.scheduled"}, Token: "another", Deliver: func(r *http.Request) {
				r.URL.Scheme, r.URL.Host = "http", w.address
				responseText(w.t, r)
			}})
		},
		webhooks: true,
	},
	{ // and more jobs than max
		name: "push refused by a hook", want: ofMuster(condition.PushAccepted, condition.Refused), ownBuilds: true, alone: true, draws: 30,
		blind: map[surface]string{surfacePlan: notPushed},
		begin: func(w *incidentWorld) {
			w.hook("commits must name an issue")
			w.build(30, 20*time.Minute)
		},
	},
	{
		name: "branch protected", want: ofMuster(condition.PushAccepted, condition.Refused),
		blind: map[surface]string{surfacePlan: notPushed},
		begin: func(w *incidentWorld) { w.hook("GH006: Protected branch update failed for refs/heads/main.") },
	},
	{
		name: "repository gone", want: ofMuster(condition.RepositoryAvailable, condition.ReadFailed),
		begin: func(w *incidentWorld) {
			check(w.t, os.Rename(w.repo.Dir, filepath.Join(filepath.Dir(w.repo.Dir), "renamed.git")))
		},
	},
	{
		name: "git server down", want: ofMuster(condition.RepositoryAvailable, condition.ReadFailed),
		begin: func(w *incidentWorld) { w.gitDown.Store(true) },
	},
	{ // orders take longer
		name: "git server answers after 20 s", want: ofMuster(condition.Degraded, condition.GitSlow), alone: true, blind: map[surface]string{surfacePlan: notSlow},
		begin: func(w *incidentWorld) { w.gitSlow.Store(int64(20 * time.Second)) },
	},
	{
		name: "git credentials expired", want: ofMuster(condition.RepositoryAvailable, condition.ReadFailed),
		begin: func(w *incidentWorld) { w.git.SetPassword("the next password") },
	},
	{ // a force-push from an old clone, without the last order
		name: "rewritten branch", ownBuilds: true, want: ofMuster(condition.Degraded, condition.BranchRewritten),
		blind: map[surface]string{
			surfacePlan:   "it has not read the head that is lost",
			surfaceStatus: "git does not contain it; status shows the repair that restored the order",
		},
		prepare: orderBefore,
		begin: func(w *incidentWorld) {
			_, err := w.repo.Git("update-ref", "refs/heads/main", "refs/heads/main~1")
			check(w.t, err)
			w.commit(branch.Change{Path: "README.md", Content: []byte("Our fleet\n")})
		},
	},
	{ // before the syncer has seen it, so that one of its agents never comes
		name: "dispatch edited", ownBuilds: true, want: ofOverlay(condition.Suspended, string(plan.Drifted)),
		prepare: func(w *incidentWorld) {
			orderBefore(w)
			w.buildkite.At(w.begin.Add(8*time.Minute), func() { w.stopped = true })
		},
		begin: func(w *incidentWorld) {
			w.edit(w.dispatch(), ": 5\n", ": 4\n")
			w.stopped = false
		},
	},
	{
		name: "dispatch deleted", ownBuilds: true, want: ofOverlay(condition.Drifted, condition.EditedByHand),
		prepare: orderBefore,
		begin: func(w *incidentWorld) {
			file := w.dispatch()
			w.edit("overlays/"+incidentOverlay+"/dispatches/kustomization.yaml", "- "+filepath.Base(file)+"\n", "")
			w.commit(branch.Change{Path: file})
		},
	},
	{
		name: "formatter", ownBuilds: true, fine: true, prepare: orderBefore,
		begin: func(w *incidentWorld) { w.reformat(w.dispatch()) },
	},
	{
		name: "template without annotations against pruning", want: ofOverlay(condition.Suspended, string(plan.Invalid)),
		begin: func(w *incidentWorld) {
			w.edit("base/job.yaml", "    kustomize.toolkit.fluxcd.io/prune: disabled\n", "")
		},
	},
	{
		name: "overlay invalid", want: ofOverlay(condition.Suspended, string(plan.Invalid)), alone: true,
		begin: func(w *incidentWorld) { w.policy("max: 10 ", "max: ten ") },
	},
	{
		name: "template invalid", want: ofOverlay(condition.Suspended, string(plan.Invalid)),
		begin: func(w *incidentWorld) {
			w.edit("overlays/"+incidentOverlay+"/template/kustomization.yaml", "../../../base", "../../../bsae")
		},
	},
	{
		name: "jobs in an unknown queue", ownBuilds: true,
		want: ofMuster(condition.JobsServed, condition.NoOverlay), lasts: lateAlert,
		begin: func(w *incidentWorld) { w.build(5, 20*time.Minute, "queue=gpu") },
	},
	{
		name: "jobs that match no overlay", ownBuilds: true,
		want: ofMuster(condition.JobsServed, condition.NoMatch), lasts: lateAlert,
		begin: func(w *incidentWorld) { w.build(5, 20*time.Minute, "queue=default", "os=windows") },
	},
	{
		name: "max too small", ownBuilds: true,
		want: ofOverlay(condition.ScalingLimited, condition.MaxReached), lasts: lateAlert,
		explains: "max has had this value since Grace created the overlay",
		begin:    func(w *incidentWorld) { w.build(30, 20*time.Minute) },
	},
	{
		name: "hourly limit reached", want: ofOverlay(condition.ScalingLimited, condition.HourlyLimitReached), lasts: lateAlert,
		prepare: func(w *incidentWorld) {
			w.policy("# maxPerHour: 0 ", fmt.Sprintf("maxPerHour: %d  ", plan.MinStartupTimes+2))
		},
	},
	{
		name: "paused and forgotten", want: ofOverlay(condition.Suspended, string(plan.Paused)),
		explains: "Grace changed paused at 2026-11-23T08:10:05Z",
		begin:    func(w *incidentWorld) { w.policy("# paused: false", "paused: true") },
	},
	{
		name: "clock off by ten minutes", want: ofMuster(condition.BuildkiteAvailable, condition.PollFailed),
		begin: func(w *incidentWorld) { w.clock.skew.Store(int64(10 * time.Minute)) },
	},
}

// untakenJob is the record of a job that is runnable and that no agent takes.
func untakenJob(now time.Time) string {
	at := now.UTC().Format(time.RFC3339)
	return `{"id":"untaken","type":"script","state":"scheduled","agent_query_rules":["queue=default"],"web_url":"https://buildkite.com/acme/app/builds/1#untaken",` +
		`"created_at":"` + at + `","scheduled_at":"` + at + `","runnable_at":"` + at + `"}`
}

// orderBefore lets agents be ordered shortly before the incident.
func orderBefore(w *incidentWorld) {
	w.buildkite.At(w.begin.Add(9*time.Minute), func() { w.build(5, 20*time.Minute) })
}
