package output_test

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/cmd/output"
)

// screen simulates a terminal: its last line, and the lines above.
type screen struct {
	mu   sync.Mutex
	line string
	done []string
}

func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := string(text)
	for rest != "" {
		switch {
		case strings.HasPrefix(rest, "\r\x1b[K"):
			s.line, rest = "", rest[len("\r\x1b[K"):]
		case rest[0] == '\n':
			s.done, s.line, rest = append(s.done, s.line), "", rest[1:]
		default:
			s.line, rest = s.line+rest[:1], rest[1:]
		}
	}
	return len(text), nil
}

func (s *screen) shows() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.line
}

// TestProgress asserts that the line appears after a second, counts, is below logs, and is
// removed.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		p := output.NewProgress(s, time.Now)
		wait := func(d time.Duration, want string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := s.shows(); got != want {
				t.Errorf("the terminal shows %q, want %q", got, want)
			}
		}
		p.Doing("reading git")
		wait(999*time.Millisecond, "")
		wait(2*time.Millisecond, "reading git ... 1s")
		wait(time.Second, "reading git ... 2s")
		p.Doing("reading Buildkite")
		wait(0, "reading Buildkite ... 2s")
		if _, err := io.WriteString(p, "level=WARN\n"); err != nil {
			t.Fatal(err)
		}
		wait(0, "")
		wait(time.Second, "reading Buildkite ... 3s")
		p.Done()
		wait(10*time.Second, "")

		p.Doing("again") // the time counts anew
		wait(500*time.Millisecond, "")
		p.Done()
		wait(10*time.Second, "")
		if want := []string{"level=WARN"}; len(s.done) != 1 || s.done[0] != want[0] {
			t.Errorf("the lines above are %q, want %q", s.done, want)
		}
	})
}

// TestNoProgress asserts that a nil Progress can be used.
func TestNoProgress(*testing.T) {
	var p *output.Progress
	p.Doing("nothing")
	p.Done()
}

// TestTable asserts that columns are aligned by characters, not by bytes or control sequences.
func TestTable(t *testing.T) {
	table := output.Table{Head: []string{"A", "BB", "C"}, Rows: [][]output.Cell{{{Text: "·▁█"}, {Text: "x", Style: output.Bad}, {Text: "1"}}, {{Text: "a"}, {Text: "long"}, {}}}}
	var plain, coloured bytes.Buffer
	if err := table.Write(output.Output{Text: &plain}); err != nil {
		t.Fatal(err)
	}
	if want := "A    BB    C\n·▁█  x     1\na    long  \n"; plain.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &plain, want)
	}
	if err := table.Write(output.Output{Text: &coloured, Raw: &coloured, Colour: true}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(coloured.String(), "\x1b[31mx\x1b[0m ") {
		t.Errorf("printed %q", &coloured)
	}
	without := coloured.String()
	for _, code := range []string{"\x1b[1m", "\x1b[31m", "\x1b[0m"} {
		without = strings.ReplaceAll(without, code, "")
	}
	if without != plain.String() {
		t.Errorf("with colours the text is %q, without %q", without, &plain)
	}
}
