package ledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"muster/generator/ledger"
	"muster/gitops/branch"
)

// TestStop: each line of a history ends at the first operation that was decided and committed before a
// time, at a known commit, or after many old commits by people, and nothing else ends it.
func TestStop(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	muster := func(id string, committed, decided time.Duration, parents ...string) ledger.Operation {
		return ledger.Operation{Commit: branch.Commit{ID: id, Parents: parents, At: now.Add(-committed)}, Kind: ledger.Retire, Decided: now.Add(-decided)}
	}
	person := func(id string, committed time.Duration, parents ...string) ledger.Operation {
		return ledger.Operation{Commit: branch.Commit{ID: id, Parents: parents, At: now.Add(-committed)}}
	}
	command := func(id string, committed time.Duration, parents ...string) ledger.Operation {
		return ledger.Operation{Commit: branch.Commit{ID: id, Parents: parents, At: now.Add(-committed)}, Kind: ledger.Cancel}
	}
	const h = time.Hour
	merged := []ledger.Operation{
		person("m", 0, "a", "b"), muster("a", h, h, "c"), muster("b", 9*h, 9*h, "d"), muster("c", h, h, "e"), muster("d", 9*h, 9*h, "e"), muster("e", 9*h, 9*h, "f"),
	}
	line := []ledger.Operation{person("m", 0, "a"), person("a", 99*h, "b"), person("b", 99*h, "c"), muster("c", 0, 0, "d"), muster("d", 9*h, 0, "e"), muster("e", 0, 9*h)}
	for name, c := range map[string]struct {
		log  []ledger.Operation
		stop ledger.Stop
		want string
	}{
		"everything":                        {line, ledger.Stop{}, "m a b c d e"},
		"old times of people end nothing":   {line, ledger.Stop{Since: now.Add(-2 * h)}, "m a b c d e"},
		"nor do those of commands":          {append([]ledger.Operation{command("m", 99*h, "a"), command("a", 99*h, "b")}, line[2:]...), ledger.Stop{Since: now.Add(-2 * h)}, "m a b c d e"},
		"many old commits by people":        {line, ledger.Stop{Since: now.Add(-2 * h), People: 1}, "m a"},
		"each line ends":                    {merged, ledger.Stop{Since: now.Add(-2 * h)}, "m a c"},
		"a known commit on one line":        {merged, ledger.Stop{Known: "b"}, "m a c"},
		"a known commit on every line":      {merged, ledger.Stop{Known: "e"}, "m a b c d"},
		"a history that is cut":             {line[:3], ledger.Stop{}, "m a b cut"},
		"cut where it would have ended":     {merged[:5], ledger.Stop{Since: now.Add(-2 * h)}, "m a c"},
		"cut, and a known commit is absent": {line[:3], ledger.Stop{Known: "x"}, "m a b"},
		"no commits":                        {nil, ledger.Stop{}, "cut"},
	} {
		var got []string
		for o, err := range c.stop.Apply(func(yield func(ledger.Operation, error) bool) {
			for _, o := range c.log {
				if !yield(o, nil) {
					return
				}
			}
		}) {
			switch {
			case errors.Is(err, ledger.ErrCut):
				got = append(got, "cut")
			case err != nil:
				t.Fatal(err)
			default:
				got = append(got, o.ID)
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}
