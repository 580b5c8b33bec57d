package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"muster/testdata/e2e/kube"
	"muster/testdata/e2e/node"
)

func testUnstarted(t *testing.T) {
	both(t, "Image pull fails: the retirement's command deletes only those pods", func(t *testing.T, w *world, s syncer) {
		full := "filled-" + s.name()
		w.reservedNode(t, full, 2)
		patch := onNodeAlone(full)
		bad := patch + "- op: replace\n  path: /spec/template/spec/containers/0/image\n  value: " + node.MissingRegistry + "agent:1\n"
		v := w.addOverlay(t, "unstarted", s, options{patch: bad, policy: map[string]string{"lease": "2m", "max": "2"}})
		v.build(2)
		v.reaches(2, "pods fill the node", func() int { return v.scheduled(true) })
		first := v.dispatches()[0].Dispatches[0]
		v.must(w.git.edit("correct the image of "+v.name, func(dir string) error { return v.setTemplate(dir, options{patch: patch}) }))
		v.reaches(2, "pods of the corrected order wait for room", func() int { return v.scheduled(false) })
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

// scheduled counts the pods of the overlay that have not started, on a node or not.
func (v *overlay) scheduled(want bool) (pods int) {
	v.t.Helper()
	var all struct {
		Items []node.Pod `json:"items"`
	}
	v.must(v.cluster.Get(v.ctx, kube.Path("v1", "pods", v.namespace, "")+"?labelSelector=muster.dev/overlay%3D"+v.name, &all))
	for _, p := range all.Items {
		if p.Status.Phase == "Pending" && (p.Spec.NodeName != "") == want {
			pods++
		}
	}
	return pods
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
