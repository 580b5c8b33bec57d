package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muster/cmd/invocation"
	"muster/generator/policy"
)

// TestPolicyTable makes the page's table of the policy's fields from the table that the
// parser and the schema are made of, and compares the policy that muster init writes
// with it: the defaults and the comments.
func TestPolicyTable(t *testing.T) {
	var table strings.Builder
	table.WriteString("| field of `spec` | type | default | meaning |\n|---|---|---|---|\n")
	template := readText(t, "overlays/default/scaling.yaml")
	for _, f := range policy.Fields() {
		value := "required"
		if f.Default != "" {
			value = "`" + f.Default + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, value, f.Meaning)

		written := f.Default
		if f.Name == "lease" {
			written = "auto" // new fleets go by their boots; older policies stay what they were
		}
		line := regexp.MustCompile(`(?m)^  (# )?` + f.Name + `: (\S+) +# (.*)$`).FindStringSubmatch(template)
		switch {
		case line == nil:
			t.Errorf("overlays/default/scaling.yaml does not show %s", f.Name)
		case f.Default != "" && line[2] != written:
			t.Errorf("overlays/default/scaling.yaml shows %s: %s, want %s", f.Name, line[2], written)
		case line[3] != f.Comment:
			t.Errorf("overlays/default/scaling.yaml says of %s: %s\nand the table: %s", f.Name, line[3], f.Comment)
		}
	}
	checkBlock(t, "docs/reference/policy.md", "<!-- begin: policy -->", "<!-- end: policy -->", table.String())
}

// TestExitCodes compares the table of exit codes with the constants.
func TestExitCodes(t *testing.T) {
	var want []string
	constants := regexp.MustCompile(`(?m)^\tExit\w+ += (\d+)`)
	for _, m := range constants.FindAllStringSubmatch(readText(t, "cmd/invocation/program.go"), -1) {
		want = append(want, m[1])
	}
	var got []string
	for _, cells := range rows(t, section(t, "docs/reference/cli.md", "## Exit codes")) {
		got = append(got, cells[0])
	}
	if !slices.Equal(got, want) || !slices.Contains(want, strconv.Itoa(invocation.ExitConflicts)) {
		t.Errorf("docs/reference/cli.md lists the exit codes %v, program.go has %v", got, want)
	}
}

// TestTrailers compares the table of trailers with those that muster writes, in their order.
func TestTrailers(t *testing.T) {
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^\tkey\w+ += "([A-Z][A-Za-z-]*)"$`).FindAllStringSubmatch(readText(t, "generator/ledger/message.go"), -1) {
		want = append(want, m[1])
	}
	var got []string
	for _, cells := range rows(t, section(t, "docs/reference/commits.md", "## Trailers")) {
		got = append(got, strings.Trim(cells[0], "`"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/reference/commits.md lists the trailers %v, muster writes %v", got, want)
	}
}

// TestLogTable asserts that the code contains every message in the tables of
// docs/reference/log-messages.md. Words in capitals and "..." are placeholders.
func TestLogTable(t *testing.T) {
	var source strings.Builder
	for _, dir := range []string{"cmd", "generator", "gitops"} {
		eachFile(t, dir, func(path string, read func() string) {
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				source.WriteString(read())
			}
		})
	}
	variable := regexp.MustCompile(`\.\.\.(/state\.yaml: )?|\b[A-Z]+\b|FILE:LINE: |^err="|"`)
	looked := 0
	for line := range strings.Lines(readText(t, "docs/reference/log-messages.md")) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, line := range code(cells[1]) {
			for _, part := range variable.Split(line, -1) {
				part = strings.TrimSuffix(strings.TrimSpace(part), ":")
				if len(part) < 8 || slices.Contains([]string{"spec.cluster", "read_clusters", "runnable_at"}, part) {
					continue
				}
				looked++
				if !strings.Contains(source.String(), part) {
					t.Errorf("docs/reference/log-messages.md has %q, and no code has %q", line, part)
				}
			}
		}
	}
	if looked < 15 {
		t.Errorf("looked for %d phrases only", looked)
	}
}
