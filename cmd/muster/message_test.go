package main

import (
	"strings"
	"testing"

	"muster/gitops/ledger"
)

// TestTemplateFieldsAreDocumented: the page names every field of a template.
func TestTemplateFieldsAreDocumented(t *testing.T) {
	page := strings.Join(strings.Fields(readText(t, "docs/reference/commits.md")), " ")
	want := "The fields are `." + strings.Join(ledger.TemplateFields(), "`, `.") + "`. "
	if !strings.Contains(page, want) {
		t.Errorf("docs/reference/commits.md does not have %q", want)
	}
}
