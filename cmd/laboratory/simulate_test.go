package laboratory

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/cmd/invocation"
	"muster/generator/simulation"
	"muster/gitops/unraced"

	"github.com/google/go-cmp/cmp"
)

// simulated runs muster-sim simulate.
func simulated(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return execute(t, append([]string{"simulate"}, args...)...)
}

// simulatedJSON runs muster-sim simulate with --out, and returns what it prints and writes.
func simulatedJSON(t *testing.T, args ...string) (table string, d Comparison) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "s.json")
	code, table, stderr := simulated(t, append(args, "--out", name)...)
	if code != invocation.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	text, err := os.ReadFile(name)
	check(t, err)
	check(t, json.Unmarshal(text, &d))
	return table, d
}

// sampled are the workloads of docs/explanation/scaling-quality.md that a test simulates again.
var sampled = []string{"cron", "chains"}

// TestScalingQuality compares the page's summary and chart with the run that is kept in
// testdata, and that run with the command's results for a few of its workloads, each with a part
// of the algorithms; make quality runs all of them, which takes minutes, and -update writes the
// page and the chart.
func TestScalingQuality(t *testing.T) {
	unraced.Only(t)
	const picture = "docs/explanation/scaling-quality.svg"
	var all Comparison
	check(t, json.Unmarshal([]byte(readText(t, "testdata/scaling-quality/results.json")), &all))
	if *update {
		check(t, os.WriteFile(filepath.Join(top, picture), all.Chart(), 0o666))
		return
	}
	if diff := cmp.Diff(string(all.Chart()), readText(t, picture)); diff != "" {
		t.Errorf("%s is not that of the kept run; run this test with -update (-want +got):\n%s", picture, diff)
	}
	fields := func(line string) string { return strings.Join(strings.Fields(line), " ") } // columns may be wider
	printed := map[string]bool{}
	for line := range strings.Lines(readText(t, "testdata/scaling-quality/results.txt")) {
		printed[fields(line)] = true
	}
	for i, workload := range sampled {
		var algorithms []string
		for n, name := range algorithmNames() {
			if n == 0 || n%len(sampled) == i {
				algorithms = append(algorithms, name)
			}
		}
		table, fresh := simulatedJSON(t, "--workload", workload, "--algorithms", strings.Join(algorithms, ","))
		for line := range strings.Lines(table) {
			if !printed[fields(line)] {
				t.Errorf("testdata/scaling-quality/results.txt is not what the command prints; run make quality. It prints:\n%s", line)
			}
		}
		old := all
		old.Workloads = slices.DeleteFunc(slices.Clone(all.Workloads), func(w WorkloadEntry) bool { return w.Name != workload })
		for i := range old.Workloads {
			w := &old.Workloads[i]
			w.Results = slices.DeleteFunc(w.Results, func(a AlgorithmEntry) bool { return !slices.Contains(algorithms, a.Algorithm) })
		}
		if diff := cmp.Diff(old, fresh); diff != "" {
			t.Errorf("testdata/scaling-quality/results.json is not what the command writes; run make quality (-kept +fresh):\n%s", diff)
		}
	}
}

// TestMeans asserts that the figures on the page are those of the kept run.
func TestMeans(t *testing.T) {
	t.Parallel()
	_, means, _ := strings.Cut(readText(t, "testdata/scaling-quality/results.txt"), "\ngeometric means")
	kept := map[string][]string{}
	for line := range strings.Lines(means) {
		if f := strings.Fields(line); len(f) > 6 {
			kept[f[0]] = f[1:6]
		}
	}
	rows := 0
	for line := range strings.Lines(readText(t, "docs/explanation/scaling-quality.md")) {
		cells := strings.Split(line, " | ")
		name, _, found := strings.Cut(strings.TrimPrefix(cells[0], "| `"), "`")
		if !found || len(cells) != 6 || kept[name] == nil {
			continue
		}
		rows++
		cells[5] = strings.TrimSuffix(cells[5], " |\n")
		if !slices.Equal(cells[1:], kept[name]) {
			t.Errorf("%s has %v on the page, want %v", name, cells[1:], kept[name])
		}
	}
	if rows < 10 {
		t.Errorf("%d rows were compared", rows)
	}
}

