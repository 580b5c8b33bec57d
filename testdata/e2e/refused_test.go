package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"muster/testdata/e2e/kube"
)

// cause is why a cluster refuses a Job that is sound to muster.
type cause struct {
	name    string
	promise string
	// before and after are applied in YAML with NAMESPACE for the overlay's: what
	// makes the cluster refuse, and what mends that.
	before, after string
	// gone are paths of what has to be deleted to mend it.
	gone []string
	// free is how many Jobs are taken before one is refused.
	free int
}

var causes = []cause{
	{
		name: "policy", promise: "Admission policy refuses a Job",
		before: `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAMESPACE}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    resourceRules: [{apiGroups: [batch], apiVersions: [v1], operations: [CREATE], resources: [jobs]}]
  validations: [{expression: "false", message: no Jobs now}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAMESPACE}
spec: {policyName: NAMESPACE, validationActions: [Deny]}
`,
		gone: []string{
			"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/NAMESPACE",
			"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/NAMESPACE",
		},
	},
	{
		name: "webhook", promise: "Admission webhook is down",
		before: `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NAMESPACE}
webhooks:
  - name: e2e.muster.dev
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Fail
    clientConfig: {url: "https://127.0.0.1:9/"}
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    rules: [{apiGroups: [batch], apiVersions: [v1], operations: [CREATE], resources: [jobs]}]
`,
		gone: []string{"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/NAMESPACE"},
	},
	{
		name: "quota", promise: "Quota is exhausted", free: 1,
		before: "\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: jobs, namespace: NAMESPACE}\nspec: {hard: {count/jobs.batch: \"1\"}}\n",
		after:  "\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: jobs, namespace: NAMESPACE}\nspec: {hard: {count/jobs.batch: \"9\"}}\n",
	},
}

// testRefused: a Job that the cluster refuses comes once the cause has gone, and its
// neighbours are not stopped.
func testRefused(t *testing.T) {
	for _, c := range causes {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			both(t, c.promise+": it is created later, other Jobs run", func(t *testing.T, w *world, s syncer) {
				refused(t, w, s, c)
			})
		})
	}
}

func refused(t *testing.T, w *world, s syncer, c cause) {
	v := w.addOverlay(t, c.name, s, options{namespace: "refused-" + c.name + "-" + s.name()})
	in := func(text string) string { return strings.ReplaceAll(text, "NAMESPACE", v.namespace) }
	if c.free > 0 {
		v.build(c.free)
		v.runs(c.free)
		v.leavesGit() // so that only a retry can bring the next Job, and no commit to the overlay
	}
	v.must(w.cluster.Apply(w.ctx, in(c.before)))
	if c.free == 0 {
		v.admits(false)
	}
	v.build(1)
	v.isRefused(1, "forbidden", "denied", "failed calling webhook", "exceeded quota", "failed")
	// A neighbour, of the same syncer and the same repository.
	n := w.addOverlay(t, c.name+"-beside", s, options{})
	n.build(1)
	n.runs(1)
	if len(v.events.jobsOf(v.name)) != c.free {
		t.Errorf("a Job has come that was to be refused")
	}
	if f, isFlux := s.(*flux); isFlux { // Argo CD tries again only after commits to the overlay itself
		v.must(f.freeze(w, v.name))
	}
	if c.after != "" {
		v.must(w.cluster.Apply(w.ctx, in(c.after)))
	}
	for _, path := range c.gone {
		v.must(w.cluster.Delete(w.ctx, in(path), nil))
	}
	v.runs(c.free + 1)
	v.open()
	n.open()
	v.passes(c.free + 1)
	n.passes(1)
	v.complete()
	v.isWell()
	v.account()
	n.account()
}

// admits waits until the API server refuses a Job, or takes one: it learns of policies
// a moment after they were made.
func (v *overlay) admits(want bool) {
	v.t.Helper()
	v.until("the API server has heard of the policy", func() error {
		err := v.cluster.Post(v.ctx, kube.Path("batch/v1", "jobs", v.namespace, "")+"?dryRun=All", someJob())
		switch {
		case (err == nil) == want:
			return nil
		case err == nil:
			return errors.New("it takes a Job")
		}
		return err
	})
}

// someJob is a Job, to ask the API server what it makes of one.
func someJob() map[string]any {
	return map[string]any{
		"metadata": map[string]any{"generateName": "try-"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"restartPolicy": "Never", "containers": []map[string]any{{"name": "a", "image": "a"}},
		}}},
	}
}

// isRefused waits until there are N orders or more, and the syncer says that an object is refused, in one
// of these words.
func (v *overlay) isRefused(orders int, words ...string) {
	v.t.Helper()
	v.until("the syncer says that an object is refused", func() error {
		ok, said, err := v.syncer.status(v.ctx, v.name)
		mentioned := slices.ContainsFunc(words, func(word string) bool { return strings.Contains(said, word) })
		if ok || err != nil || !mentioned || orders > 0 && len(v.dispatches()) < orders {
			return errors.Join(fmt.Errorf("content: %v: %s", ok, said), err)
		}
		return nil
	})
}

// testCorrected: the template that made a Job refused is corrected. The next dispatch
// runs, though the refused one is not to be had any more.
func testCorrected(t *testing.T) {
	both(t, "Refused Job, template corrected: the next dispatch runs", func(t *testing.T, w *world, s syncer) {
		v := w.addOverlay(t, "corrected", s, options{
			namespace: "corrected-" + s.name(), policy: map[string]string{"lease": "3m"},
			patch: "- op: add\n  path: /spec/template/spec/priorityClassName\n  value: missing\n",
		})
		v.must(w.cluster.Apply(w.ctx, strings.ReplaceAll(strings.ReplaceAll(causes[0].before, "NAMESPACE", v.namespace),
			`expression: "false"`, `expression: "!has(object.spec.template.spec.priorityClassName)"`)))
		v.build(1)
		v.isRefused(1, "denied", "forbidden")
		v.must(w.git.edit("correct the template of "+v.name, func(dir string) error {
			return v.setTemplate(dir, options{namespace: v.namespace})
		}))
		v.build(1)
		v.runs(1)
		v.open()
		v.passes(2) // the other one when the refused dispatch's lease is over
		v.isWell()
		v.nobodyKilled()
	})
}

// testNamespace: the namespace is deleted while agents work, and made again.
func testNamespace(t *testing.T) {
	both(t, "Namespace terminating: agents finish, new orders run later", func(t *testing.T, w *world, s syncer) {
		v := w.addOverlay(t, "namespace", s, options{namespace: "terminating-" + s.name()})
		v.build(1)
		v.runs(1)
		v.must(w.cluster.Delete(w.ctx, "/api/v1/namespaces/"+v.namespace, nil))
		v.build(1)
		v.isRefused(2, "terminat", "not found", "forbidden")
		v.open()
		v.passes(1)
		v.gone("/api/v1/namespaces/" + v.namespace)
		v.must(w.cluster.addNamespace(w.ctx, v.namespace))
		if s.name() == "flux" { // its Role went with the namespace
			v.must(w.allow(w.ctx, s, v.namespace))
		}
		v.passes(2)
		v.isWell()
	})
}
