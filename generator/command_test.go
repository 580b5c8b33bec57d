package generator_test

import (
	"path"
	"strings"
	"testing"

	"muster/generator/history"
	"muster/generator/verification"
	"muster/gitops/branch"
)

// TestVerifyNamesCommands: the finding on a commit by people names the command of muster that makes
// its changes, and no command for other changes of the same files.
func TestVerifyNamesCommands(t *testing.T) {
	t.Parallel()
	l := plainLog(t)
	order, _ := l.order(t)
	x := takenAway(t)
	from, to, list, state := x.own+"/"+x.id+".yaml", x.own+"/withdrawn/"+x.id+".yaml", x.own+"/kustomization.yaml", x.own+"/state.yaml"
	const kinds = "apiVersion: muster.dev/v1alpha1\nkind: OverlayState\n"
	const open = kinds + "breaker: {failures: 3, cause: never-registered}\n"
	write := func(name, content string) branch.Change { return branch.Change{Path: name, Content: []byte(content)} }
	moved := []branch.Change{{Path: from}, write(to, x.text), write(list, x.without)}
	for name, c := range map[string]struct {
		message string
		changes []branch.Change
		want    history.Operation
		why     string
	}{
		"cancel":                    {"Not now\n", moved, history.Cancel, "cancels " + x.id},
		"revert":                    {"Not now\n\nThis reverts commit " + order.ID + ".\n", moved, history.Revert, "reverts " + order.ID[:7] + ": cancels " + x.id},
		"cancel and another policy": {"Not now\n", append(moved[:3:3], write(path.Dir(x.own)+"/scaling.yaml", "a: 1\n")), history.Cancel, "cancels " + x.id},
		"moved and edited":          {"Not now\n", []branch.Change{{Path: from}, write(to, "# more\n"+x.text)}, "", "changes " + from},
		"deleted":                   {"Not now\n", []branch.Change{{Path: from}}, "", "changes " + from},
		"close the breaker":         {"Try again\n", []branch.Change{write(state, kinds)}, history.CloseBreaker, "closes the circuit breaker after 3 failed orders"},
		"no state left":             {"Try again\n", []branch.Change{{Path: state}}, history.CloseBreaker, "closes the circuit breaker after 3 failed orders"},
		"another state":             {"Try again\n", []branch.Change{write(state, kinds+"breaker: {failures: 1}\n")}, "", "changes " + state},
		"and of another overlay":    {"Not now\n", append(moved[:3:3], write("overlays/other/dispatches/state.yaml", kinds)), "", "changes "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := l.of(order).then(branch.Commit{Message: "Before\n", At: order.At}, write(state, open))
			log = log.then(branch.Commit{Message: c.message, At: order.At}, c.changes...)
			found, _ := log.verify(t, nil)
			got := found[log.commits[0].ID]
			if got.Verdict != verification.People || got.Operation != c.want || len(got.Why) != 1 || !strings.HasPrefix(got.Why[0], c.why) {
				t.Errorf("got %+v, want %q, %q", got, c.want, c.why)
			}
		})
	}
}

// of returns the log up to a commit.
func (l anyLog) of(last branch.Commit) anyLog {
	for i, c := range l.commits {
		if c.ID == last.ID {
			l.commits = l.commits[i:]
			break
		}
	}
	return l
}
