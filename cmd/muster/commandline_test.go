package main

import (
	"strings"
	"testing"
)

// TestVariableOfLists: a flag wins over its variable, and does not add to it.
func TestVariableOfLists(t *testing.T) {
	p := program{environ: []string{"MUSTER_CO_AUTHOR=of the variable"}}
	root := p.command()
	if err := p.environment(root); err != nil {
		t.Fatal(err)
	}
	run, _, err := root.Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	if err := run.ParseFlags([]string{"--co-author", "one", "--co-author", "two"}); err != nil {
		t.Fatal(err)
	}
	if got, err := run.Flags().GetStringArray("co-author"); err != nil || strings.Join(got, " ") != "one two" {
		t.Errorf("%q, %v", got, err)
	}
}
