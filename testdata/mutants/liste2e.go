package main

// unchecked lets muster order agents with any template.
var unchecked = edit{"generator/fleet/checkjob.go", "	c.hook()\n	return c.findings\n", "	c.hook()\n	return nil\n"}

// e2eMutants are those of make e2e.
var e2eMutants = []mutant{
	{
		without: "the annotations against pruning",
		edits: []edit{
			unchecked,
			{"base/job.yaml", "    argocd.argoproj.io/sync-options: Prune=false,Delete=false\n", ""},
			{"base/job.yaml", "    kustomize.toolkit.fluxcd.io/prune: disabled\n", ""},
		},
		rows: map[string][]string{"e2e": {
			"TestAll/Life", "TestAll/Deleted", "TestAll/Transformed", "TestAll/ApplicationSet",
		}},
	},
	{
		without: "the annotation against Argo CD's deletion",
		edits: []edit{
			unchecked,
			{"base/job.yaml", "Prune=false,Delete=false\n", "Prune=false\n"},
		},
		rows: map[string][]string{"e2e": {"TestAll/Deleted/argocd"}},
	},
	{
		without: "the rule that disrupted pods have not failed",
		edits: []edit{
			unchecked,
			{"base/job.yaml", "      - action: Ignore\n        onPodConditions:\n          - type: DisruptionTarget\n            status: \"True\"\n", "      - action: Ignore\n        onExitCodes: {operator: In, values: [99]}\n"},
		},
		rows: map[string][]string{"e2e": {"TestAll/Eviction", "TestAll/Preemption", "TestAll/NodeLost", "TestRealNode/Drained", "TestRealNode/Dies"}},
	},
	{
		without: "the label of the agents' pods",
		edits:   []edit{unchecked, {"base/job.yaml", "      labels:\n        app.kubernetes.io/name: buildkite-agent\n", "      labels:\n"}},
		rows:    map[string][]string{"e2e": {"TestAll/DisruptionBudget"}},
	},
	{
		without: "the grace period of an hour",
		edits: []edit{
			unchecked,
			{"base/job.yaml", "terminationGracePeriodSeconds: 3600", "terminationGracePeriodSeconds: 1"},
		},
		rows: map[string][]string{"e2e": {
			"TestAll/Eviction", "TestAll/Namespace", "TestAll/Preemption", "TestAll/Twice", "TestRealNode/Works", "TestRealNode/Drained", "TestRealNode/Preempted",
		}},
	},
	{
		without: "the failure of each agent for itself",
		edits: []edit{
			unchecked,
			{"base/job.yaml", "  backoffLimitPerIndex: 0\n", "  backoffLimit: 0\n"},
		},
		rows: map[string][]string{"e2e": {"TestAll/Failures"}},
	},
	{
		without: "the lease in the agent's command",
		edits: []edit{
			{"base/job.yaml", `if ! [ "$now" -le "$not_after" ]; then`, "if false; then"},
			{"base/job.yaml", `now=\$(date -u +%Y%m%d%H%M%S) && [ "\$now" -le "$not_after" ] && exit 0`, "exit 0"},
		},
		rows: map[string][]string{"e2e": {"TestAll/LeftInGit"}},
	},
	{
		without: "the reuse of agents",
		edits:   []edit{{"base/job.yaml", `*) set -- --disconnect-after-uptime "$MUSTER_UPTIME" ;;`, "*) set -- --disconnect-after-job ;;"}},
		rows:    map[string][]string{"e2e": {"TestAll/Reuse"}},
	},
	{
		without: "the agents' uptime",
		edits:   []edit{{"base/job.yaml", `*) set -- --disconnect-after-uptime "$MUSTER_UPTIME" ;;`, "*) set -- ;;"}},
		rows:    map[string][]string{"e2e": {"TestAll/Reuse"}},
	},
	{
		without: "the TTL of Jobs",
		edits:   []edit{unchecked, {"base/job.yaml", "  ttlSecondsAfterFinished: 3600\n", ""}},
		rows:    map[string][]string{"e2e": {"TestAll/Life"}},
	},
	{
		without: "the edits of a template",
		edits: []edit{{"generator/fleet/kustomizefs.go", "func (v *view) unchanged(notes map[string]string) bool {\n", `func (v *view) unchanged(notes map[string]string) bool {
	if strings.HasPrefix(v.name, "template ") {
		return true
	}
`}},
		rows: map[string][]string{"e2e": {"TestAll/Edits", "TestAll/Corrected", "TestAll/Unstarted"}},
	},
	{
		without: "the syncers' early retries",
		edits: []edit{
			{"deploy/syncers/argocd/overlay.yaml", "      limit: 65\n", "      limit: 0\n"},
			{"deploy/syncers/flux/overlay.yaml", "  retryInterval: 1m\n", "  retryInterval: 1h\n"},
		},
		rows: map[string][]string{"e2e": {"TestAll/Refused/policy", "TestAll/Refused/webhook", "TestAll/Refused/quota"}},
	},
	{
		without: "Argo CD's retry with the newest commit",
		edits:   []edit{{"deploy/syncers/argocd/overlay.yaml", "      refresh: true\n", "      refresh: false\n"}},
		rows:    map[string][]string{"e2e": {"TestAll/Corrected/argocd"}},
	},
	{
		without: "the limits of what overlays may create",
		edits: []edit{
			{"deploy/syncers/argocd/overlay.yaml", "  project: agents\n", "  project: default\n"},
			{"deploy/syncers/flux/overlay.yaml", "  serviceAccountName: agents\n", ""},
		},
		rows: map[string][]string{"e2e": {"TestAll/Rights/flux", "TestAll/Rights/argocd"}},
	},
	{
		without: "what keeps syncers from changing Jobs",
		edits: []edit{
			unchecked,
			{"base/job.yaml", "    kustomize.toolkit.fluxcd.io/ssa: IfNotPresent\n", ""},
			{"deploy/syncers/argocd/overlay.yaml", "  ignoreDifferences:\n    - group: batch\n      kind: Job\n      jsonPointers:\n        - /spec\n", ""},
			{"deploy/syncers/argocd/overlay.yaml", "      - RespectIgnoreDifferences=true\n", ""},
		},
		rows: map[string][]string{"e2e": {"TestAll/Rewritten/flux", "TestAll/Rewritten/argocd"}},
	},
	{
		without: "the annotation against Flux's variables",
		edits:   []edit{unchecked, {"base/job.yaml", "    kustomize.toolkit.fluxcd.io/substitute: disabled\n", ""}},
		rows:    map[string][]string{"e2e": {"TestAll/Transformed/flux"}},
	},
	{
		without: "the command's dispatch",
		edits:   []edit{{"generator/ledger/prose.go", `	selector := "muster.dev/dispatch=" + ids[0]`, `	selector := "muster.dev/dispatch,muster.dev/dispatch!=" + ids[0][:1]`}},
		rows:    map[string][]string{"e2e": {"TestAll/Unstarted"}},
	},
	{
		without: "agents in flight",
		edits:   []edit{{"generator/plan/decide.go", "	s.figures.InFlight, otherQueue = s.inFlight(o.At)\n", "	_, otherQueue = s.inFlight(o.At)\n"}},
		rows: map[string][]string{"e2e": {
			"TestAll/Clock/fast", "TestAll/Clock/slow", "TestAll/Twice", "TestAll/PodQuota", "TestAll/LimitRange",
		}},
	},
	{
		without: "the shift of clocks",
		edits: []edit{
			{"testdata/e2e/agents_test.go", `ahead := pod.Metadata.Annotations[clockAnnotation]; ahead != ""`, `ahead := pod.Metadata.Annotations[clockAnnotation]; false`},
			{"testdata/e2e/drain_test.go", `"fast": "+120", "slow": "-120"`, `"fast": "+0", "slow": "-0"`},
		},
		rows: map[string][]string{"e2e": {
			"TestAll/Clock/fast", "TestAll/Clock/slow", "TestRealNode/OtherTime/fast", "TestRealNode/OtherTime/slow",
		}},
	},
	{
		without: "notifications",
		edits:   []edit{{"gitops/notify/notifier.go", "	for _, t := range n.senders {\n		t.landed(p)\n	}\n", "	_ = p\n"}},
		rows:    map[string][]string{"e2e": {"TestNotifiedTrace/flux", "TestNotifiedTrace/argocd"}},
	},
	{
		without: "the read-only root",
		edits:   []edit{{"base/job.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"}},
		rows:    map[string][]string{"e2e": {"TestRealNode/Works"}},
	},
	{
		without: "the removal of the token from the environment",
		edits:   []edit{unchecked, {"base/job.yaml", "              unset BUILDKITE_AGENT_TOKEN\n", "              export BUILDKITE_AGENT_TOKEN\n"}},
		rows:    map[string][]string{"e2e": {"TestRealNode/Works"}},
	},
	{
		without: "the restart after an edit of muster.env",
		edits:   []edit{{"deploy/base/kustomization.yaml", "configMapGenerator:\n", "generatorOptions:\n  disableNameSuffixHash: true\nconfigMapGenerator:\n"}},
		rows:    map[string][]string{"e2e": {"TestDeployed/flux/Works", "TestDeployed/argocd/Works"}},
	},
	{
		without: "the memory limit of deploy/",
		edits:   []edit{{"deploy/base/deployment.yaml", "            limits:\n              memory: 256Mi\n", "            limits:\n"}},
		rows:    map[string][]string{"e2e": {"TestDeployed/flux/Memory", "TestDeployed/argocd/Memory"}},
	},
	{
		without: "the image's version",
		edits:   []edit{{"cmd/invocation/version.go", "	b := build{linkedVersion, linkedCommit}\n", "	b := build{\"\", linkedCommit}\n"}},
		rows:    map[string][]string{"e2e": {"TestDeployed/flux/Upgraded", "TestDeployed/argocd/Upgraded"}},
	},
	{
		without: "the rule that two replicas are on two nodes",
		edits:   []edit{{"deploy/overlays/two-replicas/kustomization.yaml", "requiredDuringSchedulingIgnoredDuringExecution:\n                  - topologyKey: kubernetes.io/hostname\n", "requiredDuringSchedulingIgnoredDuringExecution:\n                  - topologyKey: kubernetes.io/os\n                    namespaces: [none]\n"}},
		rows:    map[string][]string{"e2e": {"TestDeployed/flux/TwoReplicas", "TestDeployed/argocd/TwoReplicas"}},
	},
	{
		without: "the annotations that keep the namespace",
		edits:   []edit{{"deploy/base/namespace.yaml", "    kustomize.toolkit.fluxcd.io/prune: disabled\n    argocd.argoproj.io/sync-options: Prune=false,Delete=false\n", "    e2e.muster.dev/none: none\n"}},
		rows:    map[string][]string{"e2e": {"TestDeployed/flux/Removed", "TestDeployed/argocd/Removed"}},
	},
	{
		without: "the empty directory in place of the syncer's token",
		edits:   []edit{{"deploy/overlays/sidecar/sidecar.yaml", "            - name: muster-no-token\n              mountPath: /var/run/secrets/kubernetes.io/serviceaccount\n              readOnly: true\n", ""}},
		rows:    map[string][]string{"e2e": {"TestDeployed/flux/Sidecar", "TestDeployed/argocd/Sidecar"}},
	},
	{
		without: "ticks after the tenth",
		edits: []edit{{"generator/run.go", "	cause, deferred := CauseStart, false\n	for {\n", `	cause, deferred := CauseStart, false
	for tick := 0; ; tick++ {
		if tick == 10 {
			panic("tick 10")
		}
`}},
		rows: map[string][]string{"e2e-long": {"TestChaos"}},
	},
	{
		without: "the mistakes of the counterexamples",
		edits: []edit{
			{"testdata/e2e/old_test.go", `o.write(map[string]string{"a": job(1)})`, `o.write(map[string]string{"a": job(5)})`},
			{"testdata/e2e/old_test.go", `strings.Replace(job(1), "image: agent", "image: newer", 1), "b"`, `job(1), "b"`},
			{"testdata/e2e/old_test.go", `muster.dev/dispatch: NAME}}
spec:
  parallelism`, `muster.dev/dispatch: NAME}, annotations: {argocd.argoproj.io/sync-options: "Prune=false,Delete=false", kustomize.toolkit.fluxcd.io/prune: disabled}}
spec:
  parallelism`},
			{"testdata/e2e/old_test.go", `"  parallelism: 6\n  completions: 6\n  completionMode: Indexed", 1)`, `"  parallelism: 6\n  completions: 6\n  completionMode: Indexed\n  backoffLimitPerIndex: 0", 1)`},
			{"testdata/e2e/old_test.go", "  backoffLimit: 1\n", ""},
		},
		rows: map[string][]string{"e2e": {"TestAll/OldWays/parallelism", "TestAll/OldWays/template", "TestAll/OldWays/pruned", "TestAll/OldWays/backoff"}},
	},
}
