package remote

import (
	"strings"
	"sync"
)

// Tail keeps the end of what is written to it.
type Tail struct {
	mu   sync.Mutex
	text []byte
	cut  bool // the beginning was dropped
}

// Write keeps the last 4 KiB.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 4096
	t.text = append(t.text, p...)
	if len(t.text) > most {
		t.text, t.cut = append([]byte(nil), t.text[len(t.text)-most:]...), true
	}
	return len(p), nil
}

// String returns the text without progress, without git's prefix before messages of the server, and
// without lines that contain no message.
func (t *Tail) String() string {
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

// spoken returns the message of a line after carriage returns; empty if it has none.
func spoken(line string) string {
	message := ""
	for part := range strings.SplitSeq(line, "\r") {
		part = strings.TrimSpace(colour.ReplaceAllString(part, ""))
		for {
			rest, prefixed := strings.CutPrefix(part, "remote:")
			if !prefixed {
				break
			}
			part = strings.TrimSpace(rest)
		}
		if !NoMessage.Match(part) {
			message = part
		}
	}
	return message
}

// LastLines returns the lines of a text that fit in one line of an error: all of them, or the first,
// if it is short, and the last. The reason is at an end, and a hook's general messages are between.
func LastLines(text string) string {
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
