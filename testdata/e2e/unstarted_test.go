package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"muster/testdata/e2e/kube"
	"muster/testdata/e2e/node"
)

func testUnstarted(t *testing.T) {
	both(t, "Image pull fails: the retirement's command deletes only those pods", func(t *testing.T, w *world, s syncer) {
		full := "filled-" + s.name()
		n, err := node.Start(w.ctx, node.Config{Name: full, Client: w.cluster.Client, Runner: w.agents, Now: time.Now, OnKill: w.events.kill, Reserved: true, Pods: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := n.Remove(w.ctx); err != nil {
				t.Error(err)
			}
		})
		patch := `
- op: add
  path: /spec/template/spec/nodeSelector/kubernetes.io~1hostname
  value: ` + full + `
- op: add
  path: /spec/template/spec/tolerations
  value: [{key: ` + node.ReservedTaint + `, operator: Exists}]
`
		bad := patch + "- op: replace\n  path: /spec/template/spec/containers/0/image\n  value: " + node.MissingRegistry + "agent:1\n"
		v := w.addOverlay(t, "unstarted", s, options{patch: bad, policy: map[string]string{"lease": "1m", "max": "2"}})
		v.build(2)
		v.until("its pods fill the node", func() error {
			if pods := v.scheduled(true); len(pods) != 2 {
				return fmt.Errorf("%d do", len(pods))
			}
			return nil
		})
		first := v.dispatches()[0].Dispatches[0]
		v.must(w.git.edit("correct the image of "+v.name, func(dir string) error { return v.setTemplate(dir, options{patch: patch}) }))
		v.until("the corrected order has no room", func() error {
			if pods := v.scheduled(false); len(pods) != 2 {
				return fmt.Errorf("%d pods wait for room", len(pods))
			}
			return nil
		})
		var command string
		v.until("a commit has the command", func() error {
			var err error
			command, err = v.deleteCommand(first)
			return err
		})
		run := exec.Command("sh", "-c", command)
		run.Env = []string{"PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + w.cluster.kubeconfig, "HOME=" + t.TempDir()}
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		v.runs(2)
		// The Job's status follows its pods.
		v.until("of the Jobs only "+first+", whose pods were deleted, has failed", func() error {
			for _, lives := range v.events.jobsOf(v.name) {
				if j := lives[0]; len(lives) != 1 || j.Failed != (j.Name == first) {
					return fmt.Errorf("%+v", lives)
				}
			}
			return nil
		})
		v.open()
		v.passes(2)
		v.leavesGit()
		v.isWell()
		v.account()
	})
}

// scheduled are the pods of the overlay that have not started, on a node or not.
func (v *overlay) scheduled(want bool) []string {
	v.t.Helper()
	var all struct {
		Items []node.Pod `json:"items"`
	}
	v.must(v.cluster.Get(v.ctx, kube.Path("v1", "pods", v.namespace, "")+"?labelSelector=muster.dev/overlay%3D"+v.name, &all))
	var names []string
	for _, p := range all.Items {
		if p.Status.Phase == "Pending" && (p.Spec.NodeName != "") == want {
			names = append(names, p.Metadata.Name)
		}
	}
	return names
}

// deleteCommand is the command of the commit that retired a dispatch.
func (v *overlay) deleteCommand(dispatch string) (string, error) {
	out, err := v.git.Git("log", "--format=%B", "main", "--", "overlays/"+v.name)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "kubectl delete ") && strings.Contains(line, dispatch) {
			return line, nil
		}
	}
	return "", fmt.Errorf("no command for %s in:\n%s", dispatch, out)
}
