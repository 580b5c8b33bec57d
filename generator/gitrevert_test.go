package generator_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/cmd/starter"
	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/unraced"
)

// gitCommand runs git in a directory and returns its output.
func gitCommand(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// export writes the history of a fleet into a git repository, and returns its commits in order.
func (f *fleetRepository) export(t *testing.T, dir string) []string {
	t.Helper()
	run := func(args ...string) string {
		out, err := gitCommand(dir, args...)
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(out)
	}
	run("init", "-q", "-b", "main")
	var all []string
	for _, c := range f.history() {
		run("rm", "-rq", "--cached", "--ignore-unmatch", ".")
		run("clean", "-fdxq")
		for name, text := range c.tree.files {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		run("add", "-A")
		run("commit", "-q", "--allow-empty", "-m", c.message())
		all = append(all, run("rev-parse", "HEAD"))
	}
	return all
}

// TestGitRevert: a plain git revert of a commit of muster's applies, whatever came after it, because of the
// .gitattributes that muster init writes. muster repairs the result, in the process that was there and in a
// new one: each order counts that counted before. Two kinds of commits are left out: the first one, which
// creates state.yaml, and orders that were retired since. git takes the manifest of such an order for that
// of a later one, from which it differs in a few lines only, and finds a conflict.
func TestGitRevert(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	b := newBench("a")
	b.overlays[0].spec.max = 100
	b.fleet = newFleet(b.Now, retiringFiles(b.overlays))
	b.fleet.edit("a person", branch.Change{Path: ".gitattributes", Content: []byte(starter.Attributes)})
	g := b.generator()
	var live []plan.Dispatch
	for i := range 18 {
		b.now = b.now.Add(90 * time.Second)
		b.jobs("a", 1+i%3)
		for _, op := range tick(t, g).Operations {
			live = append(live, op.Decision.Dispatch...)
		}
		if i%3 == 1 && len(live) > 2 { // the agents of an order in the middle register
			b.snapshot.Sightings = append(b.snapshot.Sightings, sightings(live[1], "a")...)
			live = append(live[:1], live[2:]...)
		}
		if i == 6 {
			b.correct()
		}
	}
	dir := t.TempDir()
	commits := b.fleet.export(t, dir)
	log, reverted := b.fleet.history(), map[ledger.Kind]int{}
	before := tick(t, b.generator()).Decisions[0].Figures.InFlight
	for i, c := range log {
		if _, first := c.tree.files[stateOfA]; c.operation == nil || first && c.parent.tree.files[stateOfA] == nil {
			continue
		}
		end := log[len(log)-1].tree.files
		if slices.ContainsFunc(c.operation.Changes, func(x branch.Change) bool { return x.Content != nil && end[x.Path] == nil }) {
			continue
		}
		args := []string{"revert", "--no-edit", commits[i]}
		out, err := gitCommand(dir, args...)
		if err != nil && !strings.Contains(out, "nothing to commit") && !strings.Contains(out, "nothing added to commit") {
			t.Errorf("%s %d: git %v: %v\n%s", c.operation.Kind, i, args, err, out)
		}
		reverted[c.operation.Kind]++
		after := map[string]bool{}
		var changes []branch.Change
		for _, name := range []string{"state.yaml", "kustomization.yaml"} {
			text, err := os.ReadFile(filepath.Join(dir, dispatches, name))
			if err == nil {
				changes = append(changes, branch.Change{Path: dispatches + "/" + name, Content: text})
			}
		}
		all, err := filepath.Glob(filepath.Join(dir, dispatches, "a-*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range all {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := dispatches + "/" + filepath.Base(file)
			after[name] = true
			changes = append(changes, branch.Change{Path: name, Content: text})
		}
		for name := range end {
			if _, is := manifestID(name); is && !after[name] {
				changes = append(changes, branch.Change{Path: name})
			}
		}
		for _, restarted := range []bool{false, true} {
			again := *b
			again.fleet = newFleet(b.Now, nil)
			again.fleet.log = append(log[:len(log):len(log)], nil)[:len(log)]
			g := again.generator()
			tick(t, g)
			again.fleet.edit("a person reverts", changes...)
			if restarted {
				g = again.generator()
			}
			r := tick(t, g)
			if s := r.Decisions[0].Figures; s.InFlight+ordered(r) < before || len(r.Suspended) > 0 {
				t.Errorf("%s %d, restarted %t: %d in flight and %d ordered, want %d; %s, suspended %v", c.operation.Kind, i, restarted, s.InFlight, ordered(r), before, kinds(r.Operations), r.Suspended)
			}
			loaded, err := fleet.NewLoader("overlays").Load(again.fleet.head().tree)
			if err != nil || loaded[0].Err() != nil || len(loaded[0].Faults()) > 0 {
				t.Errorf("%s %d, restarted %t: %v, %v, %v after the repair", c.operation.Kind, i, restarted, err, loaded[0].Err(), loaded[0].Faults())
			}
		}
		if out, err := gitCommand(dir, "reset", "-q", "--hard", commits[len(commits)-1]); err != nil {
			t.Fatalf("git reset: %v\n%s", err, out)
		}
		_, _ = gitCommand(dir, "revert", "--quit")
	}
	if reverted[ledger.Dispatch] < 5 || reverted[ledger.Retire] < 2 || reverted[ledger.Withdraw] < 1 {
		t.Errorf("only %v were reverted", fmt.Sprint(reverted))
	}
}
