package remote_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"muster/gitops/git/remote"
)

// TestQuirks: each quirk is complete, and its behavior quotes what the code looks up.
func TestQuirks(t *testing.T) {
	quoted := regexp.MustCompile("`([^`]+)`")
	for _, q := range remote.Quirks {
		if q.Host == "" || q.Behavior == "" || q.Meaning == "" || q.Source == "" {
			t.Errorf("incomplete: %+v", q)
		}
		var quotes []string
		for _, m := range quoted.FindAllStringSubmatch(q.Behavior, -1) {
			quotes = append(quotes, m[1])
		}
		if q.Words != nil && !slices.ContainsFunc(quotes, q.Words.MatchString) {
			t.Errorf("%s: %s: quotes nothing that matches %s", q.Host, q.Behavior, q.Words)
		}
		for _, status := range q.Statuses {
			if !slices.Contains(quotes, strconv.Itoa(status)) {
				t.Errorf("%s: %s: does not quote status %d", q.Host, q.Behavior, status)
			}
		}
		for _, name := range q.Names {
			if !slices.Contains(quotes, name) {
				t.Errorf("%s: %s: does not quote %s", q.Host, q.Behavior, name)
			}
		}
		if q.Meaning == remote.LimitHeaders && len(q.Names) != 2 {
			t.Errorf("%s: %s: want the names of two headers", q.Host, q.Behavior)
		}
	}
}

// TestHostsAreInQuirks: product code of gitops names git hosts only in the table of quirks. Comments
// may name them, and so may the packages that are about something else than git's protocol.
func TestHostsAreInQuirks(t *testing.T) {
	hosts := []string{"azure", "bitbucket", "codeberg", "codecommit", "forgejo", "gogs", "kallithea", "sourcehut"}
	for _, q := range remote.Quirks {
		for host := range strings.SplitSeq(strings.ToLower(q.Host), ", ") {
			if !slices.Contains([]string{"git", "git daemon", "go-git", "any", "proxies"}, host) {
				hosts = append(hosts, host)
			}
		}
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	others := []string{
		"github",     // the client of GitHub's API
		"notify",     // push events in the formats that Argo CD reads
		"gitserver",  // servers for tests and the demo
		"canarytest", // secrets for tests
	}
	top := filepath.Join("..", "..")
	found := false
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(others, d.Name()):
			return fs.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			text := ""
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.Ident:
				text = n.Name
			case *ast.BasicLit:
				// An App is a kind of credentials.
				text = strings.ReplaceAll(n.Value, "GitHub App", "")
			}
			for _, host := range hosts {
				switch {
				case !names(text, host):
				case filepath.Base(path) == "quirks.go":
					found = true
				default:
					t.Errorf("%s: %q names a git host: make it a quirk in gitops/git/remote/quirks.go", files.Position(n.Pos()), text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		t.Error("the test does not find the hosts in quirks.go")
	}
}

// names reports whether text has the host as a word or as a part of a name in camel case.
func names(text, host string) bool {
	for at := 0; ; at++ {
		next := strings.Index(strings.ToLower(text[at:]), host)
		if next < 0 {
			return false
		}
		at += next
		if at == 0 || !unicode.IsLetter(rune(text[at-1])) || unicode.IsUpper(rune(text[at])) {
			return true
		}
	}
}
