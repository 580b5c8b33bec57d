package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// mutant is one change of one file. Most can be switched on in a program that has
// them all: these put before and after around what they change, with their number
// in place of %d.
type mutant struct {
	file     string // within the package's directory
	function string // as in "Breaker.after"
	extent   span   // of the function
	line     int
	from, to int    // bytes of the file that are replaced
	text     string // what is there instead
	before   string // the switch; with after, "" where the program is built for this mutant alone
	after    string
	source   []byte // the whole file as it was
}

// apply returns the file with the change.
func (m mutant) apply() []byte {
	return bytes.Join([][]byte{m.source[:m.from], m.source[m.to:]}, []byte(m.text))
}

// old and changed are the lines that the change is in, without and with it.
func (m mutant) old() string     { return m.lines(string(m.source[m.from:m.to])) }
func (m mutant) changed() string { return m.lines(m.text) }

func (m mutant) lines(text string) string {
	start := bytes.LastIndexByte(m.source[:m.from], '\n') + 1
	rest, _, _ := bytes.Cut(m.source[m.to:], []byte("\n"))
	line := string(m.source[start:m.from]) + text + string(rest)
	return strings.Join(strings.Fields(line), " ")
}

// schema returns a file with all its mutants, to be switched on by their numbers.
// They are in the order in which they were found: one that is around another
// comes first.
func schema(source []byte, numbered map[int]mutant) []byte {
	inserted := map[int][]string{}
	for _, id := range slices.Sorted(maps.Keys(numbered)) {
		m := numbered[id]
		inserted[m.from] = append(inserted[m.from], strings.ReplaceAll(m.before, "%d", strconv.Itoa(id)))
	}
	ends := map[int][]string{}
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(numbered))) {
		m := numbered[id]
		ends[m.to] = append(ends[m.to], strings.ReplaceAll(m.after, "%d", strconv.Itoa(id)))
	}
	var out bytes.Buffer
	for i := range len(source) + 1 {
		for _, text := range slices.Concat(ends[i], inserted[i]) {
			out.WriteString(text)
		}
		if i < len(source) {
			out.WriteByte(source[i])
		}
	}
	return out.Bytes()
}

// mutants lists the changes that are tried in a file: each is one that a test
// of a function's behaviour should notice. Of the changes that a comparison or a
// condition allows, those are left out that any test of another one finds.
func mutants(file string, source []byte) ([]mutant, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &finder{file: file, source: source, set: set, conditions: map[ast.Node]bool{}}
	for _, d := range parsed.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
			f.function = nameOf(d)
			f.extent = span{set.Position(d.Pos()).Line, set.Position(d.End()).Line}
			ast.Inspect(d.Body, f.visit)
		}
	}
	return f.found, nil
}

func nameOf(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	t := d.Recv.List[0].Type
	for {
		switch of := t.(type) {
		case *ast.StarExpr:
			t = of.X
			continue
		case *ast.IndexExpr:
			t = of.X
			continue
		case *ast.Ident:
			return of.Name + "." + d.Name.Name
		}
		return d.Name.Name
	}
}

// finder collects the mutants of a file.
type finder struct {
	file, function string
	extent         span
	source         []byte
	set            *token.FileSet
	conditions     map[ast.Node]bool // what conditions made mutants of already
	found          []mutant
}

// add adds a mutant that has text in place of a node, and a switch.
func (f *finder) add(n ast.Node, text, before, after string) {
	at := f.set.Position(n.Pos())
	f.found = append(f.found, mutant{
		file: f.file, function: f.function, extent: f.extent, line: at.Line, source: f.source,
		from: at.Offset, to: f.set.Position(n.End()).Offset, text: text, before: before, after: after,
	})
}

func (f *finder) text(n ast.Node) string {
	return string(f.source[f.set.Position(n.Pos()).Offset:f.set.Position(n.End()).Offset])
}

// always and never give a condition one value. It is evaluated all the same,
// so that what it uses stays used.
func (f *finder) always(c ast.Expr) { f.add(c, "("+f.text(c)+" || true)", "((", ") || "+on+")") }
func (f *finder) never(c ast.Expr)  { f.add(c, "("+f.text(c)+" && false)", "((", ") && !"+on+")") }

