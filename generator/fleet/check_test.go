package fleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"muster/generator/finding"
	"muster/generator/plan"
	"muster/gitops/branch"
)

func check(tree fs.FS, dir string) []finding.Finding {
	findings, _ := NewLoader(dir).Check(context.Background(), tree) // which nothing ends
	return findings
}

// checkErrors returns the findings of check as text.
func checkErrors(tree fs.FS) []string {
	var all []string
	for _, f := range check(tree, "overlays") {
		all = append(all, f.Error())
	}
	return all
}

// TestCheckSound asserts that minimal valid files, with dispatches and without, and those that
// muster init writes have no findings.
func TestCheckSound(t *testing.T) {
	for name, tree := range map[string]fs.FS{"minimal": sound(t).tree(), "dispatch": soundWithDispatch(t).tree(), "init": fleet(t)} {
		for _, f := range check(tree, "overlays") {
			t.Errorf("%s: %s", name, f)
		}
	}
}

// TestCheck breaks one thing at a time.
func TestCheck(t *testing.T) {
	const (
		job, config, own = "base/job.yaml", "overlays/default/scaling.yaml", "overlays/default/kustomization.yaml"
		notes            = "metadata.annotations[argocd.argoproj.io/"
		over             = "; do it in overlays/default/template, which changes only later Jobs"
		reach            = "editing it would change running Jobs, which Kubernetes refuses, and stop the sync" + over
	)
	for _, c := range []struct {
		file, old, new string
		want           []string
	}{
		{config, "max: 50", "max: 50\n  buffer: -1\n  lease: 1s", []string{
			"overlays/default/scaling.yaml:6: spec.buffer: -1 is too small; write one from 0 to 100000",
			"overlays/default/scaling.yaml:7: spec.lease: 1s is too short; write one from 1m to 24h, or auto",
		}},
		{job, "kind: Job", "kind: CronJob", []string{built + "overlays/default/template builds to the CronJob agent (batch/v1), not to a Job; muster orders agents as Jobs of batch/v1: rewrite it as one"}},
		{job, "  ttlSecondsAfterFinished: 3600\n", "", []string{built + "spec.ttlSecondsAfterFinished: is missing: finished Jobs would never be deleted; write 3600 or more: a Job that is deleted while it is in git runs again"}},
		{job, "ttlSecondsAfterFinished: 3600", "ttlSecondsAfterFinished: 60", []string{built + "spec.ttlSecondsAfterFinished: 60 is too short: a Job that is deleted while it is in git runs again; write 3600 or more: an hour, and the lease with ten minutes to spare"}},
		{config, "max: 50", "max: 50\n  lease: 51m", []string{built + "spec.ttlSecondsAfterFinished: 3600 is too short: a Job that is deleted while it is in git runs again; write 3660 or more: an hour, and the lease with ten minutes to spare"}},
		{config, "max: 50", "max: 50\n  lease: 50m", nil},
		{job, "    argocd.argoproj.io/sync-options: Prune=false,Delete=false\n", "", []string{built + notes + "sync-options]: is missing: Argo CD would terminate the agents when their dispatch is retired; write argocd.argoproj.io/sync-options: Prune=false,Delete=false"}},
		{job, "Prune=false,Delete=false", "Prune=false", []string{built + notes + `sync-options]: is "Prune=false": Argo CD would terminate the agents when their dispatch is retired; write argocd.argoproj.io/sync-options: Prune=false,Delete=false`}},
		{job, "Prune=false,Delete=false", "'Delete=false, Prune=false, ServerSideApply=true'", nil},
		{job, "Prune=false,Delete=false", "Prune=false,Delete=false,Replace=true", []string{built + notes + "sync-options]: has Replace=true: Argo CD would delete a running Job to create it again; remove that option"}},
		{job, "Prune=false,Delete=false", "Prune=false,Delete=false,Force=true", []string{built + notes + "sync-options]: has Force=true: Argo CD would delete a running Job to create it again; remove that option"}},
		{job, "    argocd.argoproj.io/compare-options: IgnoreExtraneous\n", "", []string{built + notes + "compare-options]: is missing: Argo CD would show the application out of sync while agents of retired dispatches run; write argocd.argoproj.io/compare-options: IgnoreExtraneous"}},
		{job, `ignore-healthcheck: "true"`, `ignore-healthcheck: "false"`, []string{built + notes + `ignore-healthcheck]: is "false": Argo CD would show the application degraded by every agent that fails; write argocd.argoproj.io/ignore-healthcheck: true`}},
		{job, "prune: disabled", "prune: enabled", []string{built + `metadata.annotations[kustomize.toolkit.fluxcd.io/prune]: is "enabled": Flux would terminate the agents when their dispatch is retired; write kustomize.toolkit.fluxcd.io/prune: disabled`}},
		{job, "ssa: IfNotPresent", "ssa: Ignore", []string{built + `metadata.annotations[kustomize.toolkit.fluxcd.io/ssa]: is "Ignore": Flux would try to change a running Job; write kustomize.toolkit.fluxcd.io/ssa: IfNotPresent`}},
		{job, "ssa: IfNotPresent", "ssa: IfNotPresent\n    kustomize.toolkit.fluxcd.io/reconcile: Disabled", []string{built + "metadata.annotations[kustomize.toolkit.fluxcd.io/reconcile]: Flux would never create the Job where it says disabled; remove it"}},
		{job, "ssa: IfNotPresent", "ssa: IfNotPresent\n    kustomize.toolkit.fluxcd.io/force: enabled", []string{built + "metadata.annotations[kustomize.toolkit.fluxcd.io/force]: Flux would delete a running Job to create it again where it says enabled; remove it"}},
		{job, "ssa: IfNotPresent", "ssa: IfNotPresent\n    kustomize.toolkit.fluxcd.io/force: disabled", nil},
		{job, "command: [agent,", "command: [agent, '${A}', 'x ${B:-c} $$',", []string{built + `metadata.annotations[kustomize.toolkit.fluxcd.io/substitute]: is missing: Flux would replace "${A}" if its Kustomization has postBuild; write kustomize.toolkit.fluxcd.io/substitute: disabled`}},
		{config, "max: 50", "max: 50\n  tags: {price: $$5}", []string{built + `metadata.annotations[kustomize.toolkit.fluxcd.io/substitute]: is missing: Flux would replace "$$" if its Kustomization has postBuild; write kustomize.toolkit.fluxcd.io/substitute: disabled`}},
		{job, "managed-by: muster", "managed-by: hand", []string{built + `metadata.labels[app.kubernetes.io/managed-by]: is "hand": muster could not identify the Job; write app.kubernetes.io/managed-by: muster`}},
		{job, "managed-by: muster", "managed-by: muster\n    app.kubernetes.io/instance: fleet", []string{built + "metadata.labels[app.kubernetes.io/instance]: Argo CD may track by this label and manage the Job; remove it"}},
		{job, "managed-by: muster", "managed-by: muster\n    team:", []string{built + "metadata.labels.team: is not a string; Kubernetes takes strings there, and nothing else: quote it, or remove it"}},
		{job, "    argocd.argoproj.io/sync-options", "    argocd.argoproj.io/hook: Sync\n    argocd.argoproj.io/sync-options", []string{built + notes + "hook]: a hook is run again at every sync, and deleted by it; remove it"}},
		{job, "    argocd.argoproj.io/sync-options", "    argocd.argoproj.io/sync-wave: \"1\"\n    argocd.argoproj.io/sync-options", []string{built + notes + "sync-wave]: Argo CD would hold back the agents until others have finished; remove it"}},
		{job, "  name: agent\n", "  name: agent\n  generateName: agent-\n", []string{built + "metadata.generateName: every sync would create the agents again; remove it"}},
		{job, "  namespace: buildkite\n", "", []string{built + "metadata.namespace: is missing: Flux and Argo CD need it in the file; write the namespace of the agents"}},
		{job, `        argocd.argoproj.io/ignore-resource-updates: "true"` + "\n", "", []string{built + "spec.template.metadata.annotations[argocd.argoproj.io/ignore-resource-updates]: is missing: Argo CD would compare the application at every change of a pod; write argocd.argoproj.io/ignore-resource-updates: true"}},
		{job, `safe-to-evict: "false"`, `safe-to-evict: "true"`, []string{built + `spec.template.metadata.annotations[cluster-autoscaler.kubernetes.io/safe-to-evict]: is "true": the cluster autoscaler would move a build to save a node; write cluster-autoscaler.kubernetes.io/safe-to-evict: false`}},
		{job, `do-not-disrupt: "true"`, `do-not-disrupt: "false"`, []string{built + `spec.template.metadata.annotations[karpenter.sh/do-not-disrupt]: is "false": Karpenter would move a build to save a node; write karpenter.sh/do-not-disrupt: true`}},
		{job, "  completionMode: Indexed\n", "", []string{built + "spec.backoffLimitPerIndex: needs completionMode: Indexed: Kubernetes 1.36 refuses that; write completionMode: Indexed", built + "spec.completionMode: is missing: agents would have no index to distinguish them; write completionMode: Indexed"}},
		{job, "  backoffLimitPerIndex: 0\n", "  backoffLimit: 6\n", []string{
			built + "spec.backoffLimit: it terminates busy agents when others have failed; backoffLimitPerIndex does not; remove it",
			built + "spec.backoffLimitPerIndex: is missing: a few failed agents would terminate all busy ones; write backoffLimitPerIndex: 0",
		}},
		{job, "  backoffLimitPerIndex: 0\n", "  backoffLimitPerIndex: 0\n  maxFailedIndexes: 1\n  suspend: true\n  successPolicy: {rules: [{succeededCount: 1}]}\n  managedBy: x/y\n", []string{
			built + "spec.suspend: a suspended Job starts no agent; remove it",
			built + "spec.managedBy: another controller would run the Job by rules muster does not know; remove it",
			built + "spec.successPolicy: it terminates busy agents when others have finished; remove it",
			built + "spec.maxFailedIndexes: it terminates busy agents when others have failed; remove it",
		}},
		{job, "  backoffLimitPerIndex: 0\n", "  backoffLimitPerIndex: 0\n  podReplacementPolicy: TerminatingOrFailed\n", []string{built + `spec.podReplacementPolicy: is "TerminatingOrFailed" with a podFailurePolicy: Kubernetes 1.36 refuses that; write podReplacementPolicy: Failed`}},
		{job, "restartPolicy: Never", "restartPolicy: OnFailure", []string{built + `spec.template.spec.restartPolicy: is "OnFailure" with a podFailurePolicy: Kubernetes 1.36 refuses that; write restartPolicy: Never`}},
		{job, "type: DisruptionTarget", "type: Other", []string{built + "spec.podFailurePolicy.rules: does not ignore DisruptionTarget: an agent whose node is drained before it starts would count as failed; add a rule {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}"}},
		{job, "    rules:\n", "    rules:\n      - {action: FailJob, onExitCodes: {operator: In, values: [1]}}\n", []string{built + "spec.podFailurePolicy.rules[0].action: is FailJob: one failed agent would terminate all busy ones; write FailIndex"}},
		{job, "  ttlSecondsAfterFinished: 3600\n", "  ttlSecondsAfterFinished: 3600\n  activeDeadlineSeconds: 4500\n", []string{built + "spec.activeDeadlineSeconds: 4500 is too short: it terminates busy agents; write more than 4500, which is the lease and the longest idle time-out, and add the longest build"}},
		{job, "  ttlSecondsAfterFinished: 3600\n", "  ttlSecondsAfterFinished: 3600\n  activeDeadlineSeconds: 4501\n", nil},
		{config, "max: 50", "max: 50\n  reuse: {idle: 1m, uptime: 30m}", []string{built + "spec.template.spec: nothing reads the annotation muster.dev/uptime: each agent would exit after one job, although scaling.yaml has spec.reuse; copy the command and the variables of the base that muster init writes"}},
		{job, "      restartPolicy: Never\n", "      restartPolicy: Never\n      activeDeadlineSeconds: 600\n", []string{built + "spec.template.spec.activeDeadlineSeconds: 600 is too short: it terminates busy agents; remove it, or write more than 4500"}},
		{job, "metadata.annotations['muster.dev/agent-tags']", "metadata.name", []string{built + "spec.template.spec: nothing reads the annotation muster.dev/agent-tags: the agent would have no tags, and muster would never count it; give the agent an environment variable with valueFrom.fieldRef.fieldPath: metadata.annotations['muster.dev/agent-tags']"}},
		{job, "metadata.annotations['muster.dev/not-after']", "metadata.name", []string{built + "spec.template.spec: nothing reads the annotation muster.dev/not-after: the agent would not check its lease, and would start after muster has presumed it lost; give the agent an environment variable with valueFrom.fieldRef.fieldPath: metadata.annotations['muster.dev/not-after']"}},
		{job, "metadata.annotations['muster.dev/idle-timeout']", "metadata.name", []string{built + "spec.template.spec: nothing reads the annotation muster.dev/idle-timeout: the agent would have no idle time-out, and would never exit; give the agent an environment variable with valueFrom.fieldRef.fieldPath: metadata.annotations['muster.dev/idle-timeout']"}},
		{job, "$(JOB_COMPLETION_INDEX)", "0", []string{built + "spec.template.spec: nothing reads the agent's index: agents of one dispatch could not be distinguished; add the tag index=$JOB_COMPLETION_INDEX"}},
		{job, "          env:\n", "          env:\n            - {name: I, valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['batch.kubernetes.io/job-completion-index']\"}}}\n", nil},
		{job, "command: [agent,", "command: [agent, $BUILDKITE_AGENT_TOKEN,", []string{built + "spec.template.spec.containers[0].env: the command reads BUILDKITE_AGENT_TOKEN, and no variable of that name is set: no agent could register; name the variable with the token BUILDKITE_AGENT_TOKEN"}},
		{job, "      restartPolicy: Never\n", "      restartPolicy: Never\n      terminationGracePeriodSeconds: -1\n", []string{built + "spec.template.spec.terminationGracePeriodSeconds: -1 is negative: Kubernetes uses 1, and a build ends with its node; write how many seconds a build may take to end, as in 3600"}},
		{job, "command: [agent,", "command: [buildkite-agent start,", []string{built + "spec.template.spec.containers[0].command: the base lacks the hook agent-startup: a late agent would register after its lease, when another was ordered in its place; copy the command of the base that muster init writes; where the image has the hook, say agent-startup in a comment of the command"}},
		{job, "command: [agent,", "command: ['buildkite-agent start # agent-startup',", nil},
		{own, "configmap.yaml, ", "", []string{"overlays/default/kustomization.yaml:3: resources: without dispatches the overlay builds to nothing, and Argo CD refuses to prune an application down to nothing; add one permanent object, as the ConfigMap that muster init writes"}},
		{own, ", dispatches", "", []string{"overlays/default/kustomization.yaml:3: resources: the overlay builds without its dispatches; add dispatches to the list, or nothing that muster orders is applied"}},
		{own, "resources:", "namePrefix: a-\nresources:", []string{own + ":3: namePrefix: changes dispatches (metadata.name): " + reach}},
		{own, "resources:", "namespace: other\nresources:", []string{own + ":3: namespace: changes dispatches (metadata.namespace): " + reach}},
		{own, "resources:", "namespace: buildkite\nresources:", nil},
		{job, "          env:\n", "          env:\n            - {name: BUILDKITE_AGENT_QUEUE, value: default}\n", []string{built + `spec.template.spec.containers[0].env[0]: sets BUILDKITE_AGENT_QUEUE: the queue is among the agent's tags, and an agent that is given it twice ends at once ("Queue must be present in only one of"); remove the variable: the queue is spec.queue of scaling.yaml`}},
		{own, "resources:", "images: [{name: buildkite/agent, newTag: '4'}]\nresources:", []string{own + ":3: images: changes dispatches (spec.template.spec.containers): " + reach}},
		{own, "resources:", "labels: [{pairs: {team: ci}, includeTemplates: true}]\nresources:", []string{own + ":3: labels: changes dispatches (metadata.labels.team): " + reach}},
		{job, "          command:", "          ports: [{containerPort: 18080}]\n          command:", nil},
		{job, "          command:", "          ports: [{containerPort: 18080, hostPort: 80}]\n          command:", []string{built + "spec.template.spec.containers[0].ports[0]: is a port of the node: only one agent fits on each node; remove hostNetwork and hostPort, or the port and the probe that uses it"}},
		{job, "      restartPolicy: Never\n", "      restartPolicy: Never\n      hostNetwork: true\n", nil},
		{own, "resources:", "commonAnnotations: {a/b: c}\nresources:", []string{own + ":3: commonAnnotations: changes dispatches (metadata.annotations[a/b]): " + reach}},
		{own, "resources:", "patches: [{target: {kind: ConfigMap}, patch: '- {op: add, path: /data, value: {a: b}}'}]\nresources:", nil},
		{own, "resources:", "namespace: other\npatches: [{target: {kind: Job}, patch: '- {op: replace, path: /spec/parallelism, value: 0}'}]\nresources:", []string{own + ":3: namespace, patches: changes dispatches (metadata.namespace): " + reach}},
		{"overlays/default/dispatches/kustomization.yaml", "resources: []", "resources: [x.yaml]", []string{"overlays/default/dispatches/kustomization.yaml: listed \"x.yaml\", which is not a dispatch; muster restores its files with its next commit; until then the syncer may apply nothing of overlays/default"}},
	} {
		t.Run(c.file+" "+c.old+" → "+c.new, func(t *testing.T) {
			tree := sound(t).edit(t, c.file, c.old, c.new)
			if diff := cmp.Diff(c.want, checkErrors(tree.tree())); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestCheckNeeded asserts that an object of the overlay that the pods need, whatever field of the pod names it,
// must stay in the cluster when its file leaves git, and that other objects need not.
func TestCheckNeeded(t *testing.T) {
	const (
		file = "overlays/default/needed.yaml"
		want = file + ": metadata.annotations: agents need the %s needed, and the syncer deletes it with its file: pods that start later would wait forever; write argocd.argoproj.io/sync-options: Prune=false and kustomize.toolkit.fluxcd.io/prune: disabled"
		both = ", annotations: {argocd.argoproj.io/sync-options: 'ServerSideApply=true,Prune=false', kustomize.toolkit.fluxcd.io/prune: disabled}"
	)
	for _, c := range []struct{ pod, kind, more, want string }{
		{"volumes: [{name: v, configMap: {name: needed}}]", "ConfigMap", "", want},
		{"volumes: [{name: v, secret: {secretName: needed}}]", "Secret", "", want},
		{"volumes: [{name: v, projected: {sources: [{configMap: {name: needed}}]}}]", "ConfigMap", "", want},
		{"volumes: [{name: v, projected: {sources: [{secret: {name: needed}}]}}]", "Secret", "", want},
		{"volumes: [{name: v, csi: {driver: a.b, nodePublishSecretRef: {name: needed}}}]", "Secret", "", want},
		{"volumes: [{name: v, persistentVolumeClaim: {claimName: needed}}]", "PersistentVolumeClaim", "", want},
		{"initContainers: [{name: i, image: i, envFrom: [{configMapRef: {name: needed}}]}]", "ConfigMap", "", want},
		{"initContainers: [{name: i, image: i, envFrom: [{secretRef: {name: needed}}]}]", "Secret", "", want},
		{"initContainers: [{name: i, image: i, env: [{name: E, valueFrom: {secretKeyRef: {name: needed, key: k}}}]}]", "Secret", "", want},
		{"initContainers: [{name: i, image: i, env: [{name: E, valueFrom: {configMapKeyRef: {name: needed, key: k}}}]}]", "ConfigMap", "", want},
		{"imagePullSecrets: [{name: needed}]", "Secret", "", want},
		{"serviceAccountName: needed", "ServiceAccount", "", want},
		{"priorityClassName: needed", "PriorityClass", "", want},
		{"volumes: [{name: v, configMap: {name: needed}}]", "ConfigMap", both, ""},
		{"volumes: [{name: v, configMap: {name: needed}}]", "ConfigMap", ", annotations: {kustomize.toolkit.fluxcd.io/prune: disabled}", strings.TrimSuffix(want, " and kustomize.toolkit.fluxcd.io/prune: disabled")},
		{"volumes: [{name: v, configMap: {name: needed}}]", "Secret", "", ""},
		{"volumes: [{name: v, configMap: {name: needed}}]", "ConfigMap", both + "}\ndata: {environment: 'case ${BUILDKITE_BRANCH:-} in main) ;; esac'", file + ": metadata.annotations: agents need the ConfigMap needed, and Flux would replace \"${BUILDKITE_BRANCH:-}\" in it if its Kustomization has postBuild; write kustomize.toolkit.fluxcd.io/substitute: disabled"},
		{"volumes: [{name: v, configMap: {name: needed}}]", "ConfigMap", strings.Replace(both, "}", ", kustomize.toolkit.fluxcd.io/substitute: disabled}", 1) + "}\ndata: {environment: 'case ${BUILDKITE_BRANCH:-} in main) ;; esac'", ""},
		{"volumes: [{name: needed, emptyDir: {}}]", "ConfigMap", "", ""},
		{"volumes: [{name: v, configMap: {name: other}}]", "ConfigMap", "", ""},
	} {
		f := sound(t).edit(t, "base/job.yaml", "      restartPolicy: Never\n", "      restartPolicy: Never\n      "+c.pod+"\n").
			edit(t, "overlays/default/kustomization.yaml", "[configmap.yaml", "[configmap.yaml, needed.yaml")
		version, meta := "v1", "name: needed, namespace: buildkite"+c.more
		if c.kind == "PriorityClass" {
			version, meta = "scheduling.k8s.io/v1", "name: needed"
		}
		f[file] = "apiVersion: " + version + "\nkind: " + c.kind + "\nmetadata:\n  {" + meta + "}\n"
		want := c.want
		if strings.Contains(want, "%s") {
			want = fmt.Sprintf(want, c.kind)
		}
		if got := strings.Join(checkErrors(f.tree()), "\n"); got != want {
			t.Errorf("%s, %s%s: got\n  %s\nwant\n  %s", c.pod, c.kind, c.more, got, want)
		}
	}
}

// TestRemoved asserts that an object which an overlay loses is found as long as pods of a dispatch in git that
// need it may start.
func TestRemoved(t *testing.T) {
	const (
		own, job, hooks = "overlays/default/kustomization.yaml", "base/job.yaml", "      volumes: [{name: hooks, configMap: {name: hooks}}]\n"
		want            = own + ":3: resources: the ConfigMap hooks is removed, and pods of the dispatch default-00000001 that start later would wait for it forever; keep it until 2026-11-21T02:30:00Z, when no such pod starts any more"
	)
	before := sound(t).edit(t, job, "      containers:\n", hooks+"      containers:\n").edit(t, own, "[configmap.yaml", "[configmap.yaml, hooks.yaml")
	before["overlays/default/hooks.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hooks\n  namespace: buildkite\n"
	d := order("default-00000001", 1)
	o := only(t, NewLoader("overlays"), before.tree())
	_, changes, err := o.Add([]plan.Dispatch{d})
	if err != nil {
		t.Fatal(err)
	}
	before.apply(changes)
	without := func(f files) files { return f.edit(t, own, "hooks.yaml, ", "").edit(t, job, hooks, "") }
	renamed := without(maps.Clone(before)).edit(t, own, "[configmap.yaml", "[configmap.yaml, hooks.yaml").edit(t, "overlays/default/hooks.yaml", "name: hooks", "name: hooks2")
	kept := maps.Clone(before).edit(t, "overlays/default/hooks.yaml", "  name: hooks\n", "  name: hooks\n  annotations: {argocd.argoproj.io/sync-options: Prune=false, kustomize.toolkit.fluxcd.io/prune: disabled}\n")
	for _, c := range []struct {
		before, after files
		at            time.Time
		want          string
	}{
		{before, without(maps.Clone(before)), d.At, want},
		{before, renamed, d.At, want},
		{before, maps.Clone(before), d.At, ""},
		{before, maps.Clone(before).edit(t, job, hooks, ""), d.At, ""},
		{before, without(maps.Clone(before)), d.NotAfter.Add(time.Hour), ""},
		{kept, without(maps.Clone(kept)), d.At, ""},
	} {
		var got []string
		for _, f := range Removed(load(t, NewLoader("overlays"), c.before.tree()), load(t, NewLoader("overlays"), c.after.tree()), c.at) {
			got = append(got, f.Error())
		}
		if text := strings.Join(got, "\n"); text != c.want {
			t.Errorf("got\n  %s\nwant\n  %s", text, c.want)
		}
	}
}

// TestCheckSyncer: what the repository tells the syncer of an overlay is checked; what it tells of
// others is not.
func TestCheckSyncer(t *testing.T) {
	const (
		source  = "overlays/default/.argocd-source-agents.yaml"
		argo    = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nspec:\n  source: {path: overlays/default, kustomize: {}}\n  syncPolicy: {syncOptions: [ApplyOutOfSyncOnly=true]}\n"
		set     = "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nspec:\n  template:\n    spec:\n      source: {path: '{{.path.path}}', kustomize: {}}\n"
		flux    = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nspec:\n  path: ./ci/overlays/default\n  postBuild: {substitute: {a: b}}\n"
		changes = "changes dispatches of overlays/default: editing it would change running Jobs, or create them again; do it in overlays/default/template, which changes only later Jobs"
	)
	for _, c := range []struct{ file, text, want string }{
		{source, "kustomize: {}\n", ""},
		{source, "kustomize: {version: v5.8.1, images: []}\n", ""},
		{source, "kustomize:\n  images: ['a=b']\n", source + ":2: kustomize.images: " + changes},
		{"overlays/default/.argocd-source.yaml", "kustomize:\n  namePrefix: a-\n", "overlays/default/.argocd-source.yaml:2: kustomize.namePrefix: " + changes},
		{"syncer/a.yaml", argo, ""},
		{"syncer/a.yaml", strings.Replace(argo, "kustomize: {}", "kustomize: {namespace: buildkite}", 1), ""},
		{"syncer/a.yaml", strings.Replace(argo, "kustomize: {}", "kustomize: {commonAnnotations: {a: b}}", 1), "syncer/a.yaml:4: spec.source.kustomize.commonAnnotations: " + changes},
		{"syncer/a.yaml", strings.Replace(argo, "kustomize: {}", "kustomize: {nameSuffix: -a}", 1), "syncer/a.yaml:4: spec.source.kustomize.nameSuffix: " + changes},
		{"syncer/a.yaml", strings.Replace(argo, "overlays/default, kustomize: {}", "overlays/other, kustomize: {nameSuffix: -a}", 1), ""},
		{"syncer/a.yaml", strings.Replace(argo, "source: {path: overlays/default, kustomize: {}}", "sources: [{path: x}, {path: overlays/default, kustomize: {patches: [{patch: x}]}}]", 1), "syncer/a.yaml:4: spec.sources[1].kustomize.patches: " + changes},
		{"syncer/a.yaml", strings.Replace(argo, "[ApplyOutOfSyncOnly=true]", "[A=true, Replace=true]", 1), "syncer/a.yaml:5: spec.syncPolicy.syncOptions[1]: is Replace=true: Argo CD would delete a running Job to create it again; remove that option"},
		{"syncer/a.yaml", strings.Replace(set, "kustomize: {}", "kustomize: {images: [a]}", 1), "syncer/a.yaml:6: spec.template.spec.source.kustomize.images: " + changes},
		{"syncer/a.yaml", set + "  templatePatch: |\n    spec: {source: {kustomize: {images: [{{.image}}]}}}\n", "syncer/a.yaml:7: spec.templatePatch: may change dispatches of overlays/default (kustomize): that would change running Jobs, or create them again; do it in overlays/default/template, which changes only later Jobs"},
		{"syncer/a.yaml", set + "  templatePatch: |\n    spec: {project: {{.project}}}\n", ""},
		{"syncer/a.yaml", flux, ""},
		{"syncer/a.yaml", flux + "  targetNamespace: buildkite\n", ""},
		{"syncer/a.yaml", "a: b\n---\n" + flux + "  targetNamespace: other\n", "syncer/a.yaml:8: spec.targetNamespace: " + changes},
		{"syncer/a.yaml", flux + "  commonMetadata: {labels: {a: b}}\n", "syncer/a.yaml:6: spec.commonMetadata: " + changes},
		{"syncer/a.yaml", flux + "  force: false\n", ""},
		{"syncer/a.yaml", flux + "  force: true\n", "syncer/a.yaml:6: spec.force: is true: Flux would delete a running Job to create it again; remove it"},
		{"syncer/a.yaml", flux + "  force: True\n", "syncer/a.yaml:6: spec.force: is true: Flux would delete a running Job to create it again; remove it"},
		{"syncer/a.yaml", flux + "  patchesJson6902: [{patch: x}]\n", "syncer/a.yaml:6: spec.patchesJson6902: " + changes},
		// Flux makes a kustomization of all directories below a path.
		{"syncer/a.yaml", strings.Replace(flux, "./ci/overlays/default", "./ci/overlays", 1) + "  commonMetadata: {labels: {a: b}}\n", "syncer/a.yaml:6: spec.commonMetadata: " + changes},
		{"syncer/a.yaml", strings.Replace(flux, "./ci/overlays/default", "./", 1) + "  commonMetadata: {labels: {a: b}}\n", "syncer/a.yaml:6: spec.commonMetadata: " + changes},
		{"syncer/a.yaml", strings.Replace(flux, "  path: ./ci/overlays/default\n", "", 1) + "  commonMetadata: {labels: {a: b}}\n", "syncer/a.yaml:5: spec.commonMetadata: " + changes},
		{"syncer/a.yaml", strings.Replace(flux, "./ci/overlays/default", "./clusters/a", 1) + "  commonMetadata: {labels: {a: b}}\n", ""},
		{"syncer/a.yaml", strings.Replace(flux, "spec:\n", "x: &x {commonMetadata: {labels: {a: b}}}\nspec:\n  <<: *x\n", 1), "syncer/a.yaml:3: uses a YAML anchor or alias; write the value out"},
		{"syncer/a.yaml", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: kustomize.toolkit.fluxcd.io/v1\n  kind: Kustomization\n  spec: {path: overlays/default, images: [a]}\n", "syncer/a.yaml:6: spec.images: " + changes},
		{"syncer/a.yaml", strings.Replace(argo, "kustomize: {}", "plugin: {name: envsubst}", 1), "syncer/a.yaml:4: spec.source.plugin: " + changes},
		{"syncer/a.yaml", strings.Replace(argo, "path: overlays/default, kustomize: {}", "chart: x, kustomize: {nameSuffix: -a}", 1), ""},
		{source, "plugin: {name: envsubst}\n", source + ":1: plugin: " + changes},
		{"syncer/a.yaml", "[", ""},
	} {
		tree := sound(t)
		tree[c.file] = c.text
		if got := strings.Join(checkErrors(tree.tree()), "\n"); got != c.want {
			t.Errorf("%s: %s: got\n  %s\nwant\n  %s", c.file, c.text, got, c.want)
		}
	}
}

func TestCheckNothing(t *testing.T) {
	for _, c := range []struct {
		tree files
		want string
	}{
		{files{"a": "b"}, "overlays: there is no such directory; muster init writes a first overlay, --overlays gives another directory"},
		{files{"overlays/default/x": ""}, "overlays: has no overlay: there is no scaling.yaml below it; muster init writes one"},
	} {
		findings := check(c.tree.tree(), "overlays")
		if len(findings) != 1 || findings[0].Error() != c.want {
			t.Errorf("got %v, want %s", findings, c.want)
		}
	}
}

// TestCheckEnded: where the context ends, nothing is known of the files, and
// nothing is found.
func TestCheckEnded(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for name, tree := range map[string]files{"a fleet": sound(t), "nothing": {"a": "b"}} {
		if findings, err := NewLoader("overlays").Check(ended, tree.tree()); !errors.Is(err, context.Canceled) || len(findings) > 0 {
			t.Errorf("%s: %v, %v", name, findings, err)
		}
	}
}

// TestHugeTemplate has a template whose dispatches would be too large to be
// read again: it must not come to the first of them.
func TestHugeTemplate(t *testing.T) {
	const file = "base/job.yaml"
	for size, want := range map[int]int{largestManifest / 2: 0, largestManifest: 1} {
		tree := sound(t).edit(t, file, "            - {name: TAGS", "            - {name: BIG, value: "+strings.Repeat("x", size)+"}\n            - {name: TAGS")
		findings := check(tree.tree(), "overlays")
		if len(findings) != want {
			t.Errorf("with %d bytes: %d findings, want %d", size, len(findings), want)
		}
		for _, f := range findings {
			if f.File != "overlays/default/template/kustomization.yaml" || !strings.HasPrefix(f.Problem, "overlays/default/template builds to a Job of 13") {
				t.Errorf("with %d bytes: %.200s", size, f)
			}
		}
	}
}

// TestCheckReportsLines: findings on files that do not build have the file, however kustomize reached it,
// and the line of the path, key or patch that kustomize's error names.
func TestCheckReportsLines(t *testing.T) {
	const (
		job, template = "base/job.yaml", "overlays/default/template/kustomization.yaml"
		fix           = "; fix what kustomize reports; to reproduce it: kustomize build overlays/default/template"
	)
	for _, c := range []struct{ file, old, new, want string }{
		{job, "kind: Job", " kind: Job", "base/job.yaml:2: is not valid YAML: a colon is where no key can be; indent the line like its neighbours, or put a value that contains a colon and a space in quotes"},
		{"overlays/default/configmap.yaml", "  namespace: buildkite\n", "  namespace: buildkite\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: x\n", "overlays/default/configmap.yaml:10: is not valid YAML: a tab indents the line; indent with spaces"},
		{"base/kustomization.yaml", "resources:", "resources: [", "base/kustomization.yaml:3: is not valid YAML: a list is not closed; close it with ]"},
		{job, "    spec:\n", "    spec:\n      hostNetwork: false\n      hostNetwork: true\n", `base/job.yaml:34: does not build: printing Job.v1.batch/agent.buildkite: yaml: unmarshal errors: line 34: mapping key "hostNetwork" already defined at line 33` + fix},
		{job, "    spec:\n", "    spec:\n      resources: {}\n      resources: {}\n", `base/job.yaml:34: does not build: printing Job.v1.batch/agent.buildkite: yaml: unmarshal errors: line 34: mapping key "resources" already defined at line 33` + fix},
		{template, "resources:", "patches: [{patch: '{apiVersion: batch/v1, kind: Job, metadata: {name: agnet}}'}]\nresources:", template + `:3: does not build: no resource matches strategic merge patch "Job.v1.batch/agnet.[noNs]": no matches for Id Job.v1.batch/agnet.[noNs]; failed to find unique target for patch Job.v1.batch/agnet.[noNs]` + fix},
		{template, "resources:", "patches:\n- target: {kind: Job, name: agnet}\n  patch: '- {op: add, path: /a, value: b}'\nresources:", template + ":4: patches: the target Job agnet matches nothing, so that kustomize leaves the patch out; the Job is named agent"},
		{template, "resources:", "patches:\n- target: {kind: Deployment}\n  patch: '- {op: add, path: /a, value: b}'\nresources:", template + ":4: patches: the target Deployment matches nothing, so that kustomize leaves the patch out; the Job is named agent"},
		{template, "resources:", "patches:\n- target: {group: apps, version: v1}\n  patch: '- {op: add, path: /a, value: b}'\nresources:", template + ":4: patches: the target apps/v1 matches nothing, so that kustomize leaves the patch out; the Job is named agent"},
		{template, "resources:", "patchesJson6902:\n- target: {group: batch, version: v1, kind: Job, name: agnet}\n  patch: '- {op: add, path: /a, value: b}'\nresources:", template + ":4: patchesJson6902: the target batch/v1 Job agnet matches nothing, so that kustomize leaves the patch out; the Job is named agent"},
		{template, "resources:", "patchesJson6902:\n- target: {group: batch, version: v1, kind: Job, name: agent}\n  patch: '- {op: add, path: /metadata/labels/a, value: b}'\nresources:", ""},
		{template, "resources:", "namePrefix: x-\npatches:\n- target: {kind: Job, name: agent}\n  patch: '- {op: add, path: /metadata/labels/a, value: b}'\nresources:", ""},
		{template, "resources:", "patches:\n- target: {kind: Jo.}\n  patch: '- {op: replace, path: /spec/nothing/here, value: b}'\nresources:", template + ":5: does not build: replace operation does not apply: doc is missing path: /spec/nothing/here: missing value" + fix},
	} {
		tree := sound(t).edit(t, c.file, c.old, c.new)
		if got := strings.Join(checkErrors(tree.tree()), "\n"); got != c.want {
			t.Errorf("%s: %q → %q: got\n  %s\nwant\n  %s", c.file, c.old, c.new, got, c.want)
		}
	}
}

// TestQuotedScalars: a quoted scalar is a string, in a template and in a policy, whatever it is without
// the quotes; a dispatch has the template's values.
func TestQuotedScalars(t *testing.T) {
	words := []string{"<<", "=", "~", "null", "true", "y", "no", "On", "1", "0o7", "07", "0x1F", "1_000", "1e3", "+1", ".inf", "12:30:45", "2026-01-01", "", "*a", "&a", "!a", "- a", "a: b", "# a", "|", "%a", "@a", "---", "..."}
	var list strings.Builder
	for _, word := range words {
		fmt.Fprintf(&list, "'%s', ", word)
	}
	tree := sound(t).edit(t, "base/job.yaml", "command: [agent,", "command: ["+list.String()+"agent,").edit(t, "base/job.yaml", "managed-by: muster\n", "managed-by: muster\n    a: 'no'\n    b: '1'\n    c: 'null'\n")
	for _, word := range []string{"on", "no", "y", "true", "123", "1e3"} {
		own := sound(t)
		maps.Copy(own, tree)
		own["overlays/default/scaling.yaml"] = "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec: {queue: '" + word + "', cluster: '" + word + "', max: 50, tags: {a: '" + word + "'}}\n"
		own.copy("overlays/default", "overlays/"+word)
		delete(own, "overlays/default/scaling.yaml")
		for _, f := range checkErrors(own.tree()) {
			t.Errorf("%s: %s", word, f)
		}
		o := only(t, NewLoader("overlays"), own.tree())
		d := order(o.Slug()+"-00000001", 1)
		d.Cluster = word
		next, changes, err := o.Add([]plan.Dispatch{d})
		if err != nil {
			t.Errorf("%s: %v", word, err)
			continue
		}
		written := changes[slices.IndexFunc(changes, func(c branch.Change) bool { return c.Path == o.FileOf(d) })]
		var job struct {
			Metadata struct{ Labels, Annotations map[string]string }
			Spec     struct {
				Template struct {
					Spec struct{ Containers []struct{ Command []string } }
				}
			}
		}
		if err := yaml.Unmarshal(written.Content, &job); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range job.Spec.Template.Spec.Containers {
			got = c.Command[:len(words)]
		}
		if !slices.Equal(got, words) || job.Metadata.Labels["c"] != "null" ||
			job.Metadata.Labels[LabelOverlay] != o.Slug() || job.Metadata.Annotations[AnnotationCluster] != word {
			t.Errorf("%s: the dispatch is\n%s", word, written.Content)
		}
		own.apply(changes)
		own[written.Path] += "# a person's note\n"
		if again := only(t, NewLoader("overlays"), own.tree()); !cmp.Equal(next.Dispatches, again.Dispatches) || again.Dispatches[0].Edited || len(again.Faults()) > 0 {
			t.Errorf("%s: read again as %+v, faults %v", word, again.Dispatches, again.Faults())
		}
	}
}

// TestCheckReuse: the base that muster init writes lets agents stay, for as long as its
// deadline does.
func TestCheckReuse(t *testing.T) {
	const config, deadline = "overlays/default/scaling.yaml", built + "spec.activeDeadlineSeconds: 86400 is too short: it terminates busy agents; write more than "
	for uptime, want := range map[string]string{
		"30m": "", "23h44m": "",
		"23h45m": deadline + "86400, which is the lease and the uptime, and add the longest build",
		"48h":    deadline + "173700, which is the lease and the uptime, and add the longest build",
	} {
		tree := files{}
		for _, dir := range []string{"base", "overlays"} { // of all that the project holds
			if err := fs.WalkDir(fleet(t), dir, func(name string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				text, err := fs.ReadFile(fleet(t), name)
				tree[name] = string(text)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		tree = tree.edit(t, config, "# reuse: {} ", "reuse: {idle: 1m, uptime: "+uptime+"} ").edit(t, config, "lease: auto", "lease: 15m")
		if got := strings.Join(checkErrors(tree.tree()), "\n"); got != want {
			t.Errorf("uptime %s: %s\nwant %s", uptime, got, want)
		}
	}
}
