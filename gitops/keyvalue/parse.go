// Package keyvalue parses settings that are written as KEY=VALUE,KEY=VALUE.
package keyvalue

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Form describes settings of one text.
type Form struct {
	// Name names the settings in errors, as in "a receiver".
	Name string
	// Example is a valid text.
	Example string
	// Fields are the destinations of the values, by key. That of the key "" takes a first value without a key.
	Fields map[string]*string
}

// keyRule matches a key. Errors contain no other part of the text, because a value may be secret.
var keyRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$`)

// Parse sets the fields of a form, and empties those that the text lacks.
func (f Form) Parse(text string) error {
	for _, field := range f.Fields {
		*field = ""
	}
	if _, bare := f.Fields[""]; bare && text == "" {
		return nil
	}
	for i, part := range strings.Split(text, ",") {
		key, value, found := strings.Cut(strings.TrimSpace(part), "=")
		bare := i == 0 && !found
		if bare {
			key, value = "", key
		}
		field := f.Fields[key]
		switch {
		case field == nil && found && keyRule.MatchString(key):
			return fmt.Errorf("%s has no %q: give %s", f.Name, key, f.keys())
		case field == nil, !found && !bare, found && key == "":
			return fmt.Errorf("%s is written as KEY=VALUE,KEY=VALUE, as in %s", f.Name, f.Example)
		case value == "":
			return fmt.Errorf("%s's %s is empty", f.Name, key)
		case *field != "":
			return fmt.Errorf("%s's %s is given twice", f.Name, key)
		}
		*field = value
	}
	return nil
}

// Require returns an error if a field has no value.
func (f Form) Require(keys ...string) error {
	for _, key := range keys {
		if *f.Fields[key] == "" {
			return fmt.Errorf("%s needs %s, as in %s", f.Name, key, f.Example)
		}
	}
	return nil
}

// keys returns the keys as a list.
func (f Form) keys() string {
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(f.Fields)), func(key string) bool { return key == "" })
	return strings.Join(keys, ", ") + ", separated by commas"
}
