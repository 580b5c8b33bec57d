package git

import (
	"regexp"
	"strings"
	"sync"
)

// tail keeps the last of what was written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
	cut  bool // what was before is not here
}

// Write keeps the last 4 KiB.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 4096
	t.text = append(t.text, p...)
	if len(t.text) > most {
		t.text, t.cut = append([]byte(nil), t.text[len(t.text)-most:]...), true
	}
	return len(p), nil
}

// String is what was kept, as a person reads it: without progress, without the prefix
// that git prints before a server's words, and without lines that say nothing.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(t.text)
	if t.cut { // the first line may be the end of one
		_, text, _ = strings.Cut(text, "\n")
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = spoken(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

var (
	// progress is a count that git writes over and over in one line, as in "Resolving
	// deltas:  50% (1/2)" and "Counting objects: 5, done." (git, progress.c).
	progress = regexp.MustCompile(`^[A-Za-z]+ing [a-z]+: +([0-9]+% \([0-9]+/[0-9]+\).*|[0-9]+(, done\.)?)$`)
	// silent is a line of rules, stars and blanks, or git's prefix of a line without a word
	// (Gitea prints such lines around its own).
	silent = regexp.MustCompile(`^((error|fatal|warning):)?[^\pL\pN]*$`)
)

// spoken is what a line says at last, after what was written over; empty: nothing.
func spoken(line string) string {
	said := ""
	for part := range strings.SplitSeq(line, "\r") {
		part = strings.TrimSpace(colour.ReplaceAllString(part, ""))
		for {
			rest, prefixed := strings.CutPrefix(part, "remote:")
			if !prefixed {
				break
			}
			part = strings.TrimSpace(rest)
		}
		if !silent.MatchString(part) && !progress.MatchString(part) {
			said = part
		}
	}
	return said
}

// lastLines are those of a text's lines that fit one line of an error: all, or the first,
// if it is short, and the last: what refuses stands at an end, and what a hook prints to
// everybody between.
func lastLines(text string) string {
	const most, short = 400, 200 // bytes, of the 600 that are shown
	lines := strings.Split(text, "\n")
	first, size := len(lines)-1, len(lines[len(lines)-1])
	begin := ""
	if len(text) > most && len(lines[0]) <= short && first > 0 {
		begin = lines[0] + "; "
		size += len(begin)
	}
	for first > 0 && size+len(lines[first-1]) <= most {
		first--
		size += len(lines[first]) + len("; ")
	}
	joined := strings.Join(lines[first:], "; ")
	if first > 0 {
		joined = begin + "… " + joined
	}
	return joined
}
