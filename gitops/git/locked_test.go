package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/gitserver"
)

// TestLockedBranch: who comes while another writer's push holds the branch tries again, and
// is told in the host's words of a lock that stays.
func TestLockedBranch(t *testing.T) {
	t.Parallel()
	onEveryHost(t, func(t *testing.T, r gitserver.Repository, c git.Config) {
		past(t, r, 3)
		b := open(t, c)
		head := headOf(t, b)
		lock := filepath.Join(r.Dir, "refs", "heads", "main.lock")
		if err := os.WriteFile(lock, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(300*time.Millisecond, func() { _ = os.Remove(lock) })
		if err := push(t, b, &head, "more"); err != nil {
			t.Fatalf("while the branch was locked: %v", err)
		}
		if err := os.WriteFile(lock, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		err := push(t, b, &head, "again")
		if err == nil || errors.Is(err, branch.ErrMoved) || !strings.Contains(err.Error(), "ref") {
			t.Errorf("of a lock that stays: %v", err)
		}
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
		head = headOf(t, b)
		if err := push(t, b, &head, "after all"); err != nil {
			t.Error(err)
		}
	})
}
