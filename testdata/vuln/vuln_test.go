// Package vuln asserts that the govulncheck of make vuln, which is in PATH there, can fail.
package vuln

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVulnerable: with a database of two made-up vulnerabilities in modules that muster is linked
// from, govulncheck fails for the function that is called, and only mentions the other.
func TestVulnerable(t *testing.T) {
	database := filepath.Join(t.TempDir(), "db")
	write(t, filepath.Join(database, "index", "db.json"), object{"modified": day})
	write(t, filepath.Join(database, "index", "modules.json"), []object{
		vulnerable(t, database, "GO-2026-9001", "github.com/spf13/cobra", "github.com/spf13/cobra", "Command.ExecuteC"),
		vulnerable(t, database, "GO-2026-9002", "golang.org/x/crypto", "golang.org/x/crypto/ssh/agent", "ServeAgent"),
	})
	for _, of := range []string{"./cmd/muster", "./testdata/vuln/reaches"} {
		c := exec.Command("govulncheck", "-db", "file://"+filepath.ToSlash(database), of)
		c.Dir = "../.."
		out, err := c.CombinedOutput()
		text := string(out)
		if c.ProcessState == nil || c.ProcessState.ExitCode() != 3 {
			t.Errorf("%s: %v, want exit code 3\n%s", of, err, text)
		}
		if !strings.Contains(text, "affected by 1 vulnerability") || !strings.Contains(text, "#1: GO-2026-9001") {
			t.Errorf("%s: it does not name the vulnerability that is reached, and it alone:\n%s", of, text)
		}
	}
}

type object = map[string]any

const day = "2026-01-01T00:00:00Z"

// vulnerable adds an entry to the database (https://go.dev/doc/security/vuln/database) and returns
// that of the index of modules.
func vulnerable(t *testing.T, database, id, module, path, symbol string) object {
	write(t, filepath.Join(database, "ID", id+".json"), object{
		"schema_version": "1.3.1", "id": id, "modified": day, "published": day, "details": "made up",
		"database_specific": object{"url": "https://example.com/" + id},
		"affected": []object{{
			"package":            object{"name": module, "ecosystem": "Go"},
			"ranges":             []object{{"type": "SEMVER", "events": []object{{"introduced": "0"}}}},
			"ecosystem_specific": object{"imports": []object{{"path": path, "symbols": []string{symbol}}}},
		}},
	})
	return object{"path": module, "vulns": []object{{"id": id, "modified": day}}}
}

func write(t *testing.T, file string, content any) {
	t.Helper()
	text, err := json.Marshal(content)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
