package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"muster/cmd/invocation"
	"muster/cmd/laboratory"
	"muster/gitops/git/remote"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/tools/txtar"
)

// top is the top of the repository.
var top = filepath.Join("..", "..")

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(name)))
	check(t, err)
	return string(text)
}

// eachFile calls f for each file below a directory of the repository, except in directories with
// a name in skipped. read returns the file's text.
func eachFile(t *testing.T, dir string, f func(path string, read func() string), skipped ...string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(top, dir), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return filepath.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		f(path, func() string {
			var text []byte
			text, err = os.ReadFile(path)
			return string(text)
		})
		return err
	})
	check(t, err)
}

// checkBlock compares the text between two lines of a page with the text that it
// should be, and with -update writes that.
func checkBlock(t *testing.T, file, begin, end, want string) {
	t.Helper()
	text := readText(t, file)
	before, rest, ok := strings.Cut(text, begin+"\n")
	got, after, ok2 := strings.Cut(rest, end+"\n")
	if !ok || !ok2 {
		t.Fatalf("%s has no %s ... %s", file, begin, end)
	}
	switch {
	case got == want:
	case *updateScripts:
		text = before + begin + "\n" + want + end + "\n" + after
		check(t, os.WriteFile(filepath.Join(top, file), []byte(text), 0o644))
	default:
		t.Errorf("%s is behind: run go test ./cmd/muster -update (-it +want)\n%s", file, cmp.Diff(got, want))
	}
}

// section returns the text below a heading of a page, up to the next heading of any level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(readText(t, page), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	return regexp.MustCompile(`(?m)^##+ `).Split(rest, 2)[0]
}

// rows returns the cells of the first table in a text, without its head.
func rows(t *testing.T, text string) [][]string {
	t.Helper()
	var table [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if len(table) > 0 {
				break
			}
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		table = append(table, cells)
	}
	if len(table) < 3 {
		t.Fatalf("no table in %q", text)
	}
	return table[2:]
}

// code returns what a text sets in code.
func code(text string) []string {
	var all []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// programs are the commands of both programs.
var programs = []invocation.Commands{allCommands, laboratory.Commands}

// TestFlagList compares the reference's lists of flags with the commands of each program.
func TestFlagList(t *testing.T) {
	for _, p := range programs {
		block := "flags of " + p.Name
		checkBlock(t, "docs/reference/cli.md", "<!-- begin: "+block+" -->", "<!-- end: "+block+" -->", flagList(p.Root(invocation.Program{}))+"\n")
	}
}

// flagList lists first the flags that several commands share, then those of one command.
func flagList(root *cobra.Command) string {
	type row struct {
		flag *pflag.Flag
		of   []string
	}
	var all []*row
	for _, c := range root.Commands() {
		if c.Name() == "simulate" { // its help lists them
			continue
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			same := func(r *row) bool { return r.flag.Name == f.Name && r.flag.Usage == f.Usage }
			if i := slices.IndexFunc(all, same); i >= 0 {
				all[i].of = append(all[i].of, c.Name())
				return
			}
			all = append(all, &row{f, []string{c.Name()}})
		})
	}
	slices.SortStableFunc(all, func(a, b *row) int {
		if n := len(b.of) - len(a.of); n != 0 {
			return n
		}
		return strings.Compare(strings.Join(a.of, " ")+" "+a.flag.Name, strings.Join(b.of, " ")+" "+b.flag.Name)
	})
	var list strings.Builder
	var of []string
	for _, r := range all {
		if !slices.Equal(r.of, of) {
			of = r.of
			fmt.Fprintf(&list, "\n**%s**\n\n", strings.Join(of, ", "))
		}
		name := "`--" + r.flag.Name + "`"
		if r.flag.Shorthand != "" {
			name += ", `-" + r.flag.Shorthand + "`"
		}
		if !slices.Contains([]string{"", "0", "false", "[]", "0s"}, r.flag.DefValue) {
			name += " (`" + r.flag.DefValue + "`)"
		}
		fmt.Fprintf(&list, "- %s: %s\n", name, r.flag.Usage)
	}
	return list.String()
}

