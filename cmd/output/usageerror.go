package output

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"muster/generator/finding"
)

// UsageError is a mistake in the command line or in the configuration.
type UsageError struct{ err error }

func (e UsageError) Error() string { return e.err.Error() }

func (e UsageError) Unwrap() error { return e.err }

// Usage returns err as a usage error; nil for nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return UsageError{err}
}

// Instead returns a suggestion for an unknown name: the nearest known name, or some of those
// known.
func Instead(name string, known []string, has string) string {
	const most = 8
	if near := finding.Nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	if len(known) == 0 {
		return ""
	}
	shown := strings.Join(known[:min(most, len(known))], ", ")
	if more := len(known) - most; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return "; " + has + " " + shown
}

// Text returns the text of an error without the names of system calls, such as "open" before a file.
func Text(err error) string {
	text := err.Error()
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		text = strings.ReplaceAll(text, failed.Error(), failed.Path+": "+failed.Err.Error())
	}
	return text
}
