package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// test is one test of a package, with what it runs.
type test struct {
	name    string
	took    time.Duration
	reaches map[string][]span // the spans that ran, by file
}

// span is a range of lines.
type span struct{ from, to int }

// reached reports whether the test runs any of the lines.
func (t test) reached(file string, lines span) bool {
	return slices.ContainsFunc(t.reaches[file], func(s span) bool { return s.from <= lines.to && s.to >= lines.from })
}

var testName = regexp.MustCompile(`^(Test|Fuzz|Example)`)

// tests runs each test of the package by itself and notes how long it takes and
// what it reaches; the shortest come first. Those longer than the longest are left
// out.
func (r *runner) tests(ctx context.Context, p pkg) ([]test, error) {
	binary := filepath.Join(r.tmp, "cover.test")
	if out, err := r.compile(ctx, p, binary, "-cover", "-coverpkg="+p.ImportPath); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", p.ImportPath, err, out)
	}
	listed, err := r.start(ctx, p, 0, time.Minute, binary, "-test.list=.")
	if err != nil {
		return nil, fmt.Errorf("%s: listing tests: %w\n%s", p.ImportPath, err, listed)
	}
	profile := filepath.Join(r.tmp, "cover.out")
	var all []test
	for name := range strings.FieldsSeq(string(listed)) {
		if !testName.MatchString(name) {
			continue
		}
		began := time.Now()
		out, err := r.start(ctx, p, 0, 15*time.Minute, binary, "-test.run=^"+name+"$", "-test.coverprofile="+profile)
		if err != nil {
			return nil, fmt.Errorf("%s: %s fails without any change: %w\n%s", p.ImportPath, name, err, out)
		}
		t := test{name: name, took: time.Since(began)}
		if t.reaches, err = readProfile(profile); err != nil {
			return nil, err
		}
		if r.longest > 0 && t.took > r.longest {
			fmt.Printf("%s: %s takes %s and is left out\n", p.ImportPath, name, t.took.Round(time.Second))
			continue
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b test) int { return int(a.took - b.took) })
	return all, nil
}

// block is a line of a coverage profile: file:line.column,line.column statements count.
var block = regexp.MustCompile(`/([^/]+\.go):(\d+)\.\d+,(\d+)\.\d+ \d+ (\d+)$`)

func readProfile(name string) (map[string][]span, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reached := map[string][]span{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		m := block.FindStringSubmatch(lines.Text())
		if m == nil || m[4] == "0" {
			continue
		}
		from, _ := strconv.Atoi(m[2])
		to, _ := strconv.Atoi(m[3])
		reached[m[1]] = append(reached[m[1]], span{from, to})
	}
	return reached, lines.Err()
}
