package finding

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	fields := []string{"queue", "cluster", "min", "max", "maxPerHour", "lease", "priority"}
	for word, want := range map[string]string{
		"maxx": "max", "Max": "max", "mx": "max", "mxa": "max", "queu": "queue", "que": "queue", "maxperhour": "maxPerHour",
		"leese": "lease", "clusterName": "cluster", "nonsense": "", "x": "", "": "", "ttl": "", "maximum": "max",
	} {
		if got := Nearest(word, fields); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
	if got := Nearest("REPOSITORY", []string{"REPO", "OVERLAYS", "REMOTE"}); got != "REPO" {
		t.Errorf("nearest to REPOSITORY is %q", got)
	}
}

func TestField(t *testing.T) {
	for want, keys := range map[string][]string{
		"": nil, "spec.max": {"spec", "max"}, "metadata.labels[a.b/c]": {"metadata", "labels", "a.b/c"}, "a[0].b": {"a", "[0]", "b"},
	} {
		if got := Field(keys); got != want {
			t.Errorf("the field of %q is %q, want %q", keys, got, want)
		}
	}
}

func TestOr(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"}} {
		if got := Or(names); got != want {
			t.Errorf("%q are %q, want %q", names, got, want)
		}
	}
}

// TestSyntax asserts the line, the cause and the remedy of each error of the YAML library, after lines of several forms.
func TestSyntax(t *testing.T) {
	for _, before := range []string{"", "# a\n\na: b\n", "x: |\n  a\n  b\ny: z\n", "x: >-\n  a\n\n  b\ny:\n- 1\n", "f: {a: 1,\n  c: [1,\n  2]}\n", "q: \"a\n  b\"\n"} {
		for _, c := range []struct {
			text   string
			line   int
			remedy string
		}{
			{"k: @b\n", 1, "a value begins with @, % or `; put the value in quotes"},
			{"k: `b`\n", 1, "a value begins with @, % or `; put the value in quotes"},
			{"j: a\nk: %b\n", 2, "a value begins with @, % or `; put the value in quotes"},
			{"k:\n\tl: m\n", 2, "a tab indents the line; indent with spaces"},
			{"k: m\n\tl: m\n", 2, "a tab indents the line; indent with spaces"},
			{"k: a: b\n", 1, "indent the line like its neighbours, or"},
			{"k: a\n  l: b\n", 2, "indent the line like its neighbours, or"},
			{"k: [a\nl: b\n", 1, "a list is not closed; close it with ]"},
			{"k: {a: b\nl: c\n", 1, "a mapping is not closed; close it with }"},
			{"k: \"a\nl: b\nm: c\n", 1, "close the quotes"},
			{"k: a\nlll\nm: b\n", 2, "write the line as key: value"},
			{"k:\n- a\nb: c\n- d\n", 4, "indent the line like its neighbours, and"},
			{"k:\n    a: b\n  c: d\n", 3, "indent the line like its neighbours, and"},
			{"j: a\nk: *b\nl: c\n", 2, "a value begins with *; put the value in quotes"},
			{"j: a\nk: \x01\nl: c\n", 2, "it has a control character; remove the character"},
			{"j: a\nk: \xff\nl: c\n", 2, "save the file as UTF-8"},
			{"k: &\nl: b\n", 1, "a value begins with & or *; put the value in quotes"},
			{"k: \"a\" b\n", 1, "indent the line like its neighbours, and"},
			{"k: 'it's'\n", 1, "indent the line like its neighbours, and"},
			{"k: \"\\q\"\n", 1, "write \\\\"},
			{"k: a\n<<<<<<< HEAD\nl: b\n=======\n>>>>>>> x\n", 2, "a conflict of git is not resolved; resolve it"},
			{"k: |x\n", 1, "correct the YAML"},
			{"k: [a,\n  b,\n  @c]\nl: m\n", 3, "a value begins with @, % or `; put the value in quotes"},
			{"k: [a,\n  b]\nl: [\n  c\n", 3, "a list is not closed; close it with ]"},
			{"k: [a,\n  b]\nl: m\nn: o: p\nq: r\n", 4, "indent the line like its neighbours, or"},
			{"k: a" + strings.Repeat("\nk: a", 500) + "\n  l\nm: n\n-\n", 504, "indent the line like its neighbours, and"},
		} {
			_, f := ParseOne("f", []byte(before+c.text))
			if f == nil {
				t.Errorf("%q: valid", before+c.text)
				continue
			}
			if want := strings.Count(before, "\n") + c.line; f.Line != want || !strings.Contains(f.Text(), c.remedy) {
				t.Errorf("%q: %s, want line %d: %s", before+c.text, f, want, c.remedy)
			}
		}
	}
}
