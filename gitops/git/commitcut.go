package git

import (
	"bytes"

	"github.com/go-git/go-git/v5/plumbing"
)

// commitCutter reads a commit that exceeds the size limit, so that the commits around it
// stay readable. It computes the commit's name and keeps its tree, parents, author,
// committer and subject, each up to a limit.
type commitCutter struct {
	hasher  plumbing.Hasher
	line    []byte // that is being read: its beginning and its end
	kept    []byte // of the header
	message bool   // the header has ended
	subject []byte // nil: its line has not ended
	more    bool   // the header has more lines than are kept
}

func newCommitCutter(size int64) *commitCutter {
	return &commitCutter{hasher: plumbing.NewHasher(plumbing.CommitObject, size)}
}

// mostOfLine is how many bytes of each end of a long line are kept: an author's line ends
// with the address and the time.
const mostOfLine = 1 << 10

// Write implements [io.Writer].
func (c *commitCutter) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0 && c.subject == nil; {
		part, after, ended := bytes.Cut(rest, []byte("\n"))
		c.line = append(c.line, part...)
		if over := len(c.line) - mostOfLine; over > mostOfLine {
			c.line = append(c.line[:mostOfLine], c.line[over:]...)
		}
		if ended {
			c.endLine()
		}
		rest = after
	}
	return c.hasher.Write(data)
}

func (c *commitCutter) endLine() {
	line := bytes.ToValidUTF8(c.line, nil)
	c.line = c.line[:0]
	switch {
	case c.message:
		c.subject = append([]byte{}, line[:min(len(line), mostOfLine)]...)
	case len(line) == 0:
		c.message = true
	case len(c.kept) > mostObject:
		c.more = true
	default:
		for _, key := range []string{"tree ", "parent ", "author ", "committer "} {
			if bytes.HasPrefix(line, []byte(key)) {
				c.kept = append(append(c.kept, line...), '\n')
			}
		}
	}
}

// cut returns the commit with the kept parts. Its message has no trailers, so it is never
// a commit of muster's. It returns false if there are too many parents, or no committer.
func (c *commitCutter) cut() ([]byte, bool) {
	if c.subject == nil {
		c.endLine()
	}
	subject := bytes.ToValidUTF8(c.subject, nil)
	return append(append(append(c.kept, '\n'), subject...), '\n'), !c.more && bytes.Contains(c.kept, []byte("\ncommitter "))
}
