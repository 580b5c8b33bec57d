package output

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable is a writer that escapes text from other people. All that muster prints and logs
// passes through it, because names of branches, responses of servers and messages of Buildkite
// are untrusted. It escapes characters that move a terminal's cursor, colour text or reverse its
// direction, as in \u202e. It also escapes the @ of a mention, because logs and alerts are
// forwarded to forges and chats that notify the mentioned user. In JSON, where @ can only occur
// in a string, the escape has the same meaning.
type Printable struct {
	To io.Writer
	// inWord reports whether the last character belongs to a word, as in git@example.com.
	inWord bool
	// begun is the incomplete character or mention at the end of the last write.
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

// ShownAs returns a text as [Printable] writes it.
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

// Shown reports whether a terminal shows a character as itself. This includes joiners of
// letters and emoji, although they are format characters.
func Shown(c rune) bool {
	const nonJoiner, joiner = 0x200c, 0x200d
	if c == '\n' || c == '\t' || c == nonJoiner || c == joiner {
		return true
	}
	return !unicode.IsControl(c) && !unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp)
}
