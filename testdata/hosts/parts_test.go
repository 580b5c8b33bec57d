package hosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/generator"
	"muster/gitops"
	"muster/gitops/branch"
)

// writable is the question that check asks: it leaves no trace, and those who may not
// write are found out, where the host has such users.
func (y *story) writable() {
	head, refs := y.head(), y.refs()
	switch err := y.repo.Writable(y.t.Context()); {
	case errors.Is(err, branch.ErrUnproven):
		y.row.proves = "user"
	case err != nil:
		y.t.Errorf("who may write: %v", err)
	default:
		y.row.proves = "user and branch"
	}
	if knows := y.row.proves == "user and branch"; knows == y.row.headFirst {
		y.t.Errorf("check can test the branch's rules: %t", knows)
	}
	for who, c := range map[string]*gitops.Config{"who may only read": y.place.reader, "whom the branch's rules keep off": y.place.kept} {
		if c == nil {
			continue
		}
		if err := open(y.t, *c).Writable(y.t.Context()); err == nil || errors.Is(err, branch.ErrUnproven) {
			y.t.Errorf("%s: %v", who, err)
		} else {
			y.t.Logf("%s: %v", who, err)
		}
	}
	if y.head() != head || y.refs() != refs {
		y.t.Errorf("the question left a trace: %s, was %s", y.refs(), refs)
	}
}

// refs are all that the repository has, and what they were before.
func (y *story) refs() string {
	y.t.Helper()
	refs, err := y.place.Git("for-each-ref")
	must(y.t, err)
	log, _ := y.place.Git("reflog", "show", "main") // a bare repository has none, usually
	return refs + log
}

// twentyTicks orders something in each, and measures them.
func (y *story) twentyTicks() {
	head := y.head()
	var took []time.Duration
	var pushes int64
	for range 20 {
		y.build(1)
		before, began := y.repo.Stats(), time.Now()
		result := y.tick(3 * time.Minute)
		if len(result.Operations) == 0 {
			continue
		}
		after := y.repo.Stats()
		took = append(took, time.Since(began))
		pushes++
		y.row.requests += after.Requests - before.Requests
		y.row.sent += after.Sent - before.Sent
		y.row.received += after.Received - before.Received
	}
	if pushes == 0 {
		y.t.Fatal("nothing was committed")
	}
	out, err := y.place.Git("rev-list", "--count", head+"..main")
	must(y.t, err)
	if got := strings.TrimSpace(out); got == "0" {
		y.t.Error("no commits")
	}
	most := int64(3) // read the head, read what the server of pushes advertises, push
	if !y.row.offers.write["agent"] {
		most++ // read the head again: the server's report is unreliable
	}
	if y.row.requests > most*pushes {
		y.t.Errorf("%d requests for %d pushes", y.row.requests, pushes)
	}
	slices.Sort(took)
	y.row.pushes, y.row.took = pushes, took[len(took)/2]
}

// note is a commit that adds a file.
func note(file string) branch.Draft {
	return branch.Draft{Message: "note\n", At: time.Now(), Changes: []branch.Change{{Path: file, Content: []byte(file)}}}
}

