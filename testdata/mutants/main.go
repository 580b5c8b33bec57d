// Command mutants takes features out of muster, one after the other, and runs the rows of the long
// suites that promise them. It fails if a row passes without its feature: such a row proves nothing.
// See README.md.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// mutant is muster without a feature.
type mutant struct {
	// without is the feature.
	without string
	// edits take it out.
	edits []edit
	// rows are the names of subtests that must fail then, by suite.
	rows map[string][]string
}

// suite is a long suite, whose rows are subtests.
type suite struct {
	name string
	// selects is how many levels of the names of rows -run selects: deeper subtests need those before
	// them.
	selects int
	// command runs the rows whose names match $1, in bash.
	command string
}

var suites = []suite{
	{"incidents", 2, `go test -trimpath -vet=off -count=1 -timeout 30m ./cmd/muster -run "$1" -args -incidents -update`},
	{"operations", 2, `go test -trimpath -vet=off -count=1 -timeout 3m ./cmd/muster -run "$1"`},
	{"hosts", 3, `make --silent build && go -C testdata/hosts test -count=1 -timeout 30m . -run "$1" -args -rival 5s -patience 2m`},
	// Jobs are retired after five minutes, half of their TTL: with a patience of three, rows failed with every feature.
	{"e2e", 2, `make e2e PATIENCE=9m RUN="${1//\$/\$\$}"`},
	{"e2e-long", 1, `make e2e-long CHAOS=2m PATIENCE=9m RUN="${1//\$/\$\$}"`},
}

// edit replaces text that a file, relative to the top of the repository, contains once.
type edit struct{ file, before, after string }

func main() {
	log.SetFlags(0)
	only := flag.String("suite", "", "the `suite` whose rows are run; all if empty")
	match := flag.String("match", "", "the `expression` that mutants have to match; all if empty")
	controls := flag.Bool("controls", true, "first run the rows on the source as it is: they have to pass")
	outputs := flag.String("outputs", "", "the `directory` for what the tests of each mutant print; not kept if empty")
	flag.Parse()
	pattern, err := regexp.Compile(*match)
	if err != nil {
		log.Fatal(err)
	}
	if *outputs != "" {
		if err := os.MkdirAll(*outputs, 0o755); err != nil {
			log.Fatal(err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := newRunner(ctx)
	if err != nil {
		log.Fatal(err)
	}
	r.outputs = *outputs
	failed := false
	for _, s := range suites {
		if *only != "" && *only != s.name {
			continue
		}
		ok, err := r.run(ctx, s, pattern, *controls)
		failed = failed || !ok
		if err != nil {
			log.Print(err)
			failed = true
			break
		}
	}
	if err := r.remove(); err != nil {
		log.Print(err)
	}
	if failed {
		os.Exit(1)
	}
}

// runner has a working tree of its own, of the commit that is checked out here.
type runner struct{ top, tree, outputs, commit string }

func newRunner(ctx context.Context) (*runner, error) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return nil, fmt.Errorf("finding the top of the repository: %w", err)
	}
	commit, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%h of %cs", "--abbrev=12").Output()
	if err != nil {
		return nil, fmt.Errorf("reading the commit: %w", err)
	}
	dir, err := os.MkdirTemp("", "muster-mutants-")
	if err != nil {
		return nil, err
	}
	r := &runner{top: strings.TrimSpace(string(out)), tree: filepath.Join(dir, "tree"), commit: string(bytes.TrimSpace(commit))}
	if out, err := exec.CommandContext(ctx, "git", "worktree", "add", "--detach", r.tree, "HEAD").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("creating a working tree: %w\n%s", err, out)
	}
	// The programs that make e2e builds, which contain nothing of muster.
	built := filepath.Join(r.top, "bin", "e2e")
	if err := os.MkdirAll(built, 0o755); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(r.tree, "bin"), 0o755); err != nil {
		return nil, err
	}
	return r, os.Symlink(built, filepath.Join(r.tree, "bin", "e2e"))
}

func (r *runner) remove() error {
	if out, err := exec.Command("git", "worktree", "remove", "--force", r.tree).CombinedOutput(); err != nil {
		return fmt.Errorf("removing the working tree: %w\n%s", err, out)
	}
	return os.Remove(filepath.Dir(r.tree))
}

// run runs the rows of a suite for each mutant that matches. It reports whether all failed as they must.
func (r *runner) run(ctx context.Context, s suite, match *regexp.Regexp, controls bool) (ok bool, err error) {
	var chosen []mutant
	var rows []string
	for _, m := range mutants {
		if len(m.rows[s.name]) > 0 && match.MatchString(m.without) {
			chosen = append(chosen, m)
			rows = append(rows, m.rows[s.name]...)
		}
	}
	slices.Sort(rows)
	rows = slices.Compact(rows)
	if len(rows) == 0 {
		return true, nil
	}
	if controls {
		log.Printf("%s: %d rows with every feature", s.name, len(rows))
		if out, err := r.test(ctx, s, rows); err != nil {
			return false, fmt.Errorf("%s fails with every feature: %w\n%s", s.name, err, summary(out))
		}
	}
	ok = true
	for _, m := range chosen {
		survived, err := r.try(ctx, s, m)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err != nil {
			log.Printf("%s: without %s: %v", s.name, m.without, err)
			ok = false
			continue
		}
		commit := r.commit
		for _, row := range survived {
			log.Printf("%s: without %s, %s does not fail", s.name, m.without, row)
			ok, commit = false, ""
		}
		if err := record("README.md", s.name, m, commit); err != nil {
			return false, err
		}
	}
	return ok, nil
}

