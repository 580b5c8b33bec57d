package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// pkg is what go list says of a package.
type pkg struct {
	ImportPath, Dir, Name              string
	GoFiles, TestGoFiles, XTestGoFiles []string
	TestImports, XTestImports          []string
}

// outcome is what became of a mutant.
type outcome string

const (
	killed    outcome = "killed"
	timedOut  outcome = "timed out"
	survived  outcome = "survived"
	unreached outcome = "not reached"
	invalid   outcome = "does not compile"
)

// rapid is a library of tests that draw at random. The same draws are made for
// each mutant, what fails is not looked into, and leaves no file behind.
const rapid = "pgregory.net/rapid"

// runner tries mutants.
type runner struct {
	tmp     string
	longest time.Duration // of one test; zero: any
	sample  int           // mutants of one package; zero: all
	seed    uint64
	checks  int            // draws of each test that draws at random
	only    *regexp.Regexp // of file:line
}

// compile builds the package's tests.
func (r *runner) compile(ctx context.Context, p pkg, binary string, flags ...string) ([]byte, error) {
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, p.ImportPath)...)
	return cmd.CombinedOutput()
}

// start runs a test binary where the package's files are. With the time limit,
// everything that it started ends too. The mutant with the number is on; 0 is
// none. Memory is bounded where the shell can.
func (r *runner) start(ctx context.Context, p pkg, id int, limit time.Duration, binary string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSlow)
	defer cancel()
	bounded := []string{"-c", `ulimit -v 6000000 2>/dev/null; exec "$0" "$@"`, binary}
	if slices.Contains(slices.Concat(p.TestImports, p.XTestImports), rapid) {
		args = append(args, "-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=1ms", fmt.Sprintf("-rapid.checks=%d", r.checks))
	}
	cmd := exec.CommandContext(ctx, "sh", append(bounded, args...)...)
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), "TMPDIR="+r.tmp, fmt.Sprintf("MUTANT=%d", id))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	return out, err
}

var errSlow = errors.New("the time is over")

// build builds the package's tests with other contents of some files.
func (r *runner) build(ctx context.Context, p pkg, binary string, files map[string][]byte) ([]byte, error) {
	replace := map[string]string{}
	for name, content := range files {
		changed := filepath.Join(r.tmp, name)
		if err := os.WriteFile(changed, content, 0o600); err != nil {
			return nil, err
		}
		replace[filepath.Join(p.Dir, name)] = changed
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return nil, err
	}
	overlay := filepath.Join(r.tmp, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return nil, err
	}
	return r.compile(ctx, p, binary, "-overlay="+overlay)
}

// switches is the file that a package with mutants is given.
const switches = `package %s

import (
	"os"
	"strconv"
)

var mutantThatIsOn, _ = strconv.Atoi(os.Getenv("MUTANT"))

func mutantIsOn(id int) bool { return id == mutantThatIsOn }
`

// buildAll builds the package's tests with every mutant that can be switched on.
// Their numbers begin with 1.
func (r *runner) buildAll(ctx context.Context, p pkg, all []mutant) (binary string, err error) {
	sources := map[string][]byte{}
	numbered := map[string]map[int]mutant{}
	for i, m := range all {
		if m.before == "" {
			continue
		}
		if numbered[m.file] == nil {
			numbered[m.file] = map[int]mutant{}
		}
		sources[m.file], numbered[m.file][i+1] = m.source, m
	}
	files := map[string][]byte{"zz_mutants.go": fmt.Appendf(nil, switches, p.Name)}
	for file, source := range sources {
		files[file] = schema(source, numbered[file])
	}
	binary = filepath.Join(r.tmp, "all.test")
	if out, err := r.build(ctx, p, binary, files); err != nil {
		return "", fmt.Errorf("%s with mutants does not compile: %w\n%s", p.ImportPath, err, out)
	}
	return binary, nil
}

// try runs the tests that reach the mutant's function, first those that take a
// second together.
func (r *runner) try(ctx context.Context, p pkg, binary string, id int, m mutant, reaching []test) (outcome, error) {
	if len(reaching) == 0 {
		return unreached, nil
	}
	if m.before == "" {
		binary = filepath.Join(r.tmp, "one.test")
		if _, err := r.build(ctx, p, binary, map[string][]byte{m.file: m.apply()}); err != nil {
			return invalid, ctx.Err()
		}
	}
	for len(reaching) > 0 {
		var names []string
		var sum time.Duration
		for len(reaching) > 0 && (len(names) == 0 || sum+reaching[0].took < time.Second || sum > time.Second) {
			sum += reaching[0].took
			names, reaching = append(names, reaching[0].name), reaching[1:]
		}
		_, err := r.start(ctx, p, id, 10*sum+30*time.Second, binary, "-test.failfast", "-test.run=^("+strings.Join(names, "|")+")$")
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case errors.Is(err, errSlow):
			return timedOut, nil
		case err != nil:
			return killed, nil
		}
	}
	return survived, nil
}

// choose returns the places of the mutants that are to be tried, in order.
func (r *runner) choose(all []mutant) []int {
	var places []int
	for i, m := range all {
		if r.only.MatchString(fmt.Sprintf("%s:%d", m.file, m.line)) {
			places = append(places, i)
		}
	}
	if r.sample > 0 && len(places) > r.sample {
		random := rand.New(rand.NewPCG(r.seed, 0))
		random.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
		places = places[:r.sample]
		slices.Sort(places)
	}
	return places
}

// run tries the package's mutants and prints those that no test notices. When
// it is interrupted, it counts what was tried by then.
func (r *runner) run(ctx context.Context, p pkg) (counts map[outcome]int, err error) {
	counts = map[outcome]int{}
	var all []mutant
	for _, file := range p.GoFiles {
		source, err := os.ReadFile(filepath.Join(p.Dir, file))
		if err != nil {
			return counts, err
		}
		found, err := mutants(file, source)
		if err != nil {
			return counts, err
		}
		all = append(all, found...)
	}
	binary, err := r.buildAll(ctx, p, all)
	if err != nil {
		return counts, err
	}
	tests, err := r.tests(ctx, p)
	if err != nil {
		return counts, err
	}
	for _, i := range r.choose(all) {
		m := all[i]
		var reaching []test
		for _, t := range tests {
			if t.reached(m.file, m.extent) {
				reaching = append(reaching, t)
			}
		}
		result, err := r.try(ctx, p, binary, i+1, m, reaching)
		if err != nil {
			return counts, err
		}
		counts[result]++
		if result == survived || result == unreached {
			fmt.Printf("%s: %s/%s:%d %s\n\t- %s\n\t+ %s\n", result, p.ImportPath, m.file, m.line, m.function, m.old(), m.changed())
		}
	}
	return counts, nil
}
