// Mutants changes the program in one place at a time and looks whether a test
// notices: a comparison that takes its bound in or leaves it out, a condition that
// always or never holds, a statement that is left out, arithmetic the other way
// round. What survives is printed: behaviour that nothing holds.
//
//	go run ./testdata/mutants [-sample N -seed N] [-longest 20s] [-checks N] [-only PATTERN] PACKAGE...
//
// One program per package has nearly all mutants, of which a variable switches one
// on; those whose operands' types matter are compiled by themselves. Both are built
// with -overlay, so nothing in the work tree is touched. Only the package's own
// tests run, and of these the ones that reach the changed function.
// Interrupting it prints what was found by then.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := work(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func work(ctx context.Context) (err error) {
	r := &runner{}
	flag.IntVar(&r.sample, "sample", 0, "mutants of each `package` to try, chosen by the seed; 0 tries all")
	flag.Uint64Var(&r.seed, "seed", 1, "the sample's seed")
	flag.DurationVar(&r.longest, "longest", 0, "leave out tests that take longer; 0 runs all")
	flag.IntVar(&r.checks, "checks", 100, "draws of each test that draws at random")
	only := flag.String("only", "", "try only what is at places that this `pattern` matches, as in ^breaker.go:115$")
	flag.Parse()
	if r.only, err = regexp.Compile(*only); err != nil {
		return err
	}
	if r.tmp, err = os.MkdirTemp("", "mutants"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.tmp) }()
	packages, err := list(ctx, flag.Args())
	if err != nil {
		return err
	}
	left := 0
	for _, p := range packages {
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			fmt.Printf("%s: has no tests of its own\n", p.ImportPath)
			continue
		}
		counts, err := r.run(ctx, p)
		fmt.Printf("%s: %d mutants, %d killed, %d timed out, %d survived, %d not reached; %d did not compile\n", p.ImportPath,
			counts[killed]+counts[timedOut]+counts[survived]+counts[unreached],
			counts[killed], counts[timedOut], counts[survived], counts[unreached], counts[invalid])
		left += counts[survived] + counts[unreached]
		if err != nil {
			return err
		}
	}
	if left > 0 {
		return fmt.Errorf("%d mutants live", left)
	}
	return nil
}

// list asks go list for the packages.
func list(ctx context.Context, patterns []string) ([]pkg, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-json=ImportPath,Dir,Name,GoFiles,TestGoFiles,XTestGoFiles,TestImports,XTestImports"}, patterns...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
}
