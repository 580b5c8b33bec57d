package ledger

import (
	"errors"
	"iter"
	"path"
	"strings"

	"muster/gitops/branch"
)

// Read yields an operation for each commit of a log, in the same order. overlays is the directory of
// overlays. A merge is never by muster. An error of the log is yielded and ends it; a malformed message
// does not.
//
// Anybody who may push to the branch can write such messages. Only a signature proves the author.
func Read(overlays string, commits iter.Seq2[branch.Commit, error]) iter.Seq2[Operation, error] {
	return func(yield func(Operation, error) bool) {
		for c, err := range commits {
			if err != nil {
				yield(Operation{}, err)
				return
			}
			if !yield(read(overlays, c), nil) {
				return
			}
		}
	}
}

func read(overlays string, c branch.Commit) Operation {
	if len(c.Parents) > 1 {
		return Operation{Commit: c}
	}
	o, err := Parse(c.Message)
	if errors.As(err, &o.Damage) {
		o.Kind, o.Path = Damaged, o.Damage.Path
	}
	o.Commit, o.Overlay = c, Name(overlays, o.Path)
	return o
}

// Name returns the name of the overlay in a directory. overlays is the directory of overlays.
func Name(overlays, dir string) string { return strings.TrimPrefix(dir, path.Clean(overlays)+"/") }
