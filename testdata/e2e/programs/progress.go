package programs

import (
	"bytes"
	"strings"
	"time"
)

// progress reads what go build -v prints: each package, when it begins, and what
// is wrong.
type progress struct {
	builder  Builder
	name     string
	began    time.Time
	packages int
	said     time.Time
	line     bytes.Buffer
	lines    []string
}

// Write takes what is printed.
func (p *progress) Write(text []byte) (int, error) {
	for _, b := range text {
		if b != '\n' {
			p.line.WriteByte(b)
			continue
		}
		line := p.line.String()
		p.line.Reset()
		p.lines = append(p.lines, line)
		if !strings.ContainsAny(line, " :") {
			p.packages++
		}
	}
	if now := p.builder.Now(); now.Sub(p.said) >= 15*time.Second {
		p.said = now
		p.builder.say("  %s: %d packages compiled in %s", p.name, p.packages, now.Sub(p.began).Round(time.Second))
	}
	return len(text), nil
}

// last are the lines that say what is wrong.
func (p *progress) last() string {
	return strings.Join(p.lines[max(0, len(p.lines)-40):], "\n")
}