// TestInChart asserts which algorithms are drawn.
func TestInChart(t *testing.T) {
	t.Parallel()
	if got := InChart(algorithmNames()); !slices.Equal(got, Drawn) {
		t.Errorf("of all: %v, want %v", got, Drawn)
	}
	got := InChart([]string{"plain-cooldown", "keda-accurate", "muster", "arc", "keda-default", "muster-flux"})
	if want := []string{"muster", "keda-accurate", "plain-cooldown", "arc", "keda-default"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestSimulateSyncers asserts that a slower syncer makes jobs wait longer, that flags change a
// syncer, that --faults limits the requests, and that the file contains the seed.
// TestScalingQuality compares all else in the file.
func TestSimulateSyncers(t *testing.T) {
	unraced.Only(t)
	p95 := func(args ...string) float64 {
		t.Helper()
		_, d := simulatedJSON(t, append([]string{"--workload", "short-calm", "--algorithms", "muster", "--length", "1h", "--seed", "9"}, args...)...)
		if d.Seed != 9 {
			t.Errorf("the seed is %d", d.Seed)
		}
		return d.Workloads[0].Results[0].Wait.P95
	}
	argocd, flux, notified, changed := p95("--syncer", "argocd"), p95("--syncer", "flux"), p95("--syncer", "notified"), p95("--syncer", "60s")
	if argocd <= flux || flux <= notified || changed != flux {
		t.Errorf("p95 waits of %v with Argo CD, %v with Flux, %v notified, and %v with Argo CD as Flux is set up", argocd, flux, notified, changed)
	}
	if all, limited := p95(), p95("--faults", "requests=20"); limited <= all {
		t.Errorf("a p95 wait of %v without a limit of requests, and %v with one of 20 a minute", all, limited)
	}
}

// TestSimulateRunsOneWorkloadByDefault asserts that simulate runs one workload by default,
// and lists the others.
func TestSimulateRunsOneWorkloadByDefault(t *testing.T) {
	unraced.Only(t)
	code, table, stderr := simulated(t, "--length", "1h")
	if code != invocation.ExitOK || !strings.HasPrefix(table, simulation.DefaultLoad+": ") || strings.Count(table, "lower bound") != 1 {
		t.Fatalf("exit code %d, want one table: %s%s", code, table, stderr)
	}
	for _, a := range algorithmNames() {
		shown := strings.Contains(table, "  "+a+" ")
		if want := slices.Contains(simulation.DefaultAlgorithms(), a); shown != want || strings.Contains(strings.ReplaceAll(stderr, "\n", ", ")+",", " "+a+",") == want {
			t.Errorf("%s: in the table: %t, want %t, and otherwise among the other algorithms:\n%s", a, shown, want, stderr)
		}
	}
	for _, w := range workloadNames() {
		if w != simulation.DefaultLoad && !strings.Contains(strings.ReplaceAll(stderr, "\n", ", "), " "+w+",") {
			t.Errorf("%s is not among the other workloads:\n%s", w, stderr)
		}
	}
}

// TestSimulateDrawn asserts that two drawn workloads are simulated, and their means printed.
func TestSimulateDrawn(t *testing.T) {
	unraced.Only(t)
	code, table, stderr := simulated(t, "--workload", "drawn-1,drawn-2", "--length", "2h", "--algorithms", "muster,muster-reuse-1m")
	if code != invocation.ExitOK || !strings.HasPrefix(table, "drawn-1: ") || !strings.Contains(table, "\n  muster           1.00       1.00  1.00       1.00     1.00 (drawn-") {
		t.Errorf("exit code %d: %s%s", code, table, stderr)
	}
}
