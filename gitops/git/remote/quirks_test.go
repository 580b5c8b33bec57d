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

// TestQuirks: each quirk is complete, its behavior quotes what the code looks up, and product code
// looks up what it contains.
func TestQuirks(t *testing.T) {
	used := lookups(t)
	quoted := regexp.MustCompile("`([^`]+)`")
	for _, q := range remote.Quirks {
		if q.Host == "" || q.Behavior == "" || q.Meaning == "" || q.Source == "" {
			t.Errorf("incomplete: %+v", q)
		}
		var quotes []string
		for _, m := range quoted.FindAllStringSubmatch(q.Behavior, -1) {
			quotes = append(quotes, m[1])
		}
		other := func(quote string) bool { return !q.Words.MatchString(quote) }
		if q.Words != nil && (len(quotes) == 0 || slices.ContainsFunc(quotes, other)) {
			t.Errorf("%s: %s: quotes nothing, or what %s does not match", q.Host, q.Behavior, q.Words)
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
		for field, set := range map[string]bool{"Words": q.Words != nil, "Statuses": q.Statuses != nil, "Names": q.Names != nil} {
			if set && !slices.Contains(used[q.Meaning], field) {
				t.Errorf("%s: %s: has no effect: no code looks up the %s of its meaning", q.Host, q.Behavior, field)
			}
		}
	}
	for meaning, fields := range used {
		if len(fields) == 0 {
			t.Errorf("no code outside quirks.go uses the meaning %q", meaning)
		}
	}
}

// lookups returns the fields of quirks that product code outside quirks.go looks up, by meaning, for
// each exported meaning.
func lookups(t *testing.T) map[remote.Meaning][]string {
	t.Helper()
	fields := map[string]string{"Match": "Words", "MatchStatus": "Statuses", "MatchName": "Names", "MatchMissing": "Names", "quirks": "Names"}
	meanings, used := map[string]remote.Meaning{}, map[remote.Meaning][]string{}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "quirks.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !spec.Names[0].IsExported() {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Meaning" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			meanings[spec.Names[0].Name], used[remote.Meaning(text)] = remote.Meaning(text), nil
		}
		return true
	})
	eachFile(t, nil, func(path string, _ *token.FileSet, file *ast.File) {
		if filepath.Base(path) == "quirks.go" {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lookup, ok := n.(*ast.SelectorExpr)
			if !ok || fields[lookup.Sel.Name] == "" {
				return true
			}
			name := ""
			switch x := lookup.X.(type) {
			case *ast.Ident:
				if file.Name.Name == "remote" {
					name = x.Name
				}
			case *ast.SelectorExpr:
				if of, ok := x.X.(*ast.Ident); ok && of.Name == "remote" {
					name = x.Sel.Name
				}
			}
			if meaning, ok := meanings[name]; ok {
				used[meaning] = append(used[meaning], fields[lookup.Sel.Name])
			}
			return true
		})
	})
	return used
}

// eachFile calls read with each file of product code of gitops, except in directories with the names
// skipped.
func eachFile(t *testing.T, skipped []string, read func(path string, files *token.FileSet, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return fs.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err == nil {
			read(path, files, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
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
		"github",    // the client of GitHub's API
		"notify",    // push events in the formats that Argo CD reads
		"gitserver", // servers for tests and the demo
		"leaktest",  // secrets for tests
	}
	found := false
	eachFile(t, others, func(path string, files *token.FileSet, file *ast.File) {
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
	})
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
