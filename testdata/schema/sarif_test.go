// Package schema holds what muster writes against the published schemas of others.
package schema

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	// It carries the schema of SARIF 2.1.0, in a constant that it keeps to itself.
	_ "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"
)

// sarifSchema is the text of the schema.
func sarifSchema(t *testing.T) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif").Output()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "schema.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	value, ok := file.Scope.Lookup("schema").Decl.(*ast.ValueSpec)
	if !ok {
		t.Fatal("no constant schema")
	}
	text := ""
	ast.Inspect(value.Values[0], func(n ast.Node) bool { // backticks part it
		if literal, ok := n.(*ast.BasicLit); ok {
			part, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			text += part
		}
		return true
	})
	return text
}

// TestSARIF holds what check writes against the schema, and a document without a
// message, to see that the schema refuses something.
func TestSARIF(t *testing.T) {
	schema, err := jsonschema.UnmarshalJSON(strings.NewReader(sarifSchema(t)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("sarif.json", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("sarif.json")
	if err != nil {
		t.Fatal(err)
	}
	odd, err := os.ReadFile(filepath.Join("testdata", "odd.sarif"))
	if err != nil {
		t.Fatal(err)
	}
	documents := map[string][]byte{"odd.sarif": odd}
	script, err := txtar.ParseFile(filepath.Join("..", "script", "ci.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range script.Files {
		if filepath.Ext(f.Name) == ".sarif" {
			documents[f.Name] = f.Data
		}
	}
	if len(documents) != 2 {
		t.Fatalf("%d documents, want 2", len(documents))
	}
	documents["refused"] = bytes.Replace(odd, []byte(`"message"`), []byte(`"massage"`), 1)
	for name, text := range documents {
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		err = compiled.Validate(document)
		if refused := err != nil; refused != (name == "refused") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
