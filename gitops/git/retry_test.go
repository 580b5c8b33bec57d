package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"muster/gitops/branch"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
)

// ended is a session that was kept open, and that the server or a proxy has ended.
type ended struct {
	transport.UploadPackSession
	err error
}

func (s ended) UploadPack(context.Context, *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	return nil, s.err
}

// TestFetchRepeatsAfterLostConnection: where a connection has ended that was kept, reading asks once more,
// on another; after any other error, and where the time is over, it does not.
func TestFetchRepeatsAfterLostConnection(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	_, err := r.Commit("begin\n", time.Unix(0, 0), branch.Change{Path: "deploy/a/scaling.yaml", Content: []byte("a\n")})
	must(t, err)
	b, head := begun(t, Config{URL: r.Dir})
	over, stop := context.WithCancel(t.Context())
	stop()
	// As net/http says it.
	written := func(err error) error {
		return &url.Error{Op: "Post", URL: "https://git.example.com/fleet.git/git-upload-pack", Err: &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", err)}}
	}
	for _, c := range []struct {
		ctx   context.Context
		err   error
		again bool
	}{
		{t.Context(), fmt.Errorf("reading: %w", io.EOF), true},
		{t.Context(), fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), true},
		{t.Context(), written(syscall.ECONNRESET), true},
		{t.Context(), written(syscall.EPIPE), true},
		{t.Context(), written(syscall.ECONNREFUSED), false},
		{over, written(syscall.EPIPE), false},
	} {
		got, err := b.server.Fetch(c.ctx, ended{err: c.err}, remote.Request{Wants: []plumbing.Hash{plumbing.NewHash(head.Commit)}, Depth: 1})
		if err == nil {
			got.Close()
		}
		if c.again != (err == nil) || err != nil && !errors.Is(err, errors.Unwrap(c.err)) {
			t.Errorf("%v: %v, want to be asked once more: %t", c.err, err, c.again)
		}
	}
}

// TestComparesOnly asserts that messages about a branch that has moved are distinguished from refusals.
func TestComparesOnly(t *testing.T) {
	for words, want := range map[string]bool{
		"command error on refs/heads/main: failed to update ref":                        true, // git to 2.49
		"command error on refs/heads/main: incorrect old value provided":                true, // git from 2.50
		"command error on refs/heads/main: atomic transaction failed":                   true,
		"command error on refs/heads/main: invalid old id sent":                         true, // JGit
		"command error on refs/heads/main: already exists":                              true, // JGit, of a branch with one commit
		"command error on refs/heads/main: cannot lock ref 'refs/heads/main': is at 12": true,
		"command error on refs/heads/main: pre-receive hook declined":                   false,
		"command error on refs/heads/main: hook declined":                               false,
		"command error on refs/heads/main: protected branch hook declined":              false,
		"command error on refs/heads/main: deny updating a hidden ref":                  false,
		"the server did not report the result of the push":                              false,
	} {
		if got := comparesOnly(errors.New(words)); got != want {
			t.Errorf("%s: %t", words, got)
		}
	}
	if comparesOnly(&remote.Answer{Status: http.StatusForbidden, Words: "failed to update ref"}) {
		t.Error("a status of HTTP's is no comparison")
	}
}
