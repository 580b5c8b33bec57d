// Command prose checks the language of the documentation, the help texts, the doc comments and
// the commit subjects with vale, from the top of the repository. The rules are in .vale.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	dir     = "testdata/prose"
	columns = 120 // the longest line of prose
)

// unchecked are pages with the texts of others, and one that the rules are too new for.
var unchecked = []string{"docs/third-party.md"}

func main() {
	log.SetFlags(0)
	if err := check(); err != nil {
		log.Fatal(err)
	}
}

func check() error {
	tmp, err := os.MkdirTemp("", "prose-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	problems := 0
	for _, part := range []func(string) ([]string, error){examples, pages, help, comments, subjects} {
		found, err := part(tmp)
		if err != nil {
			return err
		}
		for _, line := range found {
			fmt.Println(line)
		}
		problems += len(found)
	}
	if problems > 0 {
		return fmt.Errorf("%d problems with the prose", problems)
	}
	return nil
}

// alert is what vale reports of a place.
type alert struct {
	Line                  int
	Check, Match, Message string
}

// vale returns the alerts of files, by their names.
func vale(files ...string) (map[string][]alert, error) {
	command := exec.Command("vale", append([]string{"--config=.vale.ini", "--output=JSON", "--no-exit"}, files...)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("vale: %w\n%s%s", err, out, stderr.Bytes())
	}
	found := map[string][]alert{}
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, fmt.Errorf("vale printed %q: %w", out, err)
	}
	return found, nil
}

// report formats the alerts as FILE:LINE: MESSAGE.
func report(found map[string][]alert) []string {
	var lines []string
	for _, file := range slices.Sorted(maps.Keys(found)) {
		for _, a := range found[file] {
			lines = append(lines, fmt.Sprintf("%s:%d: %s", file, a.Line, a.Message))
		}
	}
	return lines
}

// examples checks the rules: each line of before.txt violates one, and none of after.txt, as
// text, as the comment of a type and as the comment of a field. In a block of code, none does.
func examples(tmp string) ([]string, error) {
	var problems []string
	for _, name := range []string{"before.txt", "after.txt"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		// A name of its own makes the rules for commit subjects apply.
		file := filepath.Join(tmp, name, "subjects.txt")
		if err := os.Mkdir(filepath.Dir(file), 0o777); err != nil {
			return nil, err
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n\n")+"\n"), 0o666); err != nil {
			return nil, err
		}
		found, err := vale(file)
		if err != nil {
			return nil, err
		}
		source := "package p\n"
		for i, line := range lines {
			wrapped := strings.ReplaceAll(line, " ", "\n// ")
			source += fmt.Sprintf("// %s\ntype T%d struct {\n\tF int // %s\n}\n// Code:\n//\n//\t%s\nvar C%d int\n", wrapped, i, line, line, i)
		}
		documented, err := docComments("p.go", source)
		if err != nil {
			return nil, err
		}
		inComments, err := valeComments(filepath.Dir(file), map[string][]doc{"p": documented})
		if err != nil {
			return nil, err
		}
		for i, line := range lines {
			in := func(name string) bool {
				return slices.ContainsFunc(inComments, func(v string) bool { return strings.HasSuffix(v, fmt.Sprintf(": "+name, i)) })
			}
			bad := name == "before.txt"
			for _, c := range []struct {
				as         string
				have, want bool
			}{
				{"text", slices.ContainsFunc(found[file], func(a alert) bool { return a.Line == 2*i+1 }), bad},
				{"a type's comment", in("T%d"), bad},
				{"a field's comment", in("T%d.F"), bad},
				{"a block of code", in("C%d"), false},
			} {
				if c.have != c.want {
					problems = append(problems, fmt.Sprintf("%s/%s:%d: reported as %s: %t, want %t: %s", dir, name, i+1, c.as, c.have, c.want, line))
				}
			}
		}
	}
	return problems, nil
}

// pages checks the documents, and the length of their lines of prose.
func pages(string) ([]string, error) {
	files := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	err := filepath.WalkDir("docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" && !slices.Contains(unchecked, path) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	found, err := vale(files...)
	if err != nil {
		return nil, err
	}
	problems := report(found)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		fence, generated := "", false
		for i, line := range strings.Split(string(text), "\n") {
			if mark := regexp.MustCompile("^ *(```+)").FindStringSubmatch(line); mark != nil && (fence == "" || fence == mark[1]) {
				fence = map[bool]string{true: mark[1]}[fence == ""]
			}
			if strings.HasPrefix(line, "<!-- ") {
				generated = strings.HasPrefix(line, "<!-- begin: ")
			}
			// Tables, generated lines and links cannot be wrapped.
			if fence == "" && !generated && utf8.RuneCountInString(line) > columns && !regexp.MustCompile(`^ *(\||<!--)|\]\([^ ]+\)[.,;:]?$`).MatchString(line) {
				problems = append(problems, fmt.Sprintf("%s:%d: longer than %d columns", file, i+1, columns))
			}
		}
	}
	return problems, nil
}

// help checks the help texts of the commands, except for the name of the flag --boot.
func help(tmp string) ([]string, error) {
	muster := filepath.Join(tmp, "muster")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", muster, "./cmd/muster").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	print := func(args ...string) (string, error) {
		out, err := exec.Command(muster, append(args, "--help")...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("muster %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return string(out), nil
	}
	top, err := print()
	if err != nil {
		return nil, err
	}
	_, list, _ := strings.Cut(top, "\nStart:\n")
	texts := map[string]string{"muster": top}
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z-]+) +[A-Za-z]`).FindAllStringSubmatch(list, -1) {
		if texts[m[1]], err = print(m[1]); err != nil {
			return nil, err
		}
	}
	if len(texts) < 15 {
		return nil, errors.New("muster --help lists fewer than 15 commands")
	}
	var files []string
	for name, text := range texts {
		file := filepath.Join(tmp, name+".txt")
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
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
			have = append(have, strings.TrimSuffix(filepath.Base(file), ".txt")+": "+a.Match)
		}
	}
	return have, nil
}

// subjects checks the subjects of the commits since the rules exist.
func subjects(tmp string) ([]string, error) {
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", args...).Output()
		return strings.TrimSpace(string(out)), err
	}
	first, err := git("log", "--diff-filter=A", "--format=%H", "-1", "--", ".vale.ini")
	if err != nil || first == "" {
		return nil, err // not committed yet, or no history
	}
	text, err := git("log", "--format=%s%n", first+"..HEAD")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(tmp, "subjects.txt")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o666); err != nil {
		return nil, err
	}
	found, err := vale(file)
	if err != nil {
		return nil, err
	}
	var problems []string
	lines := strings.Split(text, "\n")
	for _, a := range found[file] {
		problems = append(problems, fmt.Sprintf("commit %q: %s", lines[a.Line-1], a.Message))
	}
	return problems, nil
}
