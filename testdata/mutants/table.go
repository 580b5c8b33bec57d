package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
)

// line is the line of a mutant in the table of a suite, without what was tested.
func (m mutant) line(suite string) string {
	return fmt.Sprintf("| %s | `%s` |", m.without, strings.Join(m.rows[suite], "`, `"))
}

// table is the table of a suite in a page: each mutant whose rows all failed, and the commit that was tested.
type table struct {
	before, after []byte   // the rest of the page
	lines         []string // with their ends
}

// tableOf reads the table of a suite.
func tableOf(page, suite string) (t table, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return t, err
	}
	begin, end := "<!-- begin: "+suite+" -->\n", "<!-- end: "+suite+" -->\n"
	from, to := bytes.Index(text, []byte(begin))+len(begin), bytes.Index(text, []byte(end))
	if from < len(begin) || to < from {
		return t, fmt.Errorf("%s has no place for the table of %s", page, suite)
	}
	t.before, t.after = text[:from], text[to:]
	for line := range strings.Lines(string(text[from:to])) {
		if !strings.HasPrefix(heading, line) && !strings.HasSuffix(heading, line) {
			t.lines = append(t.lines, line)
		}
	}
	return t, nil
}

const heading = "| without | rows that failed | commit |\n|---|---|---|\n"

// record writes a mutant into the table of a suite in a page, in the order of all mutants. It removes the mutant if no
// commit is given: its rows did not fail.
func record(page, suite string, m mutant, commit string) error {
	t, err := tableOf(page, suite)
	if err != nil {
		return err
	}
	changed := bytes.NewBuffer(slices.Clone(t.before))
	changed.WriteString(heading)
	for _, each := range mutants {
		if len(each.rows[suite]) == 0 { // another mutant may take out the same feature
			continue
		}
		switch i := slices.IndexFunc(t.lines, func(line string) bool { return strings.HasPrefix(line, "| "+each.without+" |") }); {
		case each.without == m.without && commit != "":
			fmt.Fprintf(changed, "%s %s |\n", m.line(suite), commit)
		case each.without != m.without && i >= 0:
			changed.WriteString(t.lines[i])
		}
	}
	changed.Write(t.after)
	return os.WriteFile(page, changed.Bytes(), 0o644)
}
