package git

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os/exec"
	"strconv"
	"strings"

	"muster/gitops/branch"
	"muster/gitops/git/remote"

	"github.com/go-git/go-git/v5/plumbing"
)

// catFile reads objects of a local repository with one git process, which the first read starts. It is
// not safe for concurrent use.
type catFile struct {
	dir    string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *remote.Tail
}

// start starts the process, which outlives the context of the first read.
func (c *catFile) start() error {
	var err error
	if c.cmd, err = remote.Command(context.Background(), c.dir, nil, "cat-file", "--batch"); err != nil {
		return err
	}
	c.stderr = &remote.Tail{}
	c.cmd.Stderr = c.stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	c.out = bufio.NewReaderSize(out, 64<<10)
	return c.cmd.Start()
}

// object returns an object, whose identifier is verified. The error is [branch.ErrMissing] if the
// repository lacks it.
func (c *catFile) object(ctx context.Context, h plumbing.Hash) (rawObject, error) {
	if err := ctx.Err(); err != nil {
		return rawObject{}, err
	}
	if c.cmd == nil {
		if err := c.start(); err != nil {
			c.cmd = nil
			return rawObject{}, err
		}
	}
	process := c.cmd.Process
	stop := context.AfterFunc(ctx, func() { _ = process.Kill() })
	defer stop()
	o, err := c.ask(h)
	if err != nil && !errors.Is(err, branch.ErrMissing) && !errors.Is(err, errTooLarge) {
		c.close() // its next output may be anything
	}
	return o, err
}

func (c *catFile) ask(h plumbing.Hash) (rawObject, error) {
	if _, err := fmt.Fprintln(c.in, h); err != nil {
		return rawObject{}, c.ended(err)
	}
	name, o, err := readObject(c.out)
	switch {
	case errors.Is(err, errAnswer):
		return rawObject{}, err
	case name != h && (err == nil || name != plumbing.ZeroHash):
		return rawObject{}, fmt.Errorf("%w object %s in place of %s", errAnswer, name, h)
	case errors.Is(err, branch.ErrMissing), errors.Is(err, errTooLarge), errors.Is(err, errObject):
		return rawObject{}, err
	case err != nil:
		return rawObject{}, c.ended(err)
	}
	return o, nil
}

var (
	// errAnswer is returned if git cat-file responds in another format.
	errAnswer = errors.New("git cat-file says")
	// errObject is returned if an object does not match its identifier.
	errObject = errors.New("git fsck says more")
)

// readObject reads one answer of git cat-file --batch: an object and its name, which is the
// hash that readObject computes from the content. It cuts a commit that is too large. The
// error is errAnswer, errObject, [branch.ErrMissing], errTooLarge, or that of reading.
func readObject(from *bufio.Reader) (plumbing.Hash, rawObject, error) {
	line, err := from.ReadString('\n')
	if err != nil {
		return plumbing.ZeroHash, rawObject{}, err
	}
	words := strings.Fields(line)
	if len(words) < 2 || len(words) > 3 || !plumbing.IsHash(words[0]) {
		return plumbing.ZeroHash, rawObject{}, fmt.Errorf("%w %.80q", errAnswer, line)
	}
	name := plumbing.NewHash(words[0])
	if len(words) == 2 && words[1] == "missing" {
		return name, rawObject{}, fmt.Errorf("object %s: %w", name, branch.ErrMissing)
	}
	kind, kindErr := plumbing.ParseObjectType(words[1])
	size, sizeErr := strconv.ParseInt(words[len(words)-1], 10, 64)
	if kindErr != nil || sizeErr != nil || size < 0 {
		return name, rawObject{}, fmt.Errorf("%w %.80q", errAnswer, line)
	}
	if size > maxObject && kind == plumbing.CommitObject {
		commit := newCommitCutter(size)
		if _, err := io.CopyN(commit, from, size); err != nil {
			return name, rawObject{}, err
		}
		if _, err := from.Discard(1); err != nil {
			return name, rawObject{}, err
		}
		if commit.hasher.Sum() != name {
			return name, rawObject{}, fmt.Errorf("object %s is damaged: %w", name, errObject)
		}
		data, ok := commit.cut()
		if !ok {
			return name, rawObject{}, fmt.Errorf("%w: it has %d bytes", errTooLarge, size)
		}
		return name, rawObject{kind, data}, nil
	}
	if size > maxObject {
		if _, err := io.CopyN(io.Discard, from, size+1); err != nil {
			return name, rawObject{}, err
		}
		return name, rawObject{}, fmt.Errorf("%w: it has %d bytes", errTooLarge, size)
	}
	data := make([]byte, size+1)
	if _, err := io.ReadFull(from, data); err != nil {
		return name, rawObject{}, err
	}
	data = data[:size:size]
	if plumbing.ComputeHash(kind, data) != name {
		return name, rawObject{}, fmt.Errorf("object %s is damaged: %w", name, errObject)
	}
	return name, rawObject{kind, data}, nil
}

