package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator/history"
	"muster/generator/ledger"
	"muster/gitops/branch"
	"muster/gitops/gitserver"
	"muster/testdata/bench"

	"sigs.k8s.io/yaml"
)

// TestHistoryFollows asserts that the last rows are printed first, oldest on top, then each new
// commit once; that errors, and a branch that is reset or rewritten, are reported; and that
// polls continue.
func TestHistoryFollows(t *testing.T) {
	w, p, stdout, stderr := fleetProgram(t, "history", "--follow", "-o", "csv")
	policy, err := w.repo.ReadFile("overlays/default/scaling.yaml")
	check(t, err)
	at := start
	raise := func(to string) {
		at = at.Add(time.Minute)
		text := regexp.MustCompile(`max: [0-9]+`).ReplaceAll(policy, []byte("max: "+to))
		_, err := w.repo.Commit("Raise", at, branch.Change{Path: "overlays/default/scaling.yaml", Content: text})
		check(t, err)
	}
	reset := func(to string) {
		_, err := w.repo.Git("update-ref", "refs/heads/main", to)
		check(t, err)
	}
	runScripted(t, p, start,
		func() {},
		func() { raise("11"); raise("12") },
		func() { w.deny.Store(500) },
		func() { w.deny.Store(0); raise("13") },
		func() { reset("main~1") },
		func() { raise("14") },
		func() { reset("main~2"); raise("15") },
	)
	var got []string
	for line := range strings.Lines(stdout.String()) {
		fields := strings.Split(line, ",")
		if fields[2] == "policy" || fields[2] == "create" {
			got = append(got, fields[2]+" "+fields[4])
		}
	}
	want := []string{`create "queue default`, "policy max 10 -> 11", "policy max 11 -> 12", "policy max 12 -> 13", "policy max 12 -> 14", "policy max 11 -> 15"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("followed\n%s\nwant\n%s\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), stderr)
	}
	if n := strings.Count(stderr.String(), "the branch was rewritten"); n != 2 || strings.Count(stderr.String(), "answers with 500") != 1 {
		t.Errorf("said %d times that it was rewritten:\n%s", n, stderr)
	}
}

// TestReadAhead asserts that all commits are yielded in order, an error last, and that the loop
// may end early.
func TestReadAhead(t *testing.T) {
	broken := errors.New("broken")
	for _, n := range []int{0, 1, 16, 17, 5000} {
		for _, fails := range []error{nil, broken} {
			commits := func(yield func(branch.Commit, error) bool) {
				for i := range n {
					if !yield(branch.Commit{ID: fmt.Sprint(i)}, nil) {
						return
					}
				}
				if fails != nil {
					yield(branch.Commit{}, fails)
				}
			}
			i := 0
			var last error
			for c, err := range invocation.ReadAhead(commits, func() {}) {
				if last = err; err == nil && c.ID != fmt.Sprint(i) {
					t.Fatalf("%d commits: number %d is %s", n, i, c.ID)
				}
				i++
			}
			if want := n + map[bool]int{true: 1}[fails != nil]; i != want || !errors.Is(last, fails) {
				t.Errorf("%d commits: %d and then %v, want %d", n, i, last, want)
			}
			for range invocation.ReadAhead(commits, func() {}) {
				break
			}
		}
	}
}

// TestMoment asserts the parsing of times and ages.
func TestMoment(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"90m": "2026-11-21T00:45:00Z", "2d": "2026-11-19T02:15:00Z", "1w": "2026-11-14T02:15:00Z", "99999d": "1753-02-06T02:15:00Z", "0s": "2026-11-21T02:15:00Z",
		"2026-11-20": "2026-11-20T00:00:00Z", "2026-11-20T03:04": "2026-11-20T03:04:00Z", "2026-11-20T03:04Z": "2026-11-20T03:04:00Z",
		"2026-11-20T03:04:05+01:00": "2026-11-20T02:04:05Z", "2026-11-20 03:04": "2026-11-20T03:04:00Z",
		"02:15": "2026-11-21T02:15:00Z", "02:16": "2026-11-20T02:16:00Z", "00:00": "2026-11-21T00:00:00Z",
	} {
		if got, err := invocation.Moment("until", text, now); err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"soon", "-5m", "5", "2026-13-01", "24:00", "999999d", "1y", "0001-01-01T00:00:00Z"} {
		if got, err := invocation.Moment("until", text, now); err == nil {
			t.Errorf("%s is %s, want a mistake", text, got)
		}
	}
	for _, text := range []string{"0s", "0d", "02:15", "2026-11-21T02:15:00Z", "2030-01-01"} {
		if got, err := invocation.Moment("since", text, now); err == nil {
			t.Errorf("--since %s is %s, which is not in the past", text, got)
		}
	}
}