// rival is another writer, who pushes ten times a second through the same host, or as often
// as half of the time allows: muster's commits land, and nothing is an error.
func (y *story) rival() {
	other := open(y.t, y.place.config)
	ctx, stop := context.WithCancel(y.t.Context())
	defer stop()
	began := time.Now()
	var running sync.WaitGroup
	var theirs atomic.Int64
	var pushed, ours []string
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			pushing := time.Now()
			tip, err := other.Head(ctx)
			if err == nil {
				tip, err = other.Push(ctx, tip, []branch.Draft{note(fmt.Sprintf("notes/%d", i))})
			}
			if err == nil {
				theirs.Add(1)
				pushed = append(pushed, tip.Commit)
			} else if !errors.Is(err, branch.ErrMoved) && ctx.Err() == nil {
				y.t.Logf("the rival: %v", err) // who is not muster's, and tries again
			}
			// Ten times a second, and half of the time where the host takes longer: of two who do
			// nothing but push, the one who has nothing to decide is always first.
			time.Sleep(max(100*time.Millisecond, time.Since(pushing)))
		}
	})
	last := time.Now()
	y.onTick = func(result generator.Result) {
		must(y.t, y.cluster.Sync(result.Head.Tree, "overlays/default"))
		if len(result.Operations) > 0 {
			y.row.landed++
			ours = append(ours, result.Head.Commit)
			y.row.gap = max(y.row.gap, time.Since(last))
			last = time.Now()
		}
		y.build(1)
		if y.row.landed > 0 && theirs.Load() > 0 && time.Since(began) > *rivalTime { // a slow host has longer
			stop()
		}
	}
	must(y.t, y.ticks.Run(ctx, time.Second, 0))
	y.onTick = nil
	running.Wait()
	y.row.gap = max(y.row.gap, time.Since(last))
	y.row.theirs = int(theirs.Load())
	if y.row.landed == 0 || y.row.theirs == 0 {
		y.t.Errorf("%d commits of muster's beside %d of the rival's", y.row.landed, y.row.theirs)
	}
	for _, commit := range append(pushed, ours...) {
		if _, err := y.place.Git("merge-base", "--is-ancestor", commit, "main"); err != nil {
			y.t.Errorf("the push of %s was undone", commit)
		}
	}
	if strings.Contains(y.log.String(), "level=ERROR") {
		y.t.Errorf("the log says\n%s", y.log.String())
	}
	y.t.Logf("%d commits beside %d, at most %s apart", y.row.landed, y.row.theirs, y.row.gap)
}

// protection refuses a push by the host's own rules, or by a rule that stands for them:
// the host's words are told, and nothing is written until it ends.
func (y *story) protection() {
	const words = "the branch is protected, says the host"
	want := "protected"
	if y.place.protect != nil {
		y.place.protect(y.t)
		y.row.protection = "the host's own"
	} else {
		y.place.refuse(y.t, words)
		want, y.row.protection = words, "a hook"
	}
	if y.place.kept != nil {
		y.row.protection = "the host's own"
	}
	head := y.head()
	y.build(2)
	_, err := y.ticks.Tick(y.t.Context())
	var refused *branch.Refused
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, want) {
		y.t.Errorf("the tick: %v", err)
	}
	y.t.Logf("a push: %v", err)
	err = y.repo.Writable(y.t.Context())
	if y.row.proves == "user and branch" && !errors.As(err, &refused) {
		y.t.Errorf("the question: %v", err)
	}
	y.t.Logf("the question: %v", err)
	if y.head() != head {
		y.t.Error("the branch moved")
	}
	if y.place.protect != nil {
		y.place.free(y.t)
	} else {
		y.place.refuse(y.t, "")
	}
	y.world.Advance(10 * time.Minute) // those that were refused are pushed apart for a while
	y.tick(time.Minute)
	if y.head() == head {
		y.t.Error("nothing is written after it")
	}
}

// signatures are kept by the host, verify, and are shown where the host shows them.
func (y *story) signatures() {
	c := y.place.config
	c.AuthorName, c.AuthorEmail = "alice", "alice@example.com"
	dir := y.t.TempDir()
	signs := newSigner(y.t, dir)
	c.Sign = signs.sign
	if s, ok := y.server.(interface {
		trust(t *testing.T, public string)
	}); ok {
		s.trust(y.t, signs.public)
	}
	y.muster(c)
	head := y.head()
	y.build(2)
	y.tick(time.Minute)
	if y.head() == head {
		y.t.Fatal("nothing was committed")
	}
	cmd := exec.Command("git", "-C", y.place.Dir, "verify-commit", y.head())
	cmd.Env = append(cmd.Environ(), "GNUPGHOME="+filepath.Join(dir, "gnupg"))
	output(y.t, cmd)
	y.row.verifies = "kept"
	if y.place.verified != nil {
		if !y.place.verified(y.t, y.head()) {
			y.t.Error("the host does not show the commit as verified")
		}
		y.row.verifies = "shown as verified"
	}
	y.muster(y.place.config)
}

