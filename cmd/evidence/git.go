package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"muster/gitops/branch"
	"muster/gitops/git/remote"
)

// gitChecks compare beliefs with the responses of the git host. Each sends its own requests.
var gitChecks = []struct {
	id      string
	compare func(context.Context, gitHost) finding
}{
	{"git-credentials-status", checkCredentials},
	{"git-fetch-refusals", checkFetchRefusal},
	{"git-ls-refs", checkLsRefs},
	{"git-missing-words", checkMissing},
	{"git-partial-clone", checkPartialClone},
}

// gitHost is the server of the fleet repository.
type gitHost struct {
	*remote.Connection
	branch string
	head   plumbing.Hash
}

// openGit reads the head of the branch. An error means that the repository cannot be read.
func openGit(ctx context.Context, c Config) (gitHost, error) {
	if c.Git == nil {
		return gitHost{}, nil
	}
	c.Doing("reading the fleet repository")
	head, session, err := c.Git.HeadOf(ctx, c.Branch)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) { // a host may make the first branch its default, and keep it
		err = fmt.Errorf("%w: push a first commit to branch %q", remote.ErrEmpty, c.Branch)
	}
	if err != nil {
		return gitHost{}, c.Git.Fail("reading", err)
	}
	if session != nil {
		_ = session.Close()
	}
	return gitHost{c.Git, c.Branch, head}, nil
}

