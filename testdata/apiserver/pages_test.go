package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedManifests: the API server accepts the objects that the documentation
// shows. The test of examples in cmd/muster reads kustomizations and policies.
func TestDocumentedManifests(t *testing.T) {
	indented := regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```")
	seen := 0
	err := filepath.WalkDir(filepath.Join("..", "..", "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range indented.FindAllStringSubmatch(string(text), -1) {
			for _, object := range documents(t, []byte(strings.ReplaceAll("\n"+m[2], "\n"+m[1], "\n"))) {
				group, _ := object["apiVersion"].(string)
				kind, _ := object["kind"].(string)
				if kind == "" || kind == "ApplicationSet" || strings.HasPrefix(group, "muster.dev/") || strings.HasPrefix(group, "kustomize.config.k8s.io/") {
					continue // TestApplicationSet of testdata/e2e/record reads that
				}
				seen++
				for _, finding := range findings(t, object) {
					t.Errorf("%s: %s %s: %s", path, group, kind, finding)
				}
			}
		}
		return nil
	})
	must(t, err)
	if seen == 0 {
		t.Error("the pages show no object")
	}
}
