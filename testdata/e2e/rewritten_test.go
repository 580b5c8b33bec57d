package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"muster/testdata/e2e/kube"
)

// mirror is the prefix that the policy adds to each image.
const mirror = "mirror.example.com/"

// rewriting is a policy that changes the image of each Job as it is created, as Kyverno
// and others do for the images of a mirror.
const rewriting = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAMESPACE}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    resourceRules: [{apiGroups: [batch], apiVersions: [v1], operations: [CREATE], resources: [jobs]}]
  mutations:
    - patchType: JSONPatch
      jsonPatch:
        expression: |-
          [JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/image",
            value: "` + mirror + `" + object.spec.template.spec.containers[0].image}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAMESPACE}
spec: {policyName: NAMESPACE}
`

// imagesOf are the images of the Jobs in a namespace.
type imagesOf struct {
	Spec struct {
		Template struct {
			Spec struct {
				Containers []struct{ Image string }
			}
		}
	}
}

func (i imagesOf) rewritten() error {
	if c := i.Spec.Template.Spec.Containers; len(c) != 1 || !strings.HasPrefix(c[0].Image, mirror) {
		return fmt.Errorf("the containers are %v", c)
	}
	return nil
}

func testRewritten(t *testing.T) {
	both(t, "Admission policy changes the image: no drift, later Jobs run", func(t *testing.T, w *world, s syncer) {
		// The lease is longer than the test waits, so that the dispatches stay in git.
		v := w.addOverlay(t, "rewritten", s, options{namespace: "rewritten-" + s.name(), policy: map[string]string{"lease": "10m"}})
		v.must(w.cluster.Apply(w.ctx, strings.ReplaceAll(rewriting, "NAMESPACE", v.namespace)))
		v.until("the API server has heard of the policy", func() error {
			var made imagesOf
			if err := v.cluster.Do(v.ctx, http.MethodPost, kube.Path("batch/v1", "jobs", v.namespace, "")+"?dryRun=All", "", someJob(), &made); err != nil {
				return err
			}
			return made.rewritten()
		})
		release := w.agents.hold(t, v.name)
		v.build(1)
		v.hasJobs(1)
		v.isWell()
		v.build(1)
		v.hasJobs(2)
		v.isWell()
		release()
		v.runs(2)
		for name := range v.events.jobsOf(v.name) {
			var made imagesOf
			v.must(w.cluster.Get(w.ctx, kube.Path("batch/v1", "jobs", v.namespace, name), &made))
			v.must(made.rewritten())
		}
		v.finish(2)
		v.leavesGit()
		v.isWell()
		v.account()
	})
}