// on is a call of the function that every package with mutants is given.
const on = "mutantIsOn(%d)"

// opposite makes a boolean the opposite.
func (f *finder) opposite(n ast.Node, text string) { f.add(n, text, "((", ") != "+on+")") }

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		f.condition(n.Cond, true)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.condition(n.Cond, false)
		}
	case *ast.SwitchStmt:
		if n.Tag == nil {
			f.cases(n.Body.List)
		}
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT && !f.conditions[n] {
			f.opposite(n, f.text(n.X))
		}
	case *ast.Ident:
		switch n.Name {
		case "true":
			f.opposite(n, "false")
		case "false":
			f.opposite(n, "true")
		}
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.CommClause:
		f.statements(n.Body)
	}
	return true
}

func (f *finder) cases(clauses []ast.Stmt) {
	for _, s := range clauses {
		for _, c := range s.(*ast.CaseClause).List {
			f.condition(c, true)
		}
	}
}

// condition makes a condition always and never hold. One that is joined by && or
// || is left to its parts, where the same test finds both.
func (f *finder) condition(c ast.Expr, both bool) {
	c = ast.Unparen(c)
	f.conditions[c] = true
	joined, _ := c.(*ast.BinaryExpr)
	if joined == nil || joined.Op != token.LOR {
		f.never(c)
	}
	if both && (joined == nil || joined.Op != token.LAND) {
		f.always(c)
	}
}

// swapped are the operators that are put in another's place.
var swapped = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
	token.SHL: token.SHR, token.SHR: token.SHL, token.AND: token.OR, token.OR: token.AND,
	token.INC: token.DEC, token.DEC: token.INC, token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
}

func (f *finder) binary(n *ast.BinaryExpr) {
	switch n.Op {
	case token.LAND, token.LOR:
		for _, part := range []ast.Expr{ast.Unparen(n.X), ast.Unparen(n.Y)} {
			if of, ok := part.(*ast.BinaryExpr); ok && of.Op == n.Op {
				continue
			}
			f.conditions[part] = true
			if n.Op == token.LAND {
				f.always(part)
			} else {
				f.never(part)
			}
		}
		return
	case token.EQL, token.NEQ:
		if !f.conditions[n] {
			f.opposite(n, f.swap(n, n.OpPos, n.Op))
		}
	case token.LSS, token.GTR:
		f.add(n, f.swap(n, n.OpPos, n.Op), "(", " || "+on+" && ("+f.text(n.X)+") == ("+f.text(n.Y)+"))")
	case token.LEQ, token.GEQ:
		f.add(n, f.swap(n, n.OpPos, n.Op), "(", " && !("+on+" && ("+f.text(n.X)+") == ("+f.text(n.Y)+")))")
	default:
		// Of which type the operands are is not known here: constants, texts.
		if _, ok := swapped[n.Op]; ok && !isText(n.X) && !isText(n.Y) {
			f.add(n, f.swap(n, n.OpPos, n.Op), "", "")
		}
	}
}

// swap is the text of a node with another operator.
func (f *finder) swap(n ast.Node, at token.Pos, operator token.Token) string {
	text, place := f.text(n), int(at-n.Pos())
	return text[:place] + swapped[operator].String() + text[place+len(operator.String()):]
}

// isText reports whether it shows that an operand of + is a string.
func isText(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.BasicLit:
		return x.Kind == token.STRING || x.Kind == token.CHAR
	case *ast.BinaryExpr:
		return isText(x.X) || isText(x.Y)
	}
	return false
}

// statements leaves each statement out that does something by itself.
func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); !ok || f.text(call.Fun) != "panic" {
				f.leaveOut(s)
			}
		case *ast.DeferStmt, *ast.SendStmt:
			f.leaveOut(s)
		case *ast.BranchStmt:
			if s.Tok == token.BREAK || s.Tok == token.CONTINUE {
				f.leaveOut(s)
			}
		case *ast.IncDecStmt:
			other := f.swap(s, s.TokPos, s.Tok)
			f.add(s, other, "if "+on+" { "+other+" } else { ", " }")
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				f.leaveOut(s)
			}
		}
	}
}

func (f *finder) leaveOut(s ast.Stmt) { f.add(s, "", "if !"+on+" { ", " }") }
