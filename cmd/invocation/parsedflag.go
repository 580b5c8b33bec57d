package invocation

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"muster/gitops/keyvalue"

	"github.com/spf13/pflag"
)

// parsedFlag is a flag that is parsed when it is set, and whose errors state what to write.
type parsedFlag struct {
	text    string
	kind    string
	example string
	parse   func(text string) error
	fields  map[string]*string // of a form
}

// flagMistake is an error of the value of a flag. It needs no description of valid values.
type flagMistake struct{ error }

// Set implements [pflag.Value].
func (v *parsedFlag) Set(text string) error {
	if err := v.parse(text); err != nil {
		return flagMistake{err}
	}
	v.text = text
	return nil
}

// String implements [pflag.Value].
func (v *parsedFlag) String() string { return v.text }

// Type implements [pflag.Value].
func (v *parsedFlag) Type() string { return v.kind }

// Example returns a valid value.
func (v *parsedFlag) Example() string { return v.example }

// files returns the files that a form names.
func (v *parsedFlag) files() []string {
	var files []string
	for key, value := range v.fields {
		if strings.HasSuffix(key, "-file") {
			files = append(files, *value)
		}
	}
	return files
}

// ParsedVar adds a flag with a function that parses and sets its value. text is the default, example a valid value,
// kind names the values in help texts, and short may be empty.
func ParsedVar(f *pflag.FlagSet, name, short, kind, text, example, usage string, parse func(text string) error) {
	f.VarP(&parsedFlag{text: text, kind: kind, example: example, parse: parse}, name, short, usage)
}

// FormVar adds a flag whose value is a form. check validates its fields after they are set; it may be nil.
func FormVar(f *pflag.FlagSet, form keyvalue.Form, name, usage string, check func() error) {
	parse := func(text string) error {
		err := form.Parse(text)
		if err == nil && check != nil {
			err = check()
		}
		return err
	}
	f.Var(&parsedFlag{kind: "settings", example: form.Example, parse: parse, fields: form.Fields}, name, usage)
}

// Person is the name and the email address of an author.
type Person struct{ Name, Email string }

// String returns the person in git's syntax.
func (p Person) String() string { return fmt.Sprintf("%s <%s>", p.Name, p.Email) }

// personRule matches a person in git's syntax.
var personRule = regexp.MustCompile(`^([^<>\x00-\x1f]*[^<>\x00-\x20]) *<([^<>\s]+)>$`)

// AuthorVar adds the flag of the author of commits. If value is the zero value, usage describes the default.
func AuthorVar(f *pflag.FlagSet, author *Person, value Person, usage string) {
	*author = value
	parse := func(text string) error {
		m := personRule.FindStringSubmatch(text)
		if m == nil {
			return fmt.Errorf("%q is not a person: write \"Name <address>\"", text)
		}
		*author = Person{m[1], m[2]}
		return nil
	}
	text := ""
	if value != (Person{}) {
		text = value.String()
	}
	ParsedVar(f, "commit-author", "", "person", text, "Ada <ada@example.com>", usage, parse)
}

// valueError describes an error of a flag's value. name is that of the flag or of its variable.
func valueError(name, text string, value pflag.Value, err error) error {
	if mistake := (flagMistake{}); errors.As(err, &mistake) {
		return fmt.Errorf("%s: %w", name, mistake.error)
	}
	return fmt.Errorf("%s: %q is not %s", name, text, Expected(value.Type()))
}
