package ledger_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

var update = flag.Bool("update", false, "write the messages into the cases")

// caseOperation is what a case may say beside its decision.
type caseOperation struct {
	Kind            ledger.Kind
	Path            string
	Written         []string // files
	Removed         []string
	Faults          []ledger.Fault
	Suspects        []ledger.Suspect
	SuspectsUnknown bool
}

// base is the commit on which the decisions of the cases were made.
const base = "4b1d2c3e5f60718293a4b5c6d7e8f90123456789"

// act reads a case: decision.yaml is what was decided, act.yaml the rest of the
// act. The kind is that of what the decision has, and the path is below
// overlays, where act.yaml does not say otherwise.
func readCase(t *testing.T, a *txtar.Archive) ledger.Draft {
	t.Helper()
	var d plan.Decision
	var x caseOperation
	for _, f := range a.Files {
		var err error
		switch f.Name {
		case "decision.yaml":
			err = yaml.UnmarshalStrict(f.Data, &d)
		case "act.yaml":
			err = yaml.UnmarshalStrict(f.Data, &x)
		}
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
	}
	op := ledger.Draft{Kind: x.Kind, Path: x.Path, Base: base, Decision: d, Faults: x.Faults, Suspects: x.Suspects, SuspectsUnknown: x.SuspectsUnknown}
	if op.Kind == "" {
		op.Kind = ledger.Retire
		switch {
		case len(d.Dispatch) > 0:
			op.Kind = ledger.Dispatch
		case len(d.Retire) > 0 && d.Retire[0].Reason == plan.Withdrawn:
			op.Kind = ledger.Withdraw
		}
	}
	if op.Path == "" {
		op.Path = "overlays/" + d.Overlay
	}
	for _, name := range x.Written {
		op.Changes = append(op.Changes, branch.Change{Path: op.Path + "/dispatches/" + name, Content: []byte("x")})
	}
	for _, name := range x.Removed {
		op.Changes = append(op.Changes, branch.Change{Path: op.Path + "/dispatches/" + name})
	}
	return op
}

// goldenOperations are the acts of all cases, by name.
func goldenOperations(t *testing.T) map[string]ledger.Draft {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 25 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	ops := map[string]ledger.Draft{}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		ops[file] = readCase(t, a)
	}
	return ops
}

// TestMessages writes each case's message, and reads it back.
func TestMessages(t *testing.T) {
	for file, op := range goldenOperations(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := ledger.Message(op, "v0.3.0")
			wantWords(t, got)
			wantEntry(t, got, op, "v0.3.0")
			last := &a.Files[len(a.Files)-1]
			if *update {
				if last.Name != "message" {
					a.Files = append(a.Files, txtar.File{Name: "message"})
					last = &a.Files[len(a.Files)-1]
				}
				last.Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(a), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(last.Data), got); diff != "" {
				t.Errorf("run with -update (-want +got):\n%s", diff)
			}
		})
	}
}

// wantWords holds a message to its form, and to words that everybody knows.
func wantWords(t *testing.T, message string) {
	t.Helper()
	subject, rest, _ := strings.Cut(message, "\n")
	if len(subject) > 100 || !strings.HasPrefix(rest, "\n") {
		t.Errorf("the subject is too long, or no paragraph: %q", subject)
	}
	prose, _, _ := strings.Cut(rest, "\nOverlay: ")
	for line := range strings.Lines(prose) {
		if n := len([]rune(line)); n > 77 && strings.Contains(strings.TrimSpace(line), " ") && !strings.Contains(line, "kubectl") {
			t.Errorf("a line of %d columns: %q", n, line)
		}
	}
	for _, word := range []string{"mend", "amiss", "makes no sense", "take away", "taken away", "sound", "held", "upkeep", "ceiling", "waiting", " given up"} {
		if strings.Contains(strings.ToLower(prose), word) {
			t.Errorf("the message says %q:\n%s", word, message)
		}
	}
	if strings.Contains(prose, "  and  ") || strings.Contains(prose, "..") || strings.Contains(prose, "%!") {
		t.Errorf("the message is badly put together:\n%s", message)
	}
}

// TestCommitsPageShowsMessage asserts that the example in docs/reference/commits.md is the
// message of a case.
func TestCommitsPageShowsMessage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "commits.md"))
	if err != nil {
		t.Fatal(err)
	}
	message := ledger.Message(goldenOperations(t)["testdata/demand-and-warm-pool.txtar"], "v0.3.0")
	message, _, _ = strings.Cut(message, `"jobs"`)
	message = strings.NewReplacer("linux-eu", "default", `"queue":"linux"`, `"queue":"default"`).Replace(message)
	if !strings.Contains(string(page), message) {
		t.Errorf("docs/reference/commits.md does not contain\n%s", message)
	}
}