// TestHistoryPrintsOneDocument asserts that JSON and YAML are complete with any number of rows,
// that CSV contains no formula, and that nothing moves the cursor.
func TestHistoryPrintsOneDocument(t *testing.T) {
	unmarshal := map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(text []byte, to any) error { return yaml.Unmarshal(text, to) },
	}
	for _, format := range []string{"json", "yaml", "csv"} {
		for n := range 3 {
			var text bytes.Buffer
			p := program{invocation.Program{Stdout: &output.Printable{To: &text}}}
			out := output.NewHistoryOutput(p.Output(), p.DoneOnTerminal)
			printer := output.NewHistoryPrinter(format, "", out)
			for range n {
				check(t, printer.Row(ledger.Operation{Commit: branch.Commit{ID: strings.Repeat("a", 40), Author: "=cmd()|x!A1\x1b[2J", At: start}, Kind: ledger.Policy, Why: "max 1 -> 2"}))
			}
			check(t, errors.Join(printer.End(history.Count{Commits: n}), out.Flush()))
			if strings.Contains(text.String(), "\x1b") {
				t.Errorf("%s with %d rows moves the cursor: %q", format, n, &text)
			}
			if format == "csv" {
				lines, err := csv.NewReader(&text).ReadAll()
				check(t, err)
				if len(lines) != n+1 || n > 0 && !strings.HasPrefix(lines[1][slices.Index(lines[0], "by")], "'=cmd") {
					t.Errorf("%d rows are the lines %q", n, lines)
				}
				continue
			}
			var document struct {
				Kind  string
				Rows  []map[string]any
				Count struct{ Commits int }
			}
			check(t, unmarshal[format](text.Bytes(), &document))
			if document.Kind != "History" || len(document.Rows) != n || document.Count.Commits != n {
				t.Errorf("%s with %d rows: %+v\n%s", format, n, document, &text)
			}
		}
	}
}

// BenchmarkHistory reads the history of a fleet of 100,000 commits of muster's, of
// which one in a hundred is somebody's, out of a repository on this machine: all of
// it, and up to the first rows; and reports on it.
func BenchmarkHistory(b *testing.B) {
	const commits = 100_000
	r := gitserver.NewRepository(b)
	check(b, r.Generate(gitserver.Size{Files: 50, Commits: commits, Message: fleetMessage}))
	for _, test := range []struct {
		figure string
		args   []string
	}{
		{"all rows", []string{"history"}}, {"first 40 rows", []string{"history", "-n", "40"}}, {"HTML report", []string{"report", "--since", "69d"}},
	} {
		b.Run(test.figure, func(b *testing.B) {
			var took []float64
			for b.Loop() {
				var out, err counted
				p := program{invocation.Program{Args: append(test.args, "--repo", r.Dir), Stdout: &out, Stderr: &err, Clock: stoppedClock{gitserver.GeneratedAt(commits)}}}
				begin := time.Now()
				if code := p.run(b.Context()); code != invocation.ExitOK || test.figure == "all rows" && out.lines < commits*99/100 {
					b.Fatalf("exit code %d, %d lines", code, out.lines)
				}
				took = append(took, time.Since(begin).Seconds())
			}
			bench.Row(b, "history of 100,000 commits: "+test.figure, bench.Median(took))
		})
	}
}
