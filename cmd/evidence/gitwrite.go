package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/storage/memory"

	"muster/gitops/git"
	"muster/gitops/git/remote"
)

// branchPrefix begins the names of the branches that live creates.
const branchPrefix = "muster-live/"

// gitBeliefs are the beliefs that pushes to a branch of the run show.
var gitBeliefs = []string{"git-compare-and-swap", "git-conflict-words", "git-file-size", "git-report-status"}

// The file and the directory that a host must accept.
const (
	largeFile = 4 << 20
	manyFiles = 2000
)

// newCommit returns a commit of a run, and a pack with it and its files. A large one has the largest file that muster
// writes, and a directory with many.
func newCommit(id, subject string, at time.Time, parent plumbing.Hash, large bool) (plumbing.Hash, []byte, error) {
	var all []plumbing.Hash
	var failed error
	store := memory.NewStorage()
	add := func(kind plumbing.ObjectType, encode func(plumbing.EncodedObject) error) plumbing.Hash {
		o := store.NewEncodedObject()
		o.SetType(kind)
		err := encode(o)
		h, stored := store.SetEncodedObject(o)
		failed = errors.Join(failed, err, stored)
		all = append(all, h)
		return h
	}
	file := func(content []byte) plumbing.Hash {
		return add(plumbing.BlobObject, func(o plumbing.EncodedObject) error {
			w, err := o.Writer()
			if err == nil {
				_, err = w.Write(content)
			}
			return err
		})
	}
	tree := func(entries ...object.TreeEntry) plumbing.Hash {
		return add(plumbing.TreeObject, (&object.Tree{Entries: entries}).Encode)
	}
	small := file([]byte(marker(id) + ".\n"))
	entries := []object.TreeEntry{{Name: "README", Mode: filemode.Regular, Hash: small}}
	if large {
		var many []object.TreeEntry
		for i := range manyFiles {
			many = append(many, object.TreeEntry{Name: fmt.Sprintf("%04d", i), Mode: filemode.Regular, Hash: small})
		}
		entries = append(entries,
			object.TreeEntry{Name: "large", Mode: filemode.Regular, Hash: file(bytes.Repeat([]byte("muster live\n\x00\x01\x02\x03"), largeFile/16))},
			object.TreeEntry{Name: "many", Mode: filemode.Dir, Hash: tree(many...)})
	}
	who := object.Signature{Name: "muster-sim live", Email: "muster@localhost", When: at.UTC().Truncate(time.Second)}
	commit := object.Commit{Author: who, Committer: who, Message: subject + "\n\n[skip ci]\n" + marker(id) + ".\n", TreeHash: tree(entries...)}
	if !parent.IsZero() {
		commit.ParentHashes = []plumbing.Hash{parent}
	}
	head := add(plumbing.CommitObject, commit.Encode)
	var pack bytes.Buffer
	_, err := packfile.NewEncoder(&pack, store, false).Encode(all, 0)
	return head, pack.Bytes(), errors.Join(failed, err)
}

// sweepGit deletes the branches that this run and earlier ones have created. It returns what remains.
func (w *writer) sweepGit(ctx context.Context, earlier bool) (left []string) {
	if w.git.Connection == nil {
		return nil
	}
	remains := func(name string, err error) {
		left = append(left, fmt.Sprintf("the branch %s (%s): git push REPOSITORY --delete %[1]s", name, w.git.Printable(err.Error())))
	}
	session, adv, err := w.git.Advertised(ctx)
	if err != nil {
		remains(branchPrefix+w.Write.ID, err)
		return left
	}
	_ = session.Close()
	for ref, head := range adv.References {
		name := strings.TrimPrefix(ref, "refs/heads/")
		id, ok := strings.CutPrefix(name, branchPrefix)
		if !ok || name == ref {
			continue
		}
		var all []packed
		if err := w.git.fetch(ctx, w.git.commitRequest(head), &all); err != nil {
			remains(name, err)
			continue
		}
		ours := false
		for _, o := range all {
			ours = ours || plumbing.ComputeHash(o.kind, o.content) == head && strings.Contains(string(o.content), "\n"+marker(id)+".\n")
		}
		if !ours {
			continue
		}
		if earlier {
			w.log("Removing the branch that an earlier run left: " + name)
		}
		if _, err := git.Move(ctx, w.git.Connection, name, head, plumbing.ZeroHash, nil); err != nil {
			remains(name, err)
		}
	}
	return left
}