// restart kills the host while it has a push in its hands: the tick fails, or tells the
// truth, and afterwards each order is in git once.
func (y *story) restart() {
	head := y.head()
	y.build(2)
	y.place.hold(y.t)
	ctx, stop := context.WithCancel(y.t.Context())
	defer stop()
	done := make(chan error, 1)
	var result generator.Result
	go func() {
		var err error
		result, err = y.ticks.Tick(ctx)
		done <- err
	}()
	for !y.place.held() {
		select {
		case err := <-done:
			y.t.Fatalf("the tick ended before the host had the push: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	y.server.restart(y.t)
	pushing := <-done
	y.t.Logf("the push: %v", pushing)
	y.place.letGo(y.t)
	y.tick(time.Minute)
	y.tick(time.Minute)
	if _, err := y.place.Git("merge-base", "--is-ancestor", result.Head.Commit, "main"); pushing == nil && err != nil {
		y.t.Errorf("the tick reported the push of %s, which is not in the branch", result.Head.Commit)
	}
	added, err := y.place.Git("log", "--diff-filter=A", "--format=", "--name-only", "main", "--", "overlays/default/dispatches/default-*")
	must(y.t, err)
	seen := map[string]bool{}
	for name := range strings.FieldsSeq(added) {
		if seen[name] {
			y.t.Errorf("%s is ordered twice", name)
		}
		seen[name] = true
	}
	subjects, err := y.place.Git("log", "--format=%s", head+"..main")
	must(y.t, err)
	if strings.Count(subjects, "dispatch") != 1 || !strings.Contains(subjects, "default: dispatch 2 agents") {
		y.t.Errorf("two agents are not ordered once:\n%s", subjects)
	}
}

// locked locks the branch for a second, as a push of another program does: the tick retries, or the next one
// if the host does not report the lock.
func (y *story) locked() {
	lock := filepath.Join(y.place.Dir, "refs", "heads", "main.lock")
	head := y.head()
	y.build(2)
	put(y.t, lock, "")
	if y.row.hidesLocks {
		if _, err := y.ticks.Tick(y.t.Context()); err == nil || y.head() != head {
			y.t.Errorf("a push to the locked branch succeeds: %v", err)
		}
		must(y.t, os.Remove(lock))
	} else {
		time.AfterFunc(time.Second, func() { _ = os.Remove(lock) })
	}
	y.tick(time.Minute)
	if y.head() == head {
		y.t.Error("nothing was committed")
	}
}

// rename asserts that muster continues with the old name after the host has renamed the repository.
func (y *story) rename() {
	if y.place.rename == nil {
		y.row.renames = "has no way"
		return
	}
	y.place.rename(y.t)
	y.place.Dir = strings.TrimSuffix(y.place.Dir, ".git") + "-renamed.git"
	y.build(2)
	head := y.head()
	y.tick(time.Minute)
	if y.head() == head {
		y.t.Error("nothing was committed")
	}
	y.row.renames = "followed"
}

// whole looks at all that was written, with git and, in pages of 64 commits and more, as muster's commands do.
func (y *story) whole() {
	if out, err := y.place.Git("fsck", "--strict", "--full"); err != nil {
		y.t.Errorf("fsck: %v\n%s", err, out)
	}
	notes := make([]branch.Draft, 64)
	for i := range notes {
		notes[i] = note(fmt.Sprintf("notes/whole-%d", i))
	}
	head, err := y.repo.Head(y.t.Context())
	must(y.t, err)
	_, err = y.repo.Push(y.t.Context(), head, notes)
	must(y.t, err)
	want, err := y.place.Git("rev-list", "main")
	must(y.t, err)
	read := map[string]bool{}
	for c, err := range y.repo.Commits(y.t.Context(), "", branch.Limit{}) {
		must(y.t, err)
		read[c.ID] = true
	}
	for id := range strings.FieldsSeq(want) {
		if !read[id] {
			y.t.Errorf("muster does not read commit %s", id)
		}
	}
}
