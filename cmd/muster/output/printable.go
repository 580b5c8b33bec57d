package output

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable is a writer that everything goes through that muster prints and logs.
// Names of branches, words of servers and messages of Buildkite are other
// people's: what would move a terminal's cursor, colour it, or turn text around is
// written as an escape, as in \u202e. So is the @ of a mention, because logs and
// alerts are sent on to forges and chats that call whoever is named. In JSON, where
// it can only stand in a string, it means the same as before.
type Printable struct {
	To io.Writer
	// inWord says that the last character belongs to a word, as in git@example.com.
	inWord bool
	// begun is the beginning of a character, or of a mention, that the last write
	// ended in.
	begun []byte
}

// Write implements [io.Writer].
func (p *Printable) Write(text []byte) (int, error) {
	size := len(text)
	if len(p.begun) > 0 {
		text = append(p.begun, text...)
		p.begun = nil
	}
	clean := make([]byte, 0, len(text))
	for len(text) > 0 {
		if !utf8.FullRune(text) || text[0] == '@' && !utf8.FullRune(text[1:]) {
			p.begun = append([]byte(nil), text...)
			break
		}
		c, n := utf8.DecodeRune(text)
		switch {
		case c == utf8.RuneError && n == 1:
			clean = utf8.AppendRune(clean, utf8.RuneError)
		case c == '@' && !p.inWord && beginsWord(text[n:]):
			clean = append(clean, `\u0040`...)
		case Shown(c):
			clean = append(clean, text[:n]...)
		case c > 0xffff: // as JSON has it
			high, low := utf16.EncodeRune(c)
			clean = fmt.Appendf(clean, `\u%04x\u%04x`, high, low)
		default:
			clean = fmt.Appendf(clean, `\u%04x`, c)
		}
		p.inWord = c == '.' || ofWord(c)
		text = text[n:]
	}
	if _, err := p.To.Write(clean); err != nil {
		return 0, err
	}
	return size, nil
}

// ShownAs is a text as [printable] writes it.
func ShownAs(text string) string {
	var out strings.Builder
	p := Printable{To: &out}
	_, _ = p.Write([]byte(text + "\n")) // into memory; what it ends in is written too
	return strings.TrimSuffix(out.String(), "\n")
}

func beginsWord(text []byte) bool {
	c, _ := utf8.DecodeRune(text)
	return ofWord(c)
}

func ofWord(c rune) bool { return c == '_' || unicode.IsLetter(c) || unicode.IsNumber(c) }

// Shown reports whether a terminal shows a character as itself. What joins letters
// and emoji is a format character too, and is shown.
func Shown(c rune) bool {
	const nonJoiner, joiner = 0x200c, 0x200d
	switch {
	case c == '\n' || c == '\t' || c == nonJoiner || c == joiner:
		return true
	case unicode.IsControl(c) || unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp):
		return false
	}
	return true
}