// commitRequest requests a commit, alone if the server can.
func (g gitHost) commitRequest(commit plumbing.Hash) remote.Request {
	request := remote.Request{Wants: []plumbing.Hash{commit}, Depth: 1, Max: mostObjects}
	if g.Caps != nil && g.Caps.Supports(capability.Filter) {
		request.Filter = remote.Exact
	}
	return request
}

// pushes creates a branch, and checks which pushes move it.
func (w *writer) pushes(ctx context.Context) {
	defer w.missing("no GitHub App is given, or its branch cannot be created", gitHubBeliefs...)
	if w.git.Connection == nil {
		w.missing("no repository is given", gitBeliefs...)
		return
	}
	w.Doing("pushing to a branch of its own")
	name := branchPrefix + w.Write.ID
	var commits [4]plumbing.Hash
	var packs [4][]byte
	for i, parent := range []int{-1, 0, 0, 1} { // the third competes with the second
		from := plumbing.ZeroHash
		if parent >= 0 {
			from = commits[parent]
		}
		var err error
		if commits[i], packs[i], err = newCommit(w.Write.ID, fmt.Sprintf("Test push %d", i+1), w.started, from, i == 3); err != nil {
			w.missing("a pack cannot be written", gitBeliefs...)
			return
		}
	}
	var reported tally
	// push pushes a commit on top of another one. It reports whether the branch has it then.
	push := func(old plumbing.Hash, i int) (moved bool, answer error, err error) {
		answered, failed := git.Move(ctx, w.git.Connection, name, old, commits[i], packs[i])
		if failed != nil && !answered {
			return false, nil, failed
		}
		head, session, err := w.git.HeadOf(ctx, name)
		if session != nil {
			_ = session.Close()
		}
		if err != nil && !errors.Is(err, remote.ErrNoBranch) {
			return false, failed, err
		}
		moved = head == commits[i]
		if failed == nil || moved {
			reported.add(moved && failed == nil, "a push is reported as successful: %t; the branch has it: %t", failed == nil, moved)
		}
		return moved, failed, nil
	}
	defer func() {
		session, adv, err := w.git.Advertised(ctx)
		if session != nil {
			_ = session.Close()
		}
		if err != nil || len(adv.Capabilities.Get(capability.Agent)) == 0 {
			w.missing("the server does not advertise its agent", "git-report-status")
			return
		}
		w.found["git-report-status"] = reported.finding("successful report", "of a push that the branch has", "no push succeeded")
	}()
	for i, old := range []plumbing.Hash{plumbing.ZeroHash, commits[0]} {
		moved, refused, err := push(old, i)
		switch {
		case err != nil:
			w.missing("a push failed", gitBeliefs...)
			return
		case refused != nil || !moved:
			w.missing("the host does not accept a push to the branch "+branchPrefix+"...", gitBeliefs[:3]...)
			return
		}
	}
	words := 0
	for _, old := range []plumbing.Hash{commits[0], plumbing.ZeroHash} {
		moved, refused, err := push(old, 2)
		switch {
		case err != nil:
			w.missing("a push failed", gitBeliefs[:3]...)
			return
		case moved:
			w.found["git-compare-and-swap"] = contradicted("a push moves the branch that names another commit as the old one, or none")
			w.missing("no push was refused", "git-conflict-words")
			return
		case refused == nil:
			continue // see reported
		case remote.StaleHead.Match(refused.Error()) || remote.LockedByPush.Match(refused.Error()):
			words++
		default:
			w.found["git-conflict-words"] = contradicted("the refusal of a push with another old commit has other words")
		}
	}
	w.found["git-compare-and-swap"] = confirmed("two pushes that name another old commit, or none, do not move the branch")
	if words == 2 {
		w.missingConfirmed("git-conflict-words", "two refusals in known words")
	}
	w.missing("no push was refused", "git-conflict-words")
	switch moved, refused, err := push(commits[1], 3); {
	case err != nil:
		w.missing("a push failed", "git-file-size")
	case refused != nil:
		w.found["git-file-size"] = contradicted("the host refuses a file of 4 MiB, or a directory with %d files", manyFiles)
	case moved:
		w.found["git-file-size"] = confirmed("the host accepts a file of 4 MiB, and a directory with %d files", manyFiles)
	}
	w.missing("the push has no result", "git-file-size")
	w.gitHub(ctx, name, commits[0])
}
