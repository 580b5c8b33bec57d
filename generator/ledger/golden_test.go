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

// caseAct is what a case may say beside its decision.
type caseAct struct {
	Kind            ledger.Kind
	Path            string
	Written         []string // files
	Removed         []string
	Faults          []ledger.Fault
	Suspects        []ledger.Suspect
	SuspectsUnknown bool
}

// act reads a case: decision.yaml is what was decided, act.yaml the rest of the
// act. The kind is that of what the decision has, and the path is below
// overlays, where act.yaml does not say otherwise.
func readCase(t *testing.T, a *txtar.Archive) ledger.Act {
	t.Helper()
	var d plan.Decision
	var x caseAct
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
	act := ledger.Act{Kind: x.Kind, Path: x.Path, Decision: d, Faults: x.Faults, Suspects: x.Suspects, SuspectsUnknown: x.SuspectsUnknown}
	if act.Kind == "" {
		act.Kind = ledger.Retire
		if len(d.Dispatch) > 0 {
			act.Kind = ledger.Dispatch
		}
	}
	if act.Path == "" {
		act.Path = "overlays/" + d.Overlay
	}
	for _, name := range x.Written {
		act.Changes = append(act.Changes, branch.Change{Path: act.Path + "/dispatches/" + name, Content: []byte("x")})
	}
	for _, name := range x.Removed {
		act.Changes = append(act.Changes, branch.Change{Path: act.Path + "/dispatches/" + name})
	}
	return act
}

// goldenActs are the acts of all cases, by name.
func goldenActs(t *testing.T) map[string]ledger.Act {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 25 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	acts := map[string]ledger.Act{}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		acts[file] = readCase(t, a)
	}
	return acts
}

// TestMessages writes each case's message, and reads it back.
func TestMessages(t *testing.T) {
	for file, act := range goldenActs(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := ledger.Message(act, "v0.3.0")
			wantWords(t, got)
			wantEntry(t, got, act, "v0.3.0")
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

// TestDesignShowsAMessage: the page's message is one that is written.
func TestDesignShowsAMessage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "design.md"))
	if err != nil {
		t.Fatal(err)
	}
	message := ledger.Message(goldenActs(t)["testdata/demand-and-warm-pool.txtar"], "v0.3.0")
	message, _, _ = strings.Cut(message, `"jobs"`)
	message = strings.NewReplacer("linux-eu", "default", `"queue":"linux"`, `"queue":"default"`).Replace(message)
	if !strings.Contains(string(page), message) {
		t.Errorf("docs/design.md does not show\n%s", message)
	}
}
