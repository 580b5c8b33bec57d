package main

import (
	"path/filepath"
	"strings"
	"testing"

	"muster/gitops/ledger"
)

// TestTemplateFieldsAreDocumented: the page names every field of a template.
func TestTemplateFieldsAreDocumented(t *testing.T) {
	page := readText(t, filepath.Join("docs", "operations.md"))
	want := "The fields are `." + strings.Join(ledger.TemplateFields(), "`, `.") + "`. "
	if !strings.Contains(page, want) {
		t.Errorf("docs/operations.md does not have %q", want)
	}
}