// ended returns the error of a process that has exited.
func (c *catFile) ended(err error) error {
	_ = c.cmd.Wait()
	if message := strings.TrimSpace(c.stderr.String()); message != "" {
		return errors.New(message)
	}
	return fmt.Errorf("git cat-file has ended: %w", err)
}

func (c *catFile) close() {
	if c.cmd == nil {
		return
	}
	_ = c.in.Close()
	_, _ = io.Copy(io.Discard, c.out)
	_ = c.cmd.Wait()
	c.cmd = nil
}

// takeLocal keeps objects of a local repository.
func (a *PastTrees) takeLocal(ctx context.Context, hashes []plumbing.Hash) error {
	s := a.store
	for _, h := range hashes {
		o, err := a.local.object(ctx, h)
		if errors.Is(err, errTooLarge) {
			s.large[h] = maxObject + 1
		}
		if err != nil {
			return err
		}
		switch o.kind {
		case plumbing.TreeObject:
			t, err := parseTree(o.data)
			if err != nil {
				return err
			}
			s.addTree(h, t)
		case plumbing.BlobObject:
			if s.size += len(o.data); s.size > maxKept {
				clear(s.blobs)
				s.size = len(o.data)
			}
			s.blobs[h] = o.data
		default:
			return fmt.Errorf("object %s is a %s", h, o.kind)
		}
	}
	return nil
}

// localCommits yields a commit of a local repository and its ancestors in the order of git rev-list:
// the newest first. Two git processes read them, which costs a fifth of a server that makes packs. A
// shallow history ends at its boundary.
func localCommits(ctx context.Context, dir string, from plumbing.Hash, most int) iter.Seq2[branch.Commit, error] {
	return func(yield func(branch.Commit, error) bool) {
		w := &walk{dir: dir}
		defer w.close()
		if err := w.start(ctx, from, most); err != nil {
			yield(branch.Commit{}, err)
			return
		}
		for {
			name, o, err := readObject(w.out)
			switch {
			case ctx.Err() != nil:
				err = ctx.Err()
			case errors.Is(err, io.ErrUnexpectedEOF):
				err = cmp.Or(w.end(), err)
			case errors.Is(err, io.EOF):
				if err = w.end(); err == nil {
					return
				}
			}
			if err == nil && o.kind != plumbing.CommitObject {
				err = fmt.Errorf("object %s is a %s", name, o.kind)
			}
			if err != nil {
				yield(branch.Commit{}, err)
				return
			}
			if !yield(readCommit(name, o.data), nil) {
				return
			}
		}
	}
}

// walk is git rev-list, which lists commits, and git cat-file, which reads them.
type walk struct {
	dir        string
	list, read *exec.Cmd
	out        *bufio.Reader
	stderr     remote.Tail
}

// start starts both processes.
func (w *walk) start(ctx context.Context, from plumbing.Hash, most int) error {
	list := []string{"rev-list"}
	if most > 0 {
		list = append(list, fmt.Sprintf("--max-count=%d", most))
	}
	var err error
	if w.list, err = remote.Command(ctx, w.dir, nil, append(list, from.String(), "--")...); err != nil {
		return err
	}
	if w.read, err = remote.Command(ctx, w.dir, nil, "cat-file", "--batch", "--buffer"); err != nil {
		return err
	}
	w.list.Stderr, w.read.Stderr = &w.stderr, &w.stderr
	names, err := w.list.StdoutPipe()
	if err != nil {
		return err
	}
	w.read.Stdin = names // a file: no copying in between
	out, err := w.read.StdoutPipe()
	if err != nil {
		return err
	}
	w.out = bufio.NewReaderSize(out, 64<<10)
	if err := w.list.Start(); err != nil {
		return err
	}
	// Only git cat-file holds the pipe then: git rev-list ends when it does.
	return errors.Join(w.read.Start(), names.Close())
}

// end waits for the processes and returns their error.
func (w *walk) end() error {
	err := errors.Join(w.read.Wait(), w.list.Wait())
	w.read, w.list = nil, nil
	if message := strings.TrimSpace(w.stderr.String()); err != nil && message != "" {
		return errors.New(message)
	}
	return err
}

// close kills running processes.
func (w *walk) close() {
	for _, c := range []*exec.Cmd{w.list, w.read} {
		if c != nil && c.Process != nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
}
