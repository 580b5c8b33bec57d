package main

import (
	"os"
	"os/exec"
	"testing"
)

// TestSchemaIsCurrent: what muster embeds is what this release's document says.
func TestSchemaIsCurrent(t *testing.T) {
	want, err := exec.Command("go", "run", "./schema").Output()
	must(t, err)
	got, err := os.ReadFile("../../generator/kubernetes/job.json")
	must(t, err)
	if string(got) != string(want) {
		t.Error("generator/kubernetes/job.json is another: go -C testdata/apiserver run ./schema > generator/kubernetes/job.json")
	}
}
