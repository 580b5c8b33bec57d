package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"golang.org/x/tools/txtar"

	"muster/generator/manifest"
)

const readme = "../../README.md"

// between returns what stands between two lines of the README, and what is
// around it.
func between(t *testing.T, begin, end string) (before, inside, after string) {
	t.Helper()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin+"\n")
	inside, after, ok2 := strings.Cut(rest, end+"\n")
	if !ok || !ok2 {
		t.Fatalf("README.md has no %s ... %s", begin, end)
	}
	return before + begin + "\n", inside, end + "\n" + after
}

// TestFlagTable holds the README's table of flags against the commands.
func TestFlagTable(t *testing.T) {
	var table strings.Builder
	table.WriteString("| flag | commands | default | meaning |\n|---|---|---|---|\n")
	type row struct {
		flag     *pflag.Flag
		commands []string
	}
	var rows []*row
	root := program{}.command()
	for _, c := range root.Commands() {
		if c.Name() == "simulate" { // described by its own page, docs/scaling-quality.md
			continue
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if i := slices.IndexFunc(rows, func(r *row) bool { return r.flag.Name == f.Name && r.flag.Usage == f.Usage }); i >= 0 {
				rows[i].commands = append(rows[i].commands, c.Name())
				return
			}
			rows = append(rows, &row{f, []string{c.Name()}})
		})
	}
	slices.SortFunc(rows, func(a, b *row) int { return strings.Compare(a.flag.Name, b.flag.Name) })
	for _, r := range rows {
		value := "`" + r.flag.DefValue + "`"
		if r.flag.DefValue == "" {
			value = ""
		}
		name := "`--" + r.flag.Name + "`"
		if r.flag.Shorthand != "" {
			name += ", `-" + r.flag.Shorthand + "`"
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", name, strings.Join(r.commands, ", "), value, r.flag.Usage)
	}
	before, got, after := between(t, "<!-- begin: flags -->", "<!-- end: flags -->")
	if got == table.String() {
		return
	}
	if *updateScripts {
		if err := os.WriteFile(readme, []byte(before+table.String()+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("README.md's flags are not those of the commands; run go test ./cmd/muster -update\ngot:\n%s\nwant:\n%s", got, table.String())
}

// TestTranscript holds the README's session against the script that is a test:
// every command is in the script in this order, and every line of output is in
// the script's golden output for it. "..." leaves lines out.
func TestTranscript(t *testing.T) {
	before, transcript, after := between(t, "<!-- begin: transcript of testdata/script/readme.txtar -->", "<!-- end: transcript -->")
	archive, err := txtar.ParseFile("../../testdata/script/readme.txtar")
	if err != nil {
		t.Fatal(err)
	}
	golden := map[string]string{}
	for _, f := range archive.Files {
		golden[f.Name] = string(f.Data)
	}
	script := strings.Split(string(archive.Comment), "\n")
	var want strings.Builder
	want.WriteString("```console\n")
	at := 0
	for line := range strings.Lines(transcript) {
		command, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "$ ")
		if !ok {
			continue
		}
		i := slices.IndexFunc(script[at:], func(s string) bool {
			s = strings.TrimPrefix(strings.TrimPrefix(s, "! "), "exec ")
			return s == command
		})
		if i < 0 {
			t.Fatalf("the script does not run %q after line %d", command, at)
		}
		at += i + 1
		want.WriteString(line)
		file, ok := strings.CutPrefix(script[at], "cmp stdout ")
		if !ok {
			continue
		}
		want.WriteString(shortened(golden[file]))
	}
	want.WriteString("```\n")
	if transcript == want.String() {
		return
	}
	if *updateScripts {
		if err := os.WriteFile(readme, []byte(before+want.String()+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("README.md's session is not the script's; run go test ./cmd/muster -update\ngot:\n%s\nwant:\n%s", transcript, want.String())
}

// shortened leaves out all but the beginning of a long output.
func shortened(output string) string {
	const most = 20
	lines := strings.SplitAfter(output, "\n")
	if len(lines) <= most+1 {
		return output
	}
	return strings.Join(lines[:most-8], "") + "...\n"
}

// TestPolicyTable: the README lists the fields that a policy may have, and no
// others.
func TestPolicyTable(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	_, err = manifest.ParsePolicy("p", []byte("apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec: {queue: q, max: 1, nonsense: 1}\n"))
	_, list, ok := strings.Cut(fmt.Sprint(err), "the fields of spec are ")
	if !ok {
		t.Fatalf("no list of fields in %v", err)
	}
	want := strings.Split(list, ", ")
	_, section, _ := strings.Cut(string(text), "## The policy")
	section, _, _ = strings.Cut(section, "## Flags")
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|").FindAllStringSubmatch(section, -1) {
		got = append(got, m[1])
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("README.md describes the fields %v, a policy has %v", got, want)
	}
}

// TestLinks: what the documents name is there.
func TestLinks(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, readme, "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", file, m[1], err)
			}
		}
		for _, m := range regexp.MustCompile("`?make ([a-z]+)[` ]").FindAllStringSubmatch(string(text), -1) {
			target := regexp.MustCompile(`(?m)^` + m[1] + `:`)
			if known := target.Match(makefile); !known && strings.Contains(m[0], "`") {
				t.Errorf("%s names make %s, which the Makefile does not have", file, m[1])
			}
		}
	}
}
