package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// doc is a doc comment as text.
type doc struct {
	Name string // what it documents: "package", "Type", "Type.Method", "Type.Field"
	Text string // one line per paragraph; empty if the comment is code
}

// comments checks the doc comments of all packages, tests excluded.
func comments(tmp string) ([]string, error) {
	packages := map[string][]doc{}
	for _, root := range []string{"cmd", "generator", "gitops"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Name() == "testdata" {
				return filepath.SkipDir
			}
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			found, err := docComments(path, nil)
			packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(packages) < 15 {
		return nil, errors.New("fewer than 15 packages have comments")
	}
	return valeComments(tmp, packages)
}

// valeComments returns "PACKAGE: RULE: WORDS: NAME" of each violation in the comments of packages.
func valeComments(tmp string, packages map[string][]doc) ([]string, error) {
	type place struct{ pkg, name string }
	lines := map[string][]place{} // of the file: where each line is from
	var files []string
	for pkg, found := range packages {
		file := filepath.Join(tmp, strings.ReplaceAll(pkg, "/", "-")+".comments.txt")
		var text strings.Builder
		for _, c := range found {
			for paragraph := range strings.Lines(c.Text) {
				// vale checks a paragraph at a time.
				text.WriteString(strings.TrimSpace(paragraph) + "\n\n")
				lines[file] = append(lines[file], place{pkg, c.Name}, place{})
			}
		}
		if err := os.WriteFile(file, []byte(text.String()), 0o666); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	found, err := vale(files...)
	if err != nil {
		return nil, err
	}
	var have []string
	for file, alerts := range found {
		for _, a := range alerts {
			at := lines[file][a.Line-1]
			have = append(have, fmt.Sprintf("%s: %s: %s: %s", at.pkg, strings.TrimPrefix(a.Check, "muster."), strings.ToLower(a.Match), at.name))
		}
	}
	return have, nil
}

// docComments returns the doc comments in a Go file: of the package, types, functions, methods,
// constants, variables, fields and the methods of interfaces, exported or not. A comment at the
// end of the line counts as a doc comment. src is as in [parser.ParseFile].
func docComments(path string, src any) ([]doc, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var found []doc
	add := func(name string, groups ...*ast.CommentGroup) {
		for _, group := range groups {
			if text := prose(name, group.Text()); text != "" {
				found = append(found, doc{name, text})
			}
		}
	}
	add("package", file.Doc)
	// fields adds the fields of the structs, and the methods of the interfaces, in node.
	fields := func(name string, node ast.Node) {
		ast.Inspect(node, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok {
				return true
			}
			of := name
			if len(field.Names) > 0 {
				of += "." + field.Names[0].Name
			}
			add(of, field.Doc, field.Comment)
			return true
		})
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			add(name, d.Doc)
		case *ast.GenDecl:
			for i, spec := range d.Specs {
				var name string
				switch s := spec.(type) {
				case *ast.TypeSpec:
					name = s.Name.Name
					add(name, s.Doc, s.Comment)
				case *ast.ValueSpec:
					name = s.Names[0].Name
					add(name, s.Doc, s.Comment)
				default:
					continue
				}
				if i == 0 {
					add(name, d.Doc)
				}
				fields(name, spec)
			}
		}
	}
	return found, nil
}

// receiver returns the name of a method's receiver type.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// notProse matches quotations, flags, paths, and identifiers that do not look like words:
// name.Name, lastName, last_name, name(), [Name], --name.
var notProse = regexp.MustCompile("`[^`]*`" + `|"[^"]*"|“[^”]*”|\[[*\w.]+\]|\B--?[a-z][a-z-]*\b|https?://\S+|\b\w+(\.\w+)+\b|\b\w+\(\)|\b\w*([a-z][A-Z]|_)\w*`)

// prose returns the text of the comment of name, one line per paragraph, with
// identifiers, quotations and code blocks left out.
func prose(name, text string) string {
	var lines []string
	var blocks func([]comment.Block)
	printer := comment.Printer{TextWidth: -1}
	blocks = func(content []comment.Block) {
		for _, block := range content {
			switch b := block.(type) {
			case *comment.Code:
			case *comment.List:
				for _, item := range b.Items {
					blocks(item.Content)
				}
			default:
				lines = append(lines, strings.TrimPrefix(string(printer.Text(&comment.Doc{Content: []comment.Block{b}})), "# "))
			}
		}
	}
	blocks(new(comment.Parser).Parse(text).Content)
	own := name[strings.LastIndex(name, ".")+1:]
	for i, line := range lines {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, own+" "); ok && i == 0 {
			line = "Name " + rest
		}
		lines[i] = notProse.ReplaceAllString(line, "Name")
	}
	return strings.Join(lines, "\n")
}