// read adds the findings of the git host. Its error is that of the context.
func (g gitHost) read(ctx context.Context, c Config, found map[string]finding) error {
	c.Doing("reading the git host")
	for _, check := range gitChecks {
		found[check.id] = unreachable("no repository is given")
		if g.Connection != nil {
			found[check.id] = check.compare(ctx, g)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// unreached reports whether an error is one of the connection, which is about no belief.
func unreached(err error, host string) bool {
	var a *remote.Answer
	return branch.NetworkProblem(err, host, "") != "" || errors.As(err, &a) && a.Limits() || errors.Is(err, context.DeadlineExceeded)
}

// status returns the meaning of an error of a request.
func (g gitHost) status(err error) string {
	var a *remote.Answer
	switch {
	case err == nil:
		return "a success"
	case errors.Is(err, transport.ErrAuthenticationRequired):
		return "401"
	case errors.Is(err, transport.ErrAuthorizationFailed):
		return "403"
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return "not found"
	case errors.As(err, &a):
		return fmt.Sprint(a.Status)
	}
	return "an error in other words"
}

func checkCredentials(ctx context.Context, g gitHost) finding {
	if !g.OverHTTP() {
		return unreachable("the repository is not read over https")
	}
	other := g.Fork()
	other.Credentials.Password, other.Credentials.Refused = remote.StaticPassword("git", missingName), nil
	_, session, err := other.HeadOf(ctx, g.branch)
	if session != nil {
		_ = session.Close()
	}
	switch status := g.status(err); {
	case err == nil:
		return unreachable("the host lets everybody read the repository")
	case unreached(err, g.Address.HostPort()):
		return unreachable("a request failed")
	case status != "401":
		return contradicted("an invalid password has the status %s", status)
	}
	return confirmed("an invalid password has the status 401")
}

func checkMissing(ctx context.Context, g gitHost) finding {
	other, err := g.Neighbor("-" + missingName)
	if err != nil {
		return unreachable("the address has no neighbor")
	}
	_, session, err := other.HeadOf(ctx, g.branch)
	if session != nil {
		_ = session.Close()
	}
	switch status := g.status(err); {
	case unreached(err, g.Address.HostPort()):
		return unreachable("a request failed")
	case status == "401" && other.Credentials.Password == nil && other.Address.Password == "":
		return unreachable("the host requires a password before it answers")
	case status != "not found":
		return contradicted("the response to a missing repository is %s", status)
	case g.OverHTTP():
		return confirmed("a missing repository has the status 404")
	}
	return confirmed("the response to a missing repository has known words")
}

func checkFetchRefusal(ctx context.Context, g gitHost) finding {
	err := g.fetch(ctx, remote.Request{Wants: []plumbing.Hash{plumbing.NewHash(strings.Repeat("0123456789", 4))}, Depth: 1}, nil)
	switch {
	case errors.Is(err, remote.ErrNotOurs), remote.RefusesRequest(err):
		return confirmed("an object that does not exist is refused in known words, or by a status")
	case unreached(err, g.Address.HostPort()):
		return unreachable("a request failed")
	}
	return contradicted("the response to a request for an object that does not exist is %s", g.status(err))
}

func checkLsRefs(ctx context.Context, g gitHost) finding {
	prefix := "refs/heads/" + strings.TrimPrefix(g.branch, "refs/heads/")
	var t tally
	err := g.ListRefs(ctx, prefix, func(name string, _ plumbing.Hash) bool {
		t.add(strings.HasPrefix(name, prefix), "a ref that does not begin with the prefix is listed")
		return true
	})
	if err != nil {
		return unreachable("the server does not answer in version 2 of the protocol")
	}
	return t.finding("ref", "with the prefix, and none without", "no ref begins with the prefix")
}

func checkPartialClone(ctx context.Context, g gitHost) finding {
	for _, wanted := range []capability.Capability{capability.Filter, capability.AllowReachableSHA1InWant} {
		if g.Caps == nil || !g.Caps.Supports(wanted) {
			return unreachable("the server does not offer " + wanted.String())
		}
	}
	var root plumbing.Hash
	for _, part := range []struct {
		what    string
		request remote.Request
		agrees  func([]packed) bool
	}{
		{"a commit alone", remote.Request{Wants: []plumbing.Hash{g.head}, Depth: 1, Filter: remote.Exact}, func(all []packed) bool {
			if len(all) != 1 || all[0].kind != plumbing.CommitObject {
				return false
			}
			line, _, _ := strings.Cut(string(all[0].content), "\n")
			root = plumbing.NewHash(strings.TrimPrefix(line, "tree "))
			return !root.IsZero()
		}},
		{"a tree alone", remote.Request{Wants: []plumbing.Hash{}, Filter: remote.Exact}, func(all []packed) bool {
			return len(all) == 1 && all[0].kind == plumbing.TreeObject && plumbing.ComputeHash(plumbing.TreeObject, all[0].content) == root
		}},
		{"blob:limit", remote.Request{Wants: []plumbing.Hash{}, Filter: "blob:limit=1"}, func(all []packed) bool {
			for _, o := range all {
				if o.kind == plumbing.BlobObject && len(o.content) > 0 {
					return false
				}
			}
			return len(all) > 0
		}},
	} {
		if !root.IsZero() {
			part.request.Wants = []plumbing.Hash{root}
		}
		part.request.Max = mostObjects
		var all []packed
		err := g.fetch(ctx, part.request, &all)
		switch {
		case err != nil && unreached(err, g.Address.HostPort()):
			return unreachable("a request failed")
		case err != nil && !errors.Is(err, remote.ErrTooMany):
			return contradicted("the response to a request for %s is %s", part.what, g.status(err))
		case err != nil || !part.agrees(all):
			return contradicted("a request for %s returns other objects, too", part.what)
		}
	}
	return confirmed("the server sends a commit and a tree alone, and leaves out files")
}

// mostObjects limits the objects of a response.
const mostObjects = 10000

// packed is an object of a pack. The content of a delta is unknown.
type packed struct {
	kind    plumbing.ObjectType
	content []byte
}

// fetch sends a request, and reads the objects of the pack into all unless that is nil.
func (g gitHost) fetch(ctx context.Context, request remote.Request, all *[]packed) error {
	pack, err := g.Fetch(ctx, nil, request)
	if err != nil || all == nil {
		pack.Close()
		return err
	}
	defer pack.Close()
	s := packfile.NewScanner(io.NewSectionReader(pack, 0, pack.Size))
	_, count, err := s.Header()
	for range count {
		if err != nil {
			return err
		}
		var header *packfile.ObjectHeader
		if header, err = s.NextObjectHeader(); err != nil {
			return err
		}
		var content bytes.Buffer
		_, _, err = s.NextObject(&content)
		*all = append(*all, packed{header.Type, content.Bytes()})
	}
	return err
}