// try runs the rows of a mutant, and returns those that pass.
func (r *runner) try(ctx context.Context, s suite, m mutant) (survived []string, err error) {
	defer func() {
		if out, e := exec.Command("git", "-C", r.tree, "checkout", "--quiet", ".").CombinedOutput(); e != nil && err == nil { // rows record results
			err = fmt.Errorf("restoring the source: %w\n%s", e, out)
		}
	}()
	for _, e := range m.edits {
		if err := e.apply(r.tree); err != nil {
			return nil, err
		}
	}
	out, failure := r.test(ctx, s, m.rows[s.name])
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if failure != nil && !bytes.Contains(out, []byte("--- FAIL: ")) && !bytes.Contains(out, []byte("panic: test timed out")) {
		return nil, fmt.Errorf("no test ran: %w\n%s", failure, summary(out))
	}
	if r.outputs != "" {
		name := strings.ReplaceAll(s.name+" "+m.without+".txt", "/", "") // as in "deploy/"
		if err := os.WriteFile(filepath.Join(r.outputs, name), out, 0o644); err != nil {
			return nil, err
		}
	}
	for _, row := range m.rows[s.name] {
		if !failedIn(out, row) {
			survived = append(survived, row)
		}
	}
	log.Printf("%s: without %s, %d of %d rows fail", s.name, m.without, len(m.rows[s.name])-len(survived), len(m.rows[s.name]))
	for _, other := range othersIn(out, m.rows[s.name]) {
		log.Printf("%s: without %s, %s fails too", s.name, m.without, other)
	}
	return survived, nil
}

// apply makes the edit below a directory.
func (e edit) apply(tree string) error {
	file := filepath.Join(tree, e.file)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if n := bytes.Count(text, []byte(e.before)); n != 1 {
		return fmt.Errorf("%s contains %q %d times, want once", e.file, e.before, n)
	}
	return os.WriteFile(file, bytes.Replace(text, []byte(e.before), []byte(e.after), 1), 0o644)
}

// logsOfE2E matches where make e2e has left logs.
var logsOfE2E = regexp.MustCompile(`e2e: logs are in (\S+/muster-e2e-[0-9]+)/logs\n`)

// test runs rows of a suite, and others if names of different levels can be combined.
func (r *runner) test(ctx context.Context, s suite, rows []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "bash", "-c", s.command, "bash", s.runOf(rows))
	cmd.Dir = r.tree
	// The tests stop what they have started.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Minute
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	for _, dir := range logsOfE2E.FindAllSubmatch(out.Bytes(), -1) {
		if err := os.RemoveAll(string(dir[1])); err != nil {
			return out.Bytes(), err
		}
	}
	return out.Bytes(), err
}

// runOf returns the expression by which -run selects rows.
func (s suite) runOf(rows []string) string {
	var all []string
	for level := range s.selects {
		var names []string
		for _, row := range rows {
			if levels := strings.Split(row, "/"); level < len(levels) {
				names = append(names, regexp.QuoteMeta(levels[level]))
			}
		}
		slices.Sort(names)
		all = append(all, "^("+strings.Join(slices.Compact(names), "|")+")$")
	}
	return strings.Join(all, "/")
}

// failedIn reports whether a row failed, or ran when the time was over.
func failedIn(out []byte, row string) bool {
	name := regexp.QuoteMeta(row)
	return regexp.MustCompile(`(?m)^\s*(--- FAIL: ` + name + ` \(|` + name + ` \([0-9hms.]+\)$)`).Match(out)
}

// othersIn returns the names of the tests that failed, except rows, their subtests, and the tests that contain them.
func othersIn(out []byte, rows []string) []string {
	var others []string
	for _, found := range regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+) \(`).FindAllSubmatch(out, -1) {
		name := string(found[1])
		if !slices.ContainsFunc(rows, func(row string) bool {
			return strings.HasPrefix(name+"/", row+"/") || strings.HasPrefix(row, name+"/")
		}) {
			others = append(others, name)
		}
	}
	return others
}

// summary returns the names of the tests that failed, and the end of an output.
func summary(out []byte) []byte {
	const most = 6000
	failed := regexp.MustCompile(`(?m)^\s*--- FAIL: .*\n`).FindAll(out, -1)
	return slices.Concat(bytes.Join(failed, nil), out[max(0, len(out)-most):])
}