// TestQuirksTable compares the table of git hosts' deviations with the quirks in the code.
func TestQuirksTable(t *testing.T) {
	var table strings.Builder
	table.WriteString("| muster | if |\n|---|---|\n")
	var meanings []string
	behaviors := map[string][]string{}
	for _, q := range remote.Quirks {
		if slices.Contains([]remote.Meaning{remote.NoRefusal, remote.MessageField, remote.NoMessage}, q.Meaning) {
			continue // only the words of errors depend on it
		}
		m := string(q.Meaning)
		if behaviors[m] == nil {
			meanings = append(meanings, m)
		}
		behaviors[m] = append(behaviors[m], q.Host+": "+q.Behavior)
	}
	for _, m := range meanings {
		fmt.Fprintf(&table, "| %s | %s |\n", m, strings.Join(behaviors[m], "; "))
	}
	checkBlock(t, "docs/reference/git-hosts.md", "<!-- begin: quirks -->", "<!-- end: quirks -->", table.String())
}

func variableOf(f *pflag.Flag) string {
	return invocation.Prefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// TestVariables asserts that each flag can be set by its variable, and that a flag replaces its
// variable, also one with a list.
func TestVariables(t *testing.T) {
	for _, c := range slices.Concat(allCommands.Root(invocation.Program{}).Commands(), laboratory.Commands.Root(invocation.Program{}).Commands()) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			value := map[string]string{"bool": "true", "duration": "7s", "range": "7s-8s", "stringSlice": "a"}[f.Value.Type()]
			if parsed, ok := f.Value.(interface{ Example() string }); ok {
				value = parsed.Example()
			}
			if value == "" {
				value = "text"
			}
			p := invocation.Program{Environ: []string{variableOf(f) + "=" + value}}
			root := programOf([]string{c.Name()}).Root(p)
			if err := p.Environment(root); err != nil {
				t.Errorf("%s: %v", variableOf(f), err)
				return
			}
			mine, _, err := root.Find([]string{c.Name()})
			check(t, err)
			for _, args := range [][]string{nil, {"--" + f.Name + "=" + value}} {
				check(t, mine.ParseFlags(args))
				if got := strings.Trim(mine.Flags().Lookup(f.Name).Value.String(), "[]"); got != value {
					t.Errorf("%s=%s and %q make --%s of %s %q", variableOf(f), value, args, f.Name, c.Name(), got)
				}
			}
		})
	}
}

// TestTranscripts makes the sessions in the documents from the scripts that are
// tests: their commands must be in the script, in this order, and what they print
// is the script's golden output, shortened where it is long.
func TestTranscripts(t *testing.T) {
	session := regexp.MustCompile(`(?s)(<!-- begin: (?:whole )?transcript of (\S+) -->\n)(.*?)(<!-- end: transcript -->\n)`)
	sessions := map[string]bool{}
	for page, text := range documents(t) {
		scripts := map[string]*script{}
		want := session.ReplaceAllStringFunc(text, func(block string) string {
			m := session.FindStringSubmatch(block)
			if scripts[m[2]] == nil {
				scripts[m[2]] = readScript(t, m[2])
			}
			sessions[filepath.Base(page)] = true
			return m[1] + scripts[m[2]].session(t, m[3], strings.Contains(m[1], " whole ")) + m[4]
		})
		switch {
		case want == text:
		case *updateScripts:
			check(t, os.WriteFile(page, []byte(want), 0o644))
		default:
			t.Errorf("%s is behind: run go test ./cmd/muster -update (-page +want)\n%s", page, cmp.Diff(text, want))
		}
	}
	for _, page := range []string{"README.md", "tutorial.md", "operate.md", "investigate.md"} {
		if !sessions[page] {
			t.Errorf("%s has no session", page)
		}
	}
}

// script is a test's commands, of which those before at are used up, and what
// they print.
type script struct {
	name   string
	lines  []string
	at     int
	golden map[string]string
}

func readScript(t *testing.T, name string) *script {
	archive := txtar.Parse([]byte(readText(t, name)))
	s := &script{name: name, lines: strings.Split(string(archive.Comment), "\n"), golden: map[string]string{}}
	for _, f := range archive.Files {
		s.golden[f.Name] = string(f.Data)
	}
	return s
}

