package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// writeTable replaces the table of a suite in a page: each mutant, and the rows that failed.
func writeTable(page string, s suite) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	commit, err := exec.Command("git", "log", "-1", "--format=%h of %cs", "--abbrev=12").Output()
	if err != nil {
		return fmt.Errorf("reading the commit: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Recorded at commit %s:\n\n| without | rows that failed |\n|---|---|\n", bytes.TrimSpace(commit))
	for _, m := range mutants {
		if rows := m.rows[s.name]; len(rows) > 0 {
			fmt.Fprintf(&b, "| %s | `%s` |\n", m.without, strings.Join(rows, "`, `"))
		}
	}
	begin, end := "<!-- begin: "+s.name+" -->\n", "<!-- end: "+s.name+" -->\n"
	before, rest, ok := bytes.Cut(text, []byte(begin))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !ok || !ended {
		return fmt.Errorf("%s has no place for the table of %s", page, s.name)
	}
	changed := string(before) + begin + b.String() + end + string(after)
	return os.WriteFile(page, []byte(changed), 0o644)
}
