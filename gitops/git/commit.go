package git

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"muster/gitops/branch"
)

// author is who makes commits, and how they are signed.
type author struct {
	name, email string
	sign        Signer // nil: not at all
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
	var raw bytes.Buffer
	_, err = raw.ReadFrom(reader)
	return raw.Bytes(), err
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

// parentOf returns the first parent of a raw commit; false: it has none.
func parentOf(commit []byte) (plumbing.Hash, bool) {
	const line = "\nparent "
	size := hex.EncodedLen(hashSize)
	header, _, _ := bytes.Cut(commit, []byte("\n\n"))
	at := bytes.Index(header, []byte(line))
	if at < 0 || at+len(line)+size > len(header) {
		return plumbing.ZeroHash, false
	}
	return plumbing.NewHash(string(header[at+len(line):][:size])), true
}

// parseCommit reads the identifier of a commit.
func parseCommit(id string) (plumbing.Hash, error) {
	if !plumbing.IsHash(id) {
		return plumbing.ZeroHash, fmt.Errorf("%.60q is not the identifier of a commit", id)
	}
	return plumbing.NewHash(id), nil
}

// pastCommit is a commit of the history.
type pastCommit struct {
	branch.Commit
	parents []plumbing.Hash
}

// readCommit reads a raw commit. What it does not say, or not as git does, is
// left empty: a history has what other programs have ever written.
func readCommit(id plumbing.Hash, raw []byte) *pastCommit {
	header, message, _ := bytes.Cut(raw, []byte("\n\n"))
	c := &pastCommit{Commit: branch.Commit{ID: id.String(), Message: string(message)}, parents: parentsOf(raw)}
	for _, h := range c.parents {
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
			c.At = who.When.UTC()
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
