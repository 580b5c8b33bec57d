package fleet

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/plan"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestStampTouchesNothingElse removes what muster stamps, from the stamped Job
// and from the template, and finds the same.
func TestStampTouchesNothingElse(t *testing.T) {
	for name, tree := range map[string]files{
		"sound":             sound(t),
		"no pod metadata":   sound(t).edit(t, "base/job.yaml", "  template:\n    metadata:\n      annotations:\n        argocd.argoproj.io/ignore-resource-updates: \"true\"\n        cluster-autoscaler.kubernetes.io/safe-to-evict: \"false\"\n        karpenter.sh/do-not-disrupt: \"true\"\n", "  template:\n"),
		"empty mappings":    sound(t).edit(t, "base/job.yaml", "    spec:\n      restartPolicy", "      labels: {}\n    spec:\n      restartPolicy"),
		"text block":        sound(t).edit(t, "base/job.yaml", "[agent, \"$(TAGS),index=$(JOB_COMPLETION_INDEX)\"]", "\n          - |2\n              indented\n            not\n\n          - '    spec: muster.dev/pod'\n          - \"tab\\tend \\n\\n\""),
		"placeholder there": sound(t).edit(t, "base/job.yaml", "    kustomize.toolkit.fluxcd.io/prune: disabled\n", "    kustomize.toolkit.fluxcd.io/prune: disabled\n    a: |\n      x\n          spec: muster.dev/pod\n"),
	} {
		t.Run(name, func(t *testing.T) {
			o := only(t, NewLoader("overlays"), tree.tree())
			text, err := o.stamp(order("default-7f3k9c2b", 12))
			if err != nil {
				t.Fatal(err)
			}
			whole, err := encode(o.template.job())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(stripped(t, whole), stripped(t, text)); diff != "" {
				t.Errorf("(-template +stamped)\n%s\n%s", diff, text)
			}
			slow := *o.template
			slow.pod = nil
			o.template = &slow
			if again, err := o.stamp(order("default-7f3k9c2b", 12)); err != nil || !bytes.Equal(text, again) {
				t.Errorf("printed in one piece it differs: %v\n%s", err, cmp.Diff(string(again), string(text)))
			}
		})
	}
}

// stripped is an object without what muster stamps.
func stripped(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var job map[string]any
	if err := yaml.UnmarshalStrict(text, &job); err != nil {
		t.Fatal(err)
	}
	drop := func(m map[string]any, keys ...string) {
		for _, k := range keys {
			delete(m, k)
		}
	}
	meta, spec := job["metadata"].(map[string]any), job["spec"].(map[string]any)
	drop(meta, "name")
	drop(spec, "completions", "parallelism")
	pod := spec["template"].(map[string]any)
	metas := []map[string]any{meta}
	if m, ok := pod["metadata"].(map[string]any); ok {
		metas = append(metas, m)
	}
	for _, m := range metas {
		for _, k := range []string{"labels", "annotations"} {
			inner, _ := m[k].(map[string]any)
			drop(inner, LabelDispatch, LabelOverlay, AnnotationAgentTags, AnnotationCluster, AnnotationTemplate, AnnotationIdleTimeout, AnnotationNotAfter, AnnotationOrderedAt, AnnotationPurpose)
			if len(inner) == 0 {
				delete(m, k)
			}
		}
	}
	if len(metas) == 2 && len(metas[1]) == 0 {
		delete(pod, "metadata")
	}
	return job
}

func TestAddRefuses(t *testing.T) {
	o := only(t, NewLoader("overlays"), sound(t).edit(t, "overlays/default/configmap.yaml", "apiVersion: v1", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: nightly, namespace: buildkite}\n---\napiVersion: v1").tree())
	o, _, err := o.Add([]plan.Dispatch{order("default-aaaaaaaa", 1)})
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(d *plan.Dispatch)) plan.Dispatch {
		d := order("default-bbbbbbbb", 1)
		change(&d)
		return d
	}
	const adding = "adding to overlays/default: "
	for _, c := range []struct {
		d    plan.Dispatch
		want string
	}{
		{order("default-aaaaaaaa", 1), "there is a Job default-aaaaaaaa already"},
		{order("nightly", 1), "there is a Job nightly already"},
		{order("../x", 1), `dispatch "../x": its ID is not a valid Job name: lower case letters, digits and dashes only`},
		{order("kustomization", 1), "dispatch kustomization: its file would be muster's own kustomization.yaml"},
		{order("state", 1), "dispatch state: its file would be muster's own state.yaml"},
		{order("default-bbbbbbbb", 0), "dispatch default-bbbbbbbb: 0 agents: a Job has 1 to 100000"},
		{order(strings.Repeat("x", 62), 11), "dispatch " + strings.Repeat("x", 62) + ": its last pod would be named " + strings.Repeat("x", 62) + "-10: 65 characters, at most 63"},
		{with(func(d *plan.Dispatch) { d.Purpose = "fun" }), `dispatch default-bbbbbbbb: purpose "fun" is neither demand nor warm-pool`},
		{with(func(d *plan.Dispatch) { d.At = d.At.Add(time.Millisecond) }), "dispatch default-bbbbbbbb: its times are not whole seconds"},
		{with(func(d *plan.Dispatch) { d.NotAfter = d.At.Add(-time.Second) }), "dispatch default-bbbbbbbb: ordered at 2026-11-21 02:15:00 +0000 UTC, lease until 2026-11-21 02:14:59 +0000 UTC"},
		{with(func(d *plan.Dispatch) { d.IdleTimeout = 0 }), "dispatch default-bbbbbbbb: an idle time-out of 0s is not one second or more in whole seconds"},
		{with(func(d *plan.Dispatch) { d.Uptime = time.Minute + time.Millisecond }), "dispatch default-bbbbbbbb: an uptime of 1m0.001s is not in whole seconds"},
	} {
		next, changes, err := o.Add([]plan.Dispatch{order("default-cccccccc", 1), c.d})
		if got := fmt.Sprint(err); got != adding+c.want {
			t.Errorf("got\n  %s\nwant\n  %s%s", got, adding, c.want)
		}
		if changes != nil || !slices.Equal(next.ids(), []string{"default-aaaaaaaa"}) {
			t.Errorf("%s: half done: %v, %v", c.want, changes, next.ids())
		}
	}
	if _, changes, err := o.Remove([]string{"default-aaaaaaaa", "x"}); fmt.Sprint(err) != `removing from overlays/default: there is no dispatch "x"` || changes != nil {
		t.Errorf("Remove: %v, %v", changes, err)
	}
}
