package ledger

import (
	"crypto/sha256"
	"errors"
	"iter"
	"path"
	"strings"
	"time"

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

// ErrCut is the last error of a log whose oldest commits have parents that the repository lacks, as in a
// shallow clone.
var ErrCut = errors.New("the history is not complete")

// Stop is where the reading of a log ends. The zero value reads the whole log.
type Stop struct {
	// Since ends each line of the history at the first commit of muster whose time and decision are both
	// before it: all that muster did before that commit is older still. Commits by people end nothing,
	// because their times can be anything.
	Since time.Time
	// Known is a commit that is left out with its ancestors; empty means no commit.
	Known string
	// People is the number of consecutive commits by people before Since after which reading ends. It
	// bounds the reading of a long history in which muster is new; zero means unbounded.
	People int
}

// Apply yields the operations of a log, which must be newest first and begin with its newest commit, up to
// the stop. It yields [ErrCut] at the end of an incomplete log, unless the stop has a known commit.
func (s Stop) Apply(log iter.Seq2[Operation, error]) iter.Seq2[Operation, error] {
	const open, shut, read = 1, 2, 3
	return func(yield func(Operation, error) bool) {
		state, left, people := map[[16]byte]byte{digest(s.Known): shut}, 0, 0
		for o, err := range log {
			if err != nil {
				yield(o, err)
				return
			}
			id := digest(o.ID)
			if state[id] == 0 && left == 0 { // the newest commit
				state[id], left = open, 1
			}
			if state[id] == open {
				left--
			}
			if people++; o.ByMuster() || !o.At.Before(s.Since) {
				people = 0
			}
			over := state[id] == shut || o.ByMuster() && o.At.Before(s.Since) && o.Decided.Before(s.Since) || s.People > 0 && people > s.People
			for _, parent := range o.Parents {
				p := digest(parent)
				switch {
				case over && state[p] == open:
					left--
					state[p] = shut
				case over && state[p] == 0:
					state[p] = shut
				case !over && state[p] == 0:
					left++
					state[p] = open
				}
			}
			if state[id] = read; !over && !yield(o, nil) || left == 0 {
				return
			}
		}
		if s.Known == "" {
			yield(Operation{}, ErrCut)
		}
	}
}

// digest returns 16 bytes that identify a commit.
func digest(commit string) [16]byte {
	sum := sha256.Sum256([]byte(commit))
	return [16]byte(sum[:16])
}
