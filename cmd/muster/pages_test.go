package main

import (
	"bytes"
	"cmp"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// pagesTools is the directory of a program kubectl that parses only; make docs builds it.
var pagesTools = flag.String("pages", "", "run the commands of all pages, with the programs in this directory; empty: do not")

// outside are the programs on pages that make docs does not run, with the reason.
var outside = map[string]string{
	"argocd": "needs the API server of Argo CD",
	"curl":   "needs GitLab",
	"flux":   "needs a cluster with Flux",
	"gh":     "needs GitHub",
}

// toRun returns the blocks of a page that make docs runs. Scripts of make test run those of
// README.md and docs/tutorial.md, and the sessions of all pages; make release-test runs those of
// docs/how-to/install.md.
func toRun(page, text string) []fence {
	if name := filepath.Base(page); slices.Contains([]string{"README.md", "tutorial.md", "install.md"}, name) {
		return nil
	}
	return slices.DeleteFunc(fences(text), func(f fence) bool { return f.session || f.commands() == "" })
}

// TestOutsidePrograms asserts that the pages have a command of each program that make docs does
// not run, and no command in a block of text.
func TestOutsidePrograms(t *testing.T) {
	hidden := regexp.MustCompile(`(?m)^(argocd|curl|flux|gh|git|go|helm|kubectl|make|muster) [a-z-]+( .*)?$`)
	var commands strings.Builder
	for page, text := range documents(t) {
		for _, f := range fences(text) {
			commands.WriteString(f.commands())
			if command := hidden.FindString(f.text); command != "" && f.language == "text" {
				t.Errorf("%s:%d: %q is in a block of text", page, f.line, command)
			}
		}
	}
	for name, reason := range outside {
		if !regexp.MustCompile(`(?m)^`+name+` `).MatchString(commands.String()) || reason == "" {
			t.Errorf("no page has a command of %s, which is listed as not run: %q", name, reason)
		}
	}
}

// TestPages runs the commands of each page, from top to bottom, in the fleet that
// testdata/pages/fleet.txt makes. testdata/pages/NAME.txt of a page prepares the rest.
func TestPages(t *testing.T) {
	if *pagesTools == "" {
		t.Skip("make docs runs it")
	}
	prepared := map[string]bool{"fleet.txt": true}
	dir := t.TempDir()
	for page, text := range documents(t) {
		if len(toRun(page, text)) == 0 {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		script := readText(t, "testdata/pages/fleet.txt")
		if own, err := os.ReadFile(filepath.Join(top, "testdata", "pages", name+".txt")); err == nil {
			script += string(own)
			prepared[name+".txt"] = true
		}
		script, archive, _ := strings.Cut(script+"\x00", "\n-- ")
		archive, _, _ = strings.Cut(archive, "\x00")
		script = strings.TrimSuffix(script, "\x00") + "\npage " + page + "\n-- agent-token --\nno token\n"
		if archive != "" {
			script += "-- " + archive
		}
		check(t, os.WriteFile(filepath.Join(dir, name+".txtar"), []byte(script), 0o600))
	}
	all, err := os.ReadDir(filepath.Join(top, "testdata", "pages"))
	check(t, err)
	for _, file := range all {
		if !prepared[file.Name()] {
			t.Errorf("testdata/pages/%s is for no page with commands", file.Name())
		}
	}
	t.Run("inline", parseInline)
	params := scriptParams(nil)
	params.Dir = dir
	params.Cmds["page"] = cmdPage
	testscript.Run(t, params)
}

// parseInline parses the commands of kubectl in sentences and tables, whose arguments may
// be left out.
func parseInline(t *testing.T) {
	inline := regexp.MustCompile("`(kubectl [^`\n]+)`")
	parsed := 0
	for page, text := range documents(t) {
		for _, m := range inline.FindAllStringSubmatch(text, -1) {
			cmd := exec.Command("bash", "-c", strings.Replace(m[1], "kubectl", "kubectl --flags-only", 1))
			cmd.Env = append(cmd.Environ(), "PATH="+*pagesTools+":"+os.Getenv("PATH"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %s: %v\n%s", page, m[1], err, out)
			}
			parsed++
		}
	}
	if parsed == 0 {
		t.Error("no page has a command of kubectl in a sentence")
	}
}

// shellOf is put before the commands of a block: make and go test say whether they have
// what they are asked for, and programs of outside do nothing.
func shellOf(tools string) string {
	quiet := ""
	for _, name := range slices.Sorted(maps.Keys(outside)) {
		quiet += name + "() { echo 'not run: " + name + "' \"$@\"; }\n"
	}
	return quiet + `export PATH="` + tools + `:$PATH"
muster() {
	local code=0
	command muster "$@" || code=$?
	case "$code $1" in "1 plan" | "1 verify") code=0 ;; esac # 1: there are changes
	return $code
}
make() { command make --dry-run --directory "$TOP" "$@" >/dev/null; }
go() {
	[ "$1" = test ] || { echo "go $1: not known here"; return 1; }
	local tests=. packages=() found
	while shift; [ $# -gt 0 ]; do
		case "$1" in
			-run | -bench) [ "$2" = '^$' ] || tests=$2; shift ;;
			./*) packages+=("$1") ;;
			-args) break ;;
		esac
	done
	found=$(command go -C "$TOP" test -trimpath -vet=off -list "$tests" "${packages[@]}")
	grep -E '^(Test|Benchmark|Fuzz)' <<<"$found"
}
`
}

// cmdPage runs the blocks of a page that are left, or those before the one with a text:
// page FILE [TEXT]. A block begins in the directory and with the variables that the one before ended with.
func cmdPage(ts *testscript.TestScript, _ bool, args []string) {
	root, err := filepath.Abs(top)
	ts.Check(err)
	page := args[0]
	text, err := os.ReadFile(page)
	ts.Check(err)
	blocks := toRun(page, string(text))
	at, err := strconv.Atoi(cmp.Or(ts.Getenv("PAGE_AT"), "0"))
	ts.Check(err)
	end := len(blocks)
	if len(args) > 1 {
		end = slices.IndexFunc(blocks, func(f fence) bool { return strings.Contains(f.text, args[1]) })
	}
	if end < at {
		ts.Fatalf("%s has no block %q after block %d", page, args[1:], at)
	}
	work := ts.Getenv("WORK")
	place := strings.NewReplacer("https://git.example.com/acme/fleet.git", ts.Getenv("REPO"), "git@git.example.com:acme/fleet.git", ts.Getenv("REPO"))
	for _, f := range blocks[at:end] {
		script := filepath.Join(work, "block.sh")
		commands := "set -e\nTOP=" + root + "\n" + shellOf(*pagesTools) + place.Replace(f.commands()) + "pwd > " + work + "/block.dir\nenv -0 > " + work + "/block.env\n"
		ts.Check(os.WriteFile(script, []byte(commands), 0o600))
		if err := ts.Exec("bash", script); err != nil {
			ts.Fatalf("%s:%d: %v", page, f.line, err)
		}
		dir, err := os.ReadFile(filepath.Join(work, "block.dir"))
		ts.Check(err)
		ts.Check(ts.Chdir(strings.TrimSpace(string(dir))))
		environ, err := os.ReadFile(filepath.Join(work, "block.env"))
		ts.Check(err)
		for variable := range bytes.SplitSeq(bytes.TrimRight(environ, "\x00"), []byte{0}) {
			if name, value, _ := strings.Cut(string(variable), "="); name != "PWD" && name != "OLDPWD" && name != "SHLVL" && name != "_" {
				ts.Setenv(name, value)
			}
		}
	}
	ts.Setenv("PAGE_AT", strconv.Itoa(end))
}
