package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator/simulation"
	"muster/gitops/branch"
	"muster/gitops/gitserver"
	"muster/gitops/ledger"
	"muster/gitops/unraced"
)

// simulated runs muster simulate.
func simulated(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := program{args: append([]string{"simulate"}, args...), stdout: &out, stderr: &errs, clock: stoppedClock{start}}
	code = p.run(t.Context())
	return code, out.String(), errs.String()
}

// TestScalingQuality holds the page's table and chart against what the command
// prints and draws; -update writes them. Under the race detector, where the run
// would take a minute, it is a program built without that draws them.
func TestScalingQuality(t *testing.T) {
	page := filepath.Join("..", "..", "docs", "scaling-quality.md")
	chart := filepath.Join("..", "..", "docs", "scaling-quality.svg")
	fresh := filepath.Join(t.TempDir(), "scaling-quality.svg")
	table := comparisonTable(t, "--chart", fresh)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := os.ReadFile(fresh)
	if err != nil {
		t.Fatal(err)
	}
	want := withTable(t, string(text), table)
	if *updateScripts {
		for name, content := range map[string]string{page: want, chart: string(drawn)} {
			if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("%s is not what the command prints; run this test with -update (-want +got):\n%s", page, diff)
	}
	if old, err := os.ReadFile(chart); err != nil || !bytes.Equal(old, drawn) {
		t.Errorf("%s is not what the command draws (%v); run this test with -update", chart, err)
	}
}

// comparisonTable returns what muster simulate prints.
func comparisonTable(t *testing.T, args ...string) string {
	t.Helper()
	if !raced {
		code, table, stderr := simulated(t, args...)
		if code != exitOK {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		return table
	}
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(binary, append([]string{"simulate"}, args...)...)
	c.Env = []string{"GOGC=400"} // much is made and little kept
	var stderr bytes.Buffer
	c.Stderr = &stderr
	table, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	return string(table)
}

// withTable puts the table where the page has a place for it.
func withTable(t *testing.T, page, table string) string {
	t.Helper()
	const begin, end = "<!-- begin: muster simulate -->\n", "<!-- end: muster simulate -->"
	head, rest, ok := strings.Cut(page, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("the page has no place for the table")
	}
	return head + begin + "```text\n" + table + "```\n" + end + tail
}

// TestSimulateJSON: the file says what the table says, and twice the same.
func TestSimulateJSON(t *testing.T) {
	var files [2]string
	for i := range files {
		name := filepath.Join(t.TempDir(), "s.json")
		code, table, stderr := simulated(t, "--workload", "steady,bursts", "--algorithms", "plain,muster", "--hours", "2", "--seed", "9", "--json", name)
		if code != exitOK {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = table + string(text)
		var d comparison
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		if d.APIVersion != "muster.dev/v1alpha1" || d.Kind != "Simulation" || d.Seed != 9 {
			t.Errorf("got %s %s of seed %d", d.APIVersion, d.Kind, d.Seed)
		}
		if len(d.Workloads) != 2 || len(d.Workloads[1].Results) != 2 {
			t.Fatalf("got %d workloads, want 2 of 2 algorithms", len(d.Workloads))
		}
		for _, w := range d.Workloads {
			for _, r := range w.Results {
				if line := fmt.Sprintf("%.1fs", r.Wait.Mean); !strings.Contains(table, line) || r.Agents < r.Bound.Agents || r.Jobs == 0 {
					t.Errorf("%s, %s: mean wait %s is not in the table, or %d agents for %d jobs", w.Name, r.Algorithm, line, r.Agents, r.Jobs)
				}
			}
		}
	}
	if files[0] != files[1] {
		t.Error("the same seed gave other bytes the second time")
	}
}

func TestSimulateUsage(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return name
	}
	bad := write("bad.csv", "at,duration\n0,60\n5,soon\n")
	policy := write("scaling.yaml", "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec: {queue: default, max: many}\n")
	for _, test := range []struct{ args, want string }{
		{"--csv " + bad, bad + `: row 3: duration: "soon" is neither`},
		{"--csv " + bad + " --workload steady", "use one of them"},
		{"--csv " + dir + "/none.csv", "no such file"},
		{"--workload stormy", "--workload stormy: use some of steady, diurnal"},
		{"--algorithms magic", "--algorithms magic: use some of muster,"},
		{"--hours 0", "--hours 0: use 1 to"},
		{"--interval 1ms", "--interval is below one second"},
		{"--boot-min 2m --boot-max 1m", "--boot-min 2m0s"},
		{"--nodes -1", "--nodes -1 is below zero"},
		{"--no-show NaN", "--no-show NaN: use 0 to 1"},
		{"--chart chart.png", "must end in .svg"},
		{"--policy " + policy, "spec.max"},
		{"--history " + dir, "opening " + dir},
	} {
		code, stdout, stderr := simulated(t, strings.Fields(test.args)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: exit code %d, printed %q, and %q, want %q", test.args, code, stdout, stderr, test.want)
		}
	}
}

// TestSimulateHistory records a day in a real repository and plays it again,
// with the overlay's policy and with another.
func TestSimulateHistory(t *testing.T) {
	unraced.Only(t)
	repository, err := gitserver.Init(filepath.Join(t.TempDir(), "fleet.git"))
	if err != nil {
		t.Fatal(err)
	}
	const scaling = "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec: {queue: default, max: %d}\n"
	commit := func(message string, at time.Time, changes ...branch.Change) {
		t.Helper()
		if _, err := repository.Commit(message, at, changes...); err != nil {
			t.Fatal(err)
		}
	}
	commit("Begin\n", simulation.Start(), branch.Change{Path: "overlays/default/scaling.yaml", Content: fmt.Appendf(nil, scaling, 50)})
	workload := simulation.Loads()[0].Generate(1, 2*time.Hour)
	n := 0
	simulation.Play(simulation.DefaultWorld(), workload, &simulation.Muster{}, func(a simulation.Act) {
		n++
		act := ledger.Act{Kind: ledger.Dispatch, Path: "overlays/default", Decision: *a.Decision}
		if len(a.Order) == 0 {
			act.Kind = ledger.Retire
		}
		commit(ledger.Message(act, Version), a.Decision.At(), branch.Change{Path: "n", Content: fmt.Append(nil, n)})
	})
	jobs := func(args ...string) (table string) {
		t.Helper()
		code, table, stderr := simulated(t, append([]string{"--history", repository.Dir, "--algorithms", "muster"}, args...)...)
		if code != exitOK {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		return table
	}
	own := jobs()
	var rebuilt int
	if _, err := fmt.Sscanf(own, "fleet: %d jobs", &rebuilt); err != nil || rebuilt < workload.Jobs()*95/100 || rebuilt > workload.Jobs()*105/100 {
		t.Errorf("rebuilt %d jobs of %d (%v):\n%s", rebuilt, workload.Jobs(), err, own)
	}
	policy := filepath.Join(t.TempDir(), "scaling.yaml")
	if err := os.WriteFile(policy, fmt.Appendf(nil, scaling, 3), fs.ModePerm); err != nil {
		t.Fatal(err)
	}
	if other := jobs("--policy", policy); other == own {
		t.Errorf("max: 3 changed nothing:\n%s", other)
	}
	if code, stdout, stderr := simulated(t, "--history", repository.Dir, "--overlay", "overlays/other"); code != exitUsage || stdout != "" || !strings.Contains(stderr, "no observation of it in the history, which has some of overlays/default") {
		t.Errorf("another overlay: exit code %d, %q, %q", code, stdout, stderr)
	}

	// The same through --repo, with a password, and from within a clone.
	server, err := gitserver.Serve(filepath.Dir(repository.Dir), gitserver.Options{Username: "robot", Password: "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	url := server.URL + "/fleet.git"
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, table, stderr := simulated(t, "--history", "--repo", url, "--git-username", "robot", "--git-password-file", password, "--algorithms", "muster"); table != own {
		t.Errorf("through --repo: %s\n%s", table, stderr)
	}
	if code, _, stderr := simulated(t, "--history", url, "--algorithms", "muster"); code == exitOK || !strings.Contains(stderr, "--git-password-file") {
		t.Errorf("without the password: exit code %d, %s", code, stderr)
	}
	clone := filepath.Join(t.TempDir(), "fleet")
	if _, err := repository.Git("clone", "--quiet", repository.Dir, clone); err != nil {
		t.Fatal(err)
	}
	if _, table, stderr := simulated(t, "--history="+filepath.Join(clone, "overlays", "default"), "--algorithms", "muster"); table != own {
		t.Errorf("in a clone: %s\n%s", table, stderr)
	}
	if code, _, stderr := simulated(t, "--history"); code != exitUsage || !strings.Contains(stderr, "which repository?") {
		t.Errorf("without a repository: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := simulated(t, "fleet"); code != exitUsage || !strings.Contains(stderr, `unknown argument "fleet"`) {
		t.Errorf("an argument: exit code %d, %s", code, stderr)
	}
}

// TestSimulateHistoryOf020: the commits of 0.2.0 tell a workload, too.
func TestSimulateHistoryOf020(t *testing.T) {
	repository := gitserver.NewRepository(t)
	for _, name := range []string{"demo-dispatch-waiting", "demo-retire-waiting"} {
		message, err := os.ReadFile(filepath.Join("..", "..", "gitops", "ledger", "testdata", "v0.2.0", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := repository.Commit(string(message), simulation.Start(), branch.Change{Path: name, Content: message}); err != nil {
			t.Fatal(err)
		}
	}
	if code, table, stderr := simulated(t, "--history", repository.Dir, "--algorithms", "muster"); code != exitOK || !strings.HasPrefix(table, "fleet: ") {
		t.Errorf("exit code %d: %s%s", code, table, stderr)
	}
	if _, err := repository.Commit("default: dispatch 1 agent\n\nx\n\nOverlay: overlays/default\nAct: dispatch\n", simulation.Start(), branch.Change{Path: "x", Content: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := simulated(t, "--history", repository.Dir); code == exitOK || !strings.Contains(stderr, "Dispatch: there is no such trailer") {
		t.Errorf("a damaged commit: exit code %d, %s", code, stderr)
	}
}
