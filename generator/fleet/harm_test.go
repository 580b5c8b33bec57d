package fleet

import (
	"slices"
	"strings"
	"testing"

	"muster/generator/plan"
)

// TestHarmfulFindings: a finding of check for which agents that run could be ended, or more could
// start than were ordered, keeps the overlay from ordering. If it lets syncers prune the
// Jobs of dispatches in git, none of them is retired. All other findings do not suspend it.
func TestHarmfulFindings(t *testing.T) {
	const (
		job, config, own = "base/job.yaml", "overlays/default/scaling.yaml", "overlays/default/kustomization.yaml"
		sync, spec       = "    argocd.argoproj.io/sync-options", "  backoffLimitPerIndex: 0\n"
	)
	patch := func(operation string) string {
		return "patches: [{target: {kind: Job}, patch: '- " + operation + "'}]\nresources:"
	}
	for _, c := range []struct {
		file, old, new string
		orders         string // empty: it orders; else what check says
		retires        bool
	}{
		{job, "    argocd.argoproj.io/sync-options: Prune=false,Delete=false\n", "", "sync-options", true},
		{job, "Prune=false,Delete=false", "Prune=false", "sync-options", true},
		{job, "Prune=false,Delete=false", "Prune=false,Delete=false,Replace=true", "sync-options", true},
		{job, "Prune=false,Delete=false", "Prune=false,Delete=false,Force=true", "sync-options", true},
		{job, "prune: disabled", "prune: enabled", "prune", true},
		{job, "    kustomize.toolkit.fluxcd.io/prune: disabled\n", "", "prune", true},
		{job, "ssa: IfNotPresent", "ssa: IfNotPresent\n    kustomize.toolkit.fluxcd.io/force: enabled", "force", true},
		{job, sync, "    argocd.argoproj.io/hook: Sync\n" + sync, "hook", true},
		{job, sync, "    argocd.argoproj.io/hook-delete-policy: HookSucceeded\n" + sync, "hook-delete-policy", true},
		{job, sync, "    helm.sh/hook: pre-install\n" + sync, "helm.sh/hook", true},
		{job, "  name: agent\n", "  name: agent\n  generateName: agent-\n", "generateName", true},
		{job, spec, "  backoffLimit: 6\n", "backoffLimit", true},
		{job, spec, spec + "  maxFailedIndexes: 1\n", "maxFailedIndexes", true},
		{job, spec, spec + "  successPolicy: {rules: [{succeededCount: 1}]}\n", "successPolicy", true},
		{job, "    rules:\n", "    rules:\n      - {action: FailJob, onExitCodes: {operator: In, values: [1]}}\n", "FailJob", true},
		{job, "ttlSecondsAfterFinished: 3600", "ttlSecondsAfterFinished: 60", "ttlSecondsAfterFinished", true},
		{job, "  ttlSecondsAfterFinished: 3600\n", "  ttlSecondsAfterFinished: 3600\n  activeDeadlineSeconds: 4500\n", "activeDeadlineSeconds", true},
		{job, "      restartPolicy: Never\n", "      restartPolicy: Never\n      activeDeadlineSeconds: 600\n", "activeDeadlineSeconds", true},
		{job, "metadata.annotations['muster.dev/agent-tags']", "metadata.name", "agent-tags", true},
		{job, "metadata.annotations['muster.dev/not-after']", "metadata.name", "not-after", true},
		{own, "resources:", "commonAnnotations: {kustomize.toolkit.fluxcd.io/prune: enabled}\nresources:", "commonAnnotations", false},
		{own, "resources:", "commonAnnotations: {argocd.argoproj.io/sync-options: 'Replace=true,Force=true'}\nresources:", "commonAnnotations", false},
		{own, "resources:", "commonAnnotations: {muster.dev/not-after: '2030-01-01T00:00:00Z'}\nresources:", "commonAnnotations", true},
		{own, "resources:", "commonLabels: {muster.dev/dispatch: x}\nresources:", "Labels", true},
		{own, "resources:", "namePrefix: a-\nresources:", "namePrefix", true},
		{own, "resources:", "nameSuffix: -a\nresources:", "nameSuffix", true},
		{own, "resources:", "namespace: other\nresources:", "namespace", true},
		{own, "resources:", patch("{op: replace, path: /spec/completions, value: 99}"), "patches", true},
		{own, "resources:", patch("{op: replace, path: /spec/completions, value: 1}"), "patches", true},
		{own, "resources:", patch("{op: replace, path: /spec/parallelism, value: 99}"), "patches", true},
		{own, "resources:", patch("{op: replace, path: /spec/ttlSecondsAfterFinished, value: 1}"), "patches", true},
		{own, "resources:", patch("{op: remove, path: /spec/template/spec/containers/0/env}"), "patches", true},
		{own, "resources:", patch("{op: remove, path: /metadata/annotations/kustomize.toolkit.fluxcd.io~1prune}"), "patches", false},

		{job, `ignore-healthcheck: "true"`, `ignore-healthcheck: "false"`, "", true},
		{job, "ssa: IfNotPresent", "ssa: Ignore", "", true},
		{job, "ttlSecondsAfterFinished: 3600", "ttlSecondsAfterFinished: 1800", "", true},
		{job, spec, spec + "  suspend: true\n", "", true},
		{job, `do-not-disrupt: "true"`, `do-not-disrupt: "false"`, "", true},
		{own, "resources:", "images: [{name: buildkite/agent, newTag: '4'}]\nresources:", "", true},
		{own, "resources:", "commonAnnotations: {a/b: c}\nresources:", "", true},
		{own, "resources:", "namespace: buildkite\nresources:", "", true},
		{config, "max: 50", "max: 50\n  idleTimeout: 1h", "", true},
	} {
		tree := soundWithDispatch(t).edit(t, c.file, c.old, c.new)
		l := NewLoader("overlays")
		for range 2 { // the second time from what the loader remembers
			o := load(t, l, tree.tree())[0]
			_, _, err := o.Add([]plan.Dispatch{order("default-00000009", 1)})
			_, _, retired := o.Remove([]string{o.Dispatches[0].ID})
			if (err == nil) != (c.orders == "") || err != nil && !strings.Contains(err.Error(), c.orders) || (retired == nil) != c.retires {
				t.Errorf("%s: %s: adding %v, removing %v", c.file, c.new, err, retired)
			}
			if suspended := o.Suspended.Active() || o.Refused.Active(); suspended != (c.orders != "") {
				t.Errorf("%s: %s: suspended %v, %v", c.file, c.new, o.Suspended, o.Refused)
			}
			found := checkErrors(tree.tree())
			for _, f := range slices.Concat(o.findings, o.harmful) {
				if !slices.Contains(found, f.Error()) {
					t.Errorf("%s: %s: check does not find %s, but %q", c.file, c.new, f, found)
				}
			}
			if c.orders == "" && c.file != config && !strings.Contains(c.new, "namespace: buildkite") && len(found) == 0 {
				t.Errorf("%s: %s: check finds nothing", c.file, c.new)
			}
		}
	}
}

// TestHarmByPolicy: what a template may have depends on the policy.
func TestHarmByPolicy(t *testing.T) {
	tree := sound(t).edit(t, "base/job.yaml", "  ttlSecondsAfterFinished: 3600\n", "  ttlSecondsAfterFinished: 3600\n  activeDeadlineSeconds: 4600\n")
	l := NewLoader("overlays")
	for _, c := range []struct {
		lease string
		harms bool
	}{{"15m", false}, {"20m", true}, {"15m", false}} {
		own := tree.edit(t, "overlays/default/scaling.yaml", "max: 50", "max: 50\n  lease: "+c.lease)
		o := only(t, l, own.tree())
		if o.Refused.Active() != c.harms {
			t.Errorf("lease %s: %v", c.lease, o.Refused)
		}
		tree = own.edit(t, "overlays/default/scaling.yaml", "\n  lease: "+c.lease, "")
	}
}
