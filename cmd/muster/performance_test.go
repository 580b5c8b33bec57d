package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muster/testdata/bench"
)

// performancePage contains the figures of make bench.
const performancePage = "docs/explanation/performance.md"

// pageSizes are the columns of the page's table; "-" are figures that have no size.
var pageSizes = []string{"small", "medium", "large", "-"}

const pageColumns = "%-62s %8s %8s %8s %8s  %s"

var (
	pageHeading = fmt.Sprintf(pageColumns, "figure", "small", "medium", "large", "fixed", "bound")
	pageRow     = regexp.MustCompile(`^(.{62}) (.{8}) (.{8}) (.{8}) (.{8})  (.*)$`)
)

// TestPerformanceTable asserts that the page has the figures of a run of a commit, all
// that have a bound, and within it. With -update and -table, as make bench runs it, it
// writes them into the page first.
func TestPerformanceTable(t *testing.T) {
	const begin, end = "<!-- begin: make bench -->", "<!-- end: make bench -->"
	if *updateScripts && *bench.Table != "" {
		run, err := os.ReadFile(*bench.Table)
		check(t, err)
		checkBlock(t, performancePage, begin, end, "```text\n"+pageTable(string(run))+"```\n")
	}
	_, rest, _ := strings.Cut(readText(t, performancePage), begin+"\n```text\n")
	table, _, ok := strings.Cut(rest, "```\n"+end+"\n")
	if !ok {
		t.Fatalf("%s has no table between %s and %s", performancePage, begin, end)
	}
	for _, problem := range tableProblems(table) {
		t.Errorf("%s: %s", performancePage, problem)
	}
}

// figureName returns the figure with its unit.
func figureName(figure string) string {
	if unit := bench.Bounds[figure].Unit; unit != "" {
		return figure + ", " + unit
	}
	return figure
}

// bounds returns the bounds of a figure: one, or one for each size that differs.
func bounds(figure string) string {
	var all []string
	for _, size := range pageSizes {
		if most, ok := bench.Bounds[figure].Most[size]; ok {
			all = append(all, strconv.FormatFloat(most, 'f', -1, 64))
		}
	}
	if len(slices.Compact(slices.Clone(all))) == 1 {
		return all[0]
	}
	return strings.Join(all, ", ")
}

// pageTable returns the table of a run with a line for each figure instead of one for
// each figure and size.
func pageTable(run string) string {
	lines := strings.Split(strings.TrimSuffix(run, "\n"), "\n")
	table := append(slices.Clone(lines[:min(2, len(lines))]), pageHeading)
	values, order := map[string]map[string]string{}, []string{}
	for _, line := range lines[min(3, len(lines)):] {
		m := regexp.MustCompile(`^(.{62}) (\S+) +(\S+)`).FindStringSubmatch(line)
		if m == nil {
			table = append(table, line)
			continue
		}
		figure := strings.TrimRight(m[1], " ")
		if values[figure] == nil {
			values[figure] = map[string]string{}
			order = append(order, figure)
		}
		values[figure][m[2]] = m[3]
	}
	for _, figure := range order {
		v := values[figure]
		table = append(table, fmt.Sprintf(pageColumns, figureName(figure), v["small"], v["medium"], v["large"], v["-"], bounds(figure)))
	}
	return strings.Join(table, "\n") + "\n"
}

// tableProblems returns what a table contains or lacks that a complete run of make bench,
// with all bounds kept, does not.
func tableProblems(table string) (problems []string) {
	lines := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	if !regexp.MustCompile(`^commit [0-9a-f]{12}$`).MatchString(lines[0]) {
		problems = append(problems, fmt.Sprintf("%q names no commit, or the source had other changes", lines[0]))
	}
	if len(lines) < 3 || lines[2] != pageHeading {
		return append(problems, "the third line is not the heading")
	}
	missing := map[string]string{}
	for figure := range bench.Bounds {
		missing[figureName(figure)] = figure
	}
	for _, line := range lines[3:] {
		cells := pageRow.FindStringSubmatch(line)
		if cells == nil {
			problems = append(problems, "not a figure: "+line)
			continue
		}
		name := strings.TrimRight(cells[1], " ")
		figure, ok := missing[name]
		if !ok {
			problems = append(problems, "unknown, or twice: "+line)
			continue
		}
		delete(missing, name)
		if cells[6] != bounds(figure) {
			problems = append(problems, "differs from its bound: "+line)
		}
		for i, size := range pageSizes {
			text := strings.TrimSpace(cells[2+i])
			most, bounded := bench.Bounds[figure].Most[size]
			value, err := strconv.ParseFloat(text, 64)
			switch {
			case !bounded && text == "":
			case !bounded:
				problems = append(problems, fmt.Sprintf("no bound for size %s: %s", size, line))
			case err != nil:
				problems = append(problems, fmt.Sprintf("no number for size %s: %s", size, line))
			case value > most:
				problems = append(problems, fmt.Sprintf("bound missed with size %s: %s", size, line))
			}
		}
	}
	for name := range missing {
		problems = append(problems, "not in the table: "+name)
	}
	return problems
}

// TestPerformanceTableProblems asserts that tableProblems finds each kind of problem.
func TestPerformanceTableProblems(t *testing.T) {
	t.Parallel()
	const figure = "push: client CPU"
	run := "commit 0123456789ab\na machine\n" + bench.Heading + "\n"
	for figure, bound := range bench.Bounds {
		for size, most := range bound.Most {
			run += bench.Line(figure, size, most) + "\n"
		}
	}
	table := pageTable(run)
	line := fmt.Sprintf(pageColumns, figure+", ms", "5", "5", "5", "", "5")
	if !strings.Contains(table, line+"\n") {
		t.Fatalf("no line %q in\n%s", line, table)
	}
	for _, test := range []struct{ name, old, new, want string }{
		{"complete", "", "", ""},
		{"no commit", "commit 0123456789ab", "", "names no commit"},
		{"commit with changes", "commit 0123456789ab", "commit 0123456789ab-dirty", "names no commit"},
		{"no heading", pageHeading + "\n", "", "not the heading"},
		{"missing figure", line + "\n", "", "not in the table: " + figure},
		{"figure twice", line, line + "\n" + line, "unknown, or twice: "},
		{"unknown figure", line, line + "\n" + strings.Replace(line, "CPU", "GPU", 1), "unknown, or twice: "},
		{"fixed size", line, fmt.Sprintf(pageColumns, figure+", ms", "5", "5", "5", "5", "5"), "no bound for size -"},
		{"bound missed", line, fmt.Sprintf(pageColumns, figure+", ms", "5", "5.01", "5", "", "5"), "bound missed with size medium"},
		{"another bound", line, fmt.Sprintf(pageColumns, figure+", ms", "5", "5", "5", "", "6"), "differs from its bound: "},
		{"no figure", line, line + "\nfast", "not a figure: "},
		{"no number", line, fmt.Sprintf(pageColumns, figure+", ms", "?", "5", "5", "", "5"), "no number for size small"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := strings.Join(tableProblems(strings.Replace(table, test.old, test.new, 1)), "\n")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("problems: %q, want %q", got, test.want)
			}
		})
	}
}
