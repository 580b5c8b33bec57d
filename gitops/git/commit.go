package git

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"muster/gitops/branch"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// author is the author of commits, and their signer.
type author struct {
	name, email string
	sign        Signer // nil if commits are not signed
}

// commit returns a raw commit of the tree root on parent.
func (a author) commit(parent, root plumbing.Hash, d branch.Draft) ([]byte, error) {
	if strings.TrimSpace(d.Message) == "" || strings.ContainsRune(d.Message, 0) {
		return nil, errors.New("a commit needs a message, without zero bytes")
	}
	at := time.Unix(d.At.Unix(), 0).UTC()
	who := object.Signature{Name: a.name, Email: a.email, When: at}
	commit := object.Commit{Author: who, Committer: who, Message: d.Message, TreeHash: root, ParentHashes: []plumbing.Hash{parent}}
	raw, err := encodeCommit(&commit)
	if err != nil || a.sign == nil {
		return raw, err
	}
	signature, err := a.sign(raw, at)
	if err != nil {
		return nil, fmt.Errorf("signing the commit: %w", err)
	}
	commit.PGPSignature = strings.TrimRight(signature, "\n") + "\n"
	return encodeCommit(&commit)
}

func encodeCommit(c *object.Commit) ([]byte, error) {
	var o plumbing.MemoryObject
	if err := c.Encode(&o); err != nil {
		return nil, fmt.Errorf("encoding the commit: %w", err)
	}
	reader, err := o.Reader()
	if err != nil {
		return nil, fmt.Errorf("encoding the commit: %w", err)
	}
	return io.ReadAll(reader)
}

// rootOf returns the tree of a raw commit.
func rootOf(commit []byte) (plumbing.Hash, error) {
	const line = "tree "
	size := hex.EncodedLen(hashSize)
	if len(commit) < len(line)+size || string(commit[:len(line)]) != line {
		return plumbing.ZeroHash, errors.New("a commit of the repository is damaged")
	}
	return plumbing.NewHash(string(commit[len(line):][:size])), nil
}

// parentOf returns the first parent of a raw commit, or zero.
func parentOf(commit []byte) plumbing.Hash {
	if parents := parentsOf(commit); len(parents) > 0 {
		return parents[0]
	}
	return plumbing.ZeroHash
}

// parseCommit parses the identifier of a commit.
func parseCommit(id string) (plumbing.Hash, error) {
	if !plumbing.IsHash(id) {
		return plumbing.ZeroHash, fmt.Errorf("%.60q is not the identifier of a commit", id)
	}
	return plumbing.NewHash(id), nil
}

// lastTime is the latest time that JSON can contain (RFC 3339). Git accepts later dates.
var lastTime = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// readCommit parses a raw commit. Fields that are absent or malformed are empty, since other programs
// have written commits too.
func readCommit(id plumbing.Hash, raw []byte) branch.Commit {
	header, message, _ := bytes.Cut(raw, []byte("\n\n"))
	c := branch.Commit{ID: id.String(), Message: string(message)}
	for _, h := range parentsOf(raw) {
		c.Parents = append(c.Parents, h.String())
	}
	if root, err := rootOf(raw); err == nil {
		c.Tree = root.String()
	}
	for line := range bytes.Lines(header) {
		key, value, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		var who object.Signature
		switch string(key) {
		case "author":
			who.Decode(value)
			c.Author, c.Email = who.Name, who.Email
		case "committer":
			who.Decode(value)
			if c.At = who.When.UTC(); c.At.Year() < 0 || c.At.Year() > lastTime.Year() { // the largest overflow
				c.At = lastTime
			}
		}
	}
	return c
}

// parentsOf returns all parents of a raw commit.
func parentsOf(commit []byte) []plumbing.Hash {
	header, _, _ := bytes.Cut(commit, []byte("\n\n"))
	var parents []plumbing.Hash
	for line := range bytes.Lines(header) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if name, ok := bytes.CutPrefix(line, []byte("parent ")); ok && plumbing.IsHash(string(name)) {
			parents = append(parents, plumbing.NewHash(string(name)))
		}
	}
	return parents
}

// commitCutter reads a commit that exceeds the size limit, so that its history stays readable. It
// computes the identifier, and keeps the beginning of the commit.
type commitCutter struct {
	hasher plumbing.Hasher
	kept   []byte
}

func newCommitCutter(size int64) *commitCutter {
	return &commitCutter{hasher: plumbing.NewHasher(plumbing.CommitObject, size)}
}

// maxBeginning is the number of bytes kept of a large commit, and maxSubject that of its subject.
const maxBeginning, maxSubject = 64 << 10, 1 << 10

// Write implements [io.Writer].
func (c *commitCutter) Write(data []byte) (int, error) {
	c.kept = append(c.kept, data[:min(len(data), maxBeginning-len(c.kept))]...)
	return c.hasher.Write(data)
}

// cut returns the commit with its header and its subject. It has no trailers, so muster is not its
// author. It returns false if the kept part ends before the author's line. If it ends in that line,
// the commit has no time and no subject.
func (c *commitCutter) cut() ([]byte, bool) {
	header, message, _ := bytes.Cut(c.kept, []byte("\n\n"))
	subject, _, _ := bytes.Cut(message, []byte("\n"))
	subject = bytes.ToValidUTF8(subject[:min(len(subject), maxSubject)], nil)
	return fmt.Appendf(nil, "%s\n\n%s\n", header, subject), bytes.Contains(header, []byte("\nauthor "))
}
