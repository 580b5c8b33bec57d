package keyvalue_test

import (
	"strings"
	"testing"

	"muster/gitops/keyvalue"
)

// TestParse asserts that a form sets and empties its fields, that its first value may lack the key, and that an error
// names keys and no value.
func TestParse(t *testing.T) {
	t.Parallel()
	var address, page string
	f := keyvalue.Form{Name: "a server", Example: ":80,page=URL", Fields: map[string]*string{"": &address, "page": &page}}
	for _, test := range []struct{ text, address, page, mistake string }{
		{":80, page=https://example.com/?a=b", ":80", "https://example.com/?a=b", ""},
		{":80", ":80", "", ""},
		{"page=x", "", "x", ""},
		{"", "", "", ""},
		{":80,hunter2", "", "", "a server is written as KEY=VALUE,KEY=VALUE, as in :80,page=URL"},
		{"=hunter2", "", "", "a server is written as"},
		{":80,pages=hunter2", "", "", `a server has no "pages": give page, separated by commas`},
		{":80,page=", "", "", "a server's page is empty"},
		{"page=hunter2,page=hunter2", "", "", "a server's page is given twice"},
	} {
		err := f.Parse(test.text)
		switch {
		case test.mistake != "":
			if err == nil || !strings.Contains(err.Error(), test.mistake) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q: %v, want %s", test.text, err, test.mistake)
			}
		case err != nil || address != test.address || page != test.page:
			t.Errorf("%q: %q, %q, %v", test.text, address, page, err)
		}
	}
	if err := f.Parse("page=x"); err != nil || f.Require("page") != nil || f.Require("") == nil {
		t.Error("a form requires another field than the one that is absent")
	}
}