// session is a session with what its commands print, or the beginning of it.
func (s *script) session(t *testing.T, shown string, whole bool) string {
	t.Helper()
	want := ""
	for line := range strings.Lines(shown) {
		command, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "$ ")
		if !ok {
			continue
		}
		i := slices.IndexFunc(s.lines[s.at:], func(run string) bool {
			run = strings.TrimPrefix(strings.TrimPrefix(run, "! "), "exec ")
			return run == command || run == "sh -c '"+command+"'"
		})
		if i < 0 {
			t.Fatalf("%s does not run %q after line %d", s.name, command, s.at)
		}
		s.at += i + 1
		want += line
		if file, ok := strings.CutPrefix(s.lines[s.at], "cmp stdout "); ok {
			output := s.golden[strings.TrimPrefix(file, "$WORK/")]
			if !whole {
				output = shortened(output)
			}
			want += output
		}
	}
	fence := "```"
	for strings.Contains(want, fence) {
		fence += "`"
	}
	return fence + "console\n" + want + fence + "\n"
}

// shortened leaves out all but the beginning of a long output.
func shortened(output string) string {
	const most = 24
	lines := strings.SplitAfter(output, "\n")
	if len(lines) <= most+1 {
		return output
	}
	return strings.Join(lines[:most-8], "") + "...\n"
}

// documents returns the text of all pages, by their path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", ".github/ISSUE_TEMPLATE/bug.md", ".github/PULL_REQUEST_TEMPLATE.md"} {
		pages[filepath.Join(top, name)] = readText(t, name)
	}
	eachFile(t, "docs", func(path string, read func() string) {
		// The third-party page contains texts of others, which name their own files.
		if filepath.Ext(path) == ".md" && filepath.Base(path) != filepath.Base(thirdPartyPage) {
			pages[path] = read()
		}
	})
	return pages
}

// TestTemplates asserts that git hosts show the same forms. GitHub, Gitea and Forgejo read .github
// (https://docs.gitea.com/usage/issue-pull-request-templates); GitLab reads .gitlab
// (https://docs.gitlab.com/user/project/description_templates), and would show front matter.
func TestTemplates(t *testing.T) {
	for github, gitlab := range map[string]string{"ISSUE_TEMPLATE/bug.md": "issue_templates", "PULL_REQUEST_TEMPLATE.md": "merge_request_templates"} {
		text := readText(t, ".github/"+github)
		if _, body, ok := strings.Cut(text, "\n---\n\n"); ok {
			text = body
		}
		if diff := cmp.Diff(readText(t, ".gitlab/"+gitlab+"/Default.md"), text); diff != "" {
			t.Errorf(".github/%s differs from that of GitLab (-gitlab +github):\n%s", github, diff)
		}
	}
}

// TestCommands asserts that the commands, flags and make targets in the documents exist.
func TestCommands(t *testing.T) {
	makefile := readText(t, "Makefile")
	inCode := regexp.MustCompile("(?sm)^```.*?^```|`[^`\n]+`|^ {4}\\S[^\n]*")
	namespace := regexp.MustCompile(`(-n|--namespace) muster( |$)`)
	looked := 0
	for page, text := range documents(t) {
		for _, block := range inCode.FindAllString(text, -1) {
			block = namespace.ReplaceAllString(block, "")
			block = strings.ReplaceAll(block, "that muster orders\n", "") // the description of Argo CD's project
			for _, m := range regexp.MustCompile(`(?m)(?:^|[\s$`+"`"+`])make ([a-z0-9-]+)`).FindAllStringSubmatch(block, -1) {
				looked++
				if !regexp.MustCompile(`(?m)^` + m[1] + `:`).MatchString(makefile) {
					t.Errorf("%s: the Makefile has no %s", page, m[1])
				}
			}
			for _, m := range regexp.MustCompile("(?m)(?:^|[\\s$`])muster(?:-sim)? ([a-z]+(?:-[a-z]+)*)([^#&|;$`\n]*)").FindAllStringSubmatch(block, -1) {
				looked++
				root := programOf(m[1:2]).Root(invocation.Program{})
				command, _, err := root.Find(m[1:2])
				if err != nil || command == root {
					t.Errorf("%s: muster has no command %s", page, m[1])
					continue
				}
				for _, flag := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(m[2], -1) {
					if flag[1] != "help" && command.Flags().Lookup(flag[1]) == nil {
						t.Errorf("%s: muster %s has no flag --%s", page, m[1], flag[1])
					}
				}
			}
		}
	}
	if looked < 20 {
		t.Errorf("looked at %d commands only", looked)
	}
}
