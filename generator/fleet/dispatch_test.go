package fleet

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/generator/plan"
	"muster/generator/policy"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

const stampedFile = "overlays/default/dispatches/default-7f3k9c2b.yaml"

// stampedText is a dispatch of the fleet repository of testdata/sound.txtar.
var stampedText = sync.OnceValues(func() (string, error) {
	archive, err := txtar.ParseFile("testdata/sound.txtar")
	if err != nil {
		return "", err
	}
	overlays, err := NewLoader("overlays").Load(filesOf(archive).tree())
	if err != nil {
		return "", err
	}
	text, err := overlays[0].stamp(order("default-7f3k9c2b", 12))
	return string(text), err
})

func stamped(tb testing.TB) string {
	tb.Helper()
	text, err := stampedText()
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// soundWithDispatch returns the fleet repository of testdata/sound.txtar with one dispatch.
func soundWithDispatch(tb testing.TB) files {
	f := sound(tb)
	f[stampedFile] = stamped(tb)
	f["overlays/default/dispatches/kustomization.yaml"] = string(list([]string{"default-7f3k9c2b"}))
	return f
}

// TestDispatchEdited edits what muster wrote. An edit is "old → new", of the
// first occurrence in the file, or of the second where it begins with 2.
func TestDispatchEdited(t *testing.T) {
	const remedy = "; restore the file from git, as it was in the commit that added it"
	text := stamped(t)
	for _, c := range []struct{ edit, want string }{
		{"  name: default-7f3k9c2b → name: other", `:23: is not valid YAML: mapping values are not allowed in this context`},
		{"  name: default-7f3k9c2b →   name: other", `:22: metadata.name: is "other", not "default-7f3k9c2b"`},
		{"kind: Job → kind: CronJob", `:2: kind: is "CronJob", not "Job"`},
		{"apiVersion: batch/v1 → apiVersion: batch/v2", `:1: apiVersion: is "batch/v2", not "batch/v1"`},
		{"parallelism: 12 → parallelism: 0", `:28: spec.parallelism: is not a whole number of at least 1`},
		{"completions: 12 → completions: many", `:27: spec.completions: is not a whole number of at least 1`},
		{"completions: 12 → indexes: 12", `: spec.completions: is missing`},
		{`not-after: "2026-11-21T02:30:00Z" → not-after: tomorrow`, `:14: metadata.annotations[muster.dev/not-after]: "tomorrow" is not a time as in 2026-11-21T02:15:00Z`},
		{`2not-after: "2026-11-21T02:30:00Z" → not-after: "2027-11-21T02:30:00Z"`, `:44: spec.template.metadata.annotations[muster.dev/not-after]: is "2027-11-21T02:30:00Z", but on the Job it is "2026-11-21T02:30:00Z"`},
		{`idle-timeout: "300" → idle-timeout: 300`, `:13: metadata.annotations[muster.dev/idle-timeout]: is not a string`},
		{`idle-timeout: "300" → idle-timeout: 5m`, `:13: metadata.annotations[muster.dev/idle-timeout]: "5m" is not a number of seconds`},
		{"purpose: demand → purpose: fun", `:16: metadata.annotations[muster.dev/purpose]: "fun" is neither demand nor warm-pool`},
		{"    muster.dev/purpose: demand\n → ", `: metadata.annotations[muster.dev/purpose]: is missing`},
		{"    muster.dev/cluster: \"\"\n → ", `: metadata.annotations[muster.dev/cluster]: is missing`},
		{"2cluster: \"\" → cluster: other", `:42: spec.template.metadata.annotations[muster.dev/cluster]: is "other", but on the Job it is ""`},
		{"    muster.dev/template: \"\"\n → ", `: metadata.annotations[muster.dev/template]: is missing`},
		{"dispatch=default-7f3k9c2b → dispatch=other", `:10: metadata.annotations[muster.dev/agent-tags]: does not have the tag dispatch=default-7f3k9c2b`},
		{"muster.dev/dispatch: default-7f3k9c2b → muster.dev/dispatch: x", `:20: metadata.labels[muster.dev/dispatch]: is "x", not "default-7f3k9c2b"`},
		{"  labels: →   labels: 5\n  more:", `: metadata.labels[muster.dev/dispatch]: is missing`},
		{"managed-by: muster → managed-by: [muster]", `:19: metadata.labels[app.kubernetes.io/managed-by]: is not a string`},
		{"kind: Job → kind: Job\nkind: Job", `:3: has "kind" twice`},
		{"kind: Job → kind: Job\n---\nkind: Job", `:3: has a second YAML document`},
		{"apiVersion → <<<<<<< HEAD\napiVersion", `:2: is not valid YAML: mapping values are not allowed in this context`},
	} {
		t.Run(c.edit, func(t *testing.T) {
			edit, second := strings.CutPrefix(c.edit, "2")
			before, after, _ := strings.Cut(edit, " → ")
			at := strings.Index(text, before)
			if second {
				at += 1 + strings.Index(text[at+1:], before)
			}
			if at < 0 || before == after {
				t.Fatalf("no %q in\n%s", before, text)
			}
			edited := text[:at] + after + text[at+len(before):]
			_, err := ParseDispatch(stampedFile, []byte(edited))
			if got := fmt.Sprint(err); got != stampedFile+c.want+remedy {
				t.Errorf("got\n  %s\nwant\n  %s%s%s", got, stampedFile, c.want, remedy)
			}
		})
	}
}

// TestDispatchLenient edits what is the template's: Kubernetes judges that.
func TestDispatchLenient(t *testing.T) {
	text := strings.Replace(stamped(t), "image: buildkite/agent:3", "image: other", 1)
	text = strings.Replace(text, "  namespace: buildkite\n", "", 1)
	got, err := ParseDispatch(stampedFile, []byte("# a person's note\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	want := order("default-7f3k9c2b", 12)
	want.Tags = []string{"queue=default", "overlay=default"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// orders draws dispatches that can be stamped.
func orders() *rapid.Generator[plan.Dispatch] {
	return rapid.Custom(func(t *rapid.T) plan.Dispatch {
		at := time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(t, "at"), 0).UTC()
		return plan.Dispatch{
			ID:          rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?`).Filter(func(id string) bool { return id != "state" && id != "kustomization" }).Draw(t, "id"),
			Purpose:     rapid.SampledFrom([]plan.Purpose{plan.ForDemand, plan.ForWarmPool}).Draw(t, "purpose"),
			Agents:      rapid.IntRange(1, policy.MaxAgents).Draw(t, "agents"),
			At:          at,
			NotAfter:    at.Add(time.Duration(rapid.IntRange(0, 86400).Draw(t, "lease")) * time.Second),
			IdleTimeout: time.Duration(rapid.IntRange(1, 1_000_000).Draw(t, "idle")) * time.Second,
			Uptime:      time.Duration(max(0, rapid.IntRange(-1_000_000, 1_000_000).Draw(t, "uptime"))) * time.Second,
			Template:    rapid.SampledFrom([]string{"5eed0f1ee75a0000", "0f1ee75a0f1ee75a"}).Draw(t, "template"),
			Cluster:     rapid.SampledFrom([]string{"", "ci"}).Draw(t, "cluster"),
		}
	})
}

func TestParseUndoesStamp(t *testing.T) {
	o := only(t, NewLoader("overlays"), sound(t).tree())
	rapid.Check(t, func(t *rapid.T) {
		want := orders().Draw(t, "dispatch")
		o := o
		o.Policy.Tags = rapid.SliceOfDistinct(rapid.StringMatching(`[ -~]+=[ -~]+`), rapid.ID[string]).Draw(t, "tags")
		for i := range o.Policy.Tags {
			o.Policy.Tags[i] = strings.ReplaceAll(o.Policy.Tags[i], ",", ";")
		}
		if rapid.Bool().Draw(t, "told") { // what the policy said then
			want.Tags = o.AgentTags()
			o.Policy.Tags = nil
		}
		text, err := o.stamp(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseDispatch(want.ID+".yaml", text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if want.Tags == nil {
			want.Tags = o.AgentTags()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

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
			drop(inner, LabelDispatch, LabelOverlay, AnnotationAgentTags, AnnotationCluster, AnnotationDigest, AnnotationTemplate, AnnotationIdleTimeout, AnnotationNotAfter, AnnotationOrderedAt, AnnotationPurpose)
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

func FuzzDispatch(f *testing.F) {
	text := stamped(f)
	f.Add([]byte(text))
	f.Add([]byte(strings.Replace(text, "12", "-1", 1)))
	f.Add([]byte("metadata: &a {labels: *a}"))
	o := only(f, NewLoader("overlays"), sound(f).tree())
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := ParseDispatch(stampedFile, data)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00\x1b") {
				t.Errorf("not one plain line: %q", err)
			}
			return
		}
		again, err := o.stamp(d)
		if err != nil {
			t.Fatalf("%+v was read and cannot be stamped: %v", d, err)
		}
		if back, err := ParseDispatch(stampedFile, again); err != nil || !cmp.Equal(back, d) {
			t.Errorf("read %+v, stamped and read again %+v: %v", d, back, err)
		}
	})
}
