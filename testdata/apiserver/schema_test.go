package main

import (
	"os"
	"os/exec"
	"testing"
)

// TestSchemaIsCurrent: what muster embeds is what this release's document says.
func TestSchemaIsCurrent(t *testing.T) {
	want, err := exec.Command("go", "run", "./schema").Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../generator/kubernetes/job.json")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("generator/kubernetes/job.json is another: go -C testdata/apiserver run ./schema > generator/kubernetes/job.json")
	}
}
