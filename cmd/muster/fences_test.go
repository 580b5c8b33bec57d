package main

import (
	"strings"
	"testing"
)

// fence is a fenced code block of a page.
type fence struct {
	language string
	text     string // without the indentation of the fence
	line     int    // of its first line
	session  bool   // a transcript, whose commands a script runs
}

// fences returns the fenced code blocks of a page.
func fences(page string) []fence {
	var all []fence
	var current *fence
	indent, marker, session := "", "", false
	for i, line := range strings.Split(page, "\n") {
		bare := strings.TrimLeft(line, " ")
		switch {
		case current == nil && strings.HasPrefix(bare, "```"):
			language := strings.TrimLeft(bare, "`")
			indent, marker = line[:len(line)-len(bare)], strings.TrimSuffix(bare, language)
			current = &fence{language: strings.TrimSpace(language), line: i + 2, session: session}
		case current != nil && strings.TrimSpace(line) == marker:
			all, current = append(all, *current), nil
		case current != nil:
			current.text += strings.TrimPrefix(line, indent) + "\n"
		case strings.HasPrefix(line, "<!-- begin: ") && strings.Contains(line, "transcript of "):
			session = true
		case strings.HasPrefix(line, "<!-- end: transcript"):
			session = false
		}
	}
	return all
}

// commands returns the lines that a reader would type.
func (f fence) commands() string {
	switch f.language {
	case "sh":
		return f.text
	case "console":
		typed, more := "", false
		for line := range strings.Lines(f.text) {
			command, first := strings.CutPrefix(line, "$ ")
			if !first && more {
				command = strings.TrimPrefix(line, "> ")
			}
			if first || more {
				typed += command
				more = strings.HasSuffix(command, "\\\n")
			}
		}
		return typed
	}
	return ""
}

func TestFences(t *testing.T) {
	page := "a\n```sh\nx\n```\n1. b\n\n   ````console\n   $ y \\\n       z\n   ```\n   ````\n<!-- begin: whole transcript of a -->\n```console\n$ q\nout\n```\n<!-- end: transcript -->\n```yaml\na: b\n```\n"
	var got []string
	for _, f := range fences(page) {
		got = append(got, f.language+":"+f.commands()+map[bool]string{true: "session"}[f.session])
	}
	want := "sh:x\n|console:y \\\n    z\n|console:q\nsession|yaml:"
	if joined := strings.Join(got, "|"); joined != want {
		t.Errorf("got %q, want %q", joined, want)
	}
}
