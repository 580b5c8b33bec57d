package git_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/gitserver"
	"muster/gitops/unraced"
)

// past writes a history of n commits onto main, a minute apart, each with a
// file. Every tenth is a merge of a commit that branched off three before.
func past(t testing.TB, r gitserver.Repository, n int) {
	t.Helper()
	var stream bytes.Buffer
	commit := func(ref string, mark, at int, message string, more ...string) {
		fmt.Fprintf(&stream, "commit %s\nmark :%d\nauthor A%d <a%d@example.com> %d +0100\ncommitter C <c@example.com> %d +0100\ndata %d\n%s\n", ref, mark, mark, mark, 1_700_000_000, 1_700_000_000+60*at, len(message), message)
		for _, line := range more {
			stream.WriteString(line + "\n")
		}
		fmt.Fprintf(&stream, "M 100644 inline f/%d.txt\ndata 6\n%06d\n", mark%50, mark)
	}
	for i := 1; i <= n; i++ {
		var more []string
		if i > 1 {
			more = append(more, fmt.Sprintf("from :%d", i-1))
		}
		if i%10 == 0 {
			commit("refs/heads/side", 100_000+i, i-1, fmt.Sprintf("side %d\n", i), fmt.Sprintf("from :%d", i-3))
			more = append(more, fmt.Sprintf("merge :%d", 100_000+i))
		}
		commit("refs/heads/main", i, i, fmt.Sprintf("commit %d\n\nwith a body\n", i), more...)
	}
	stream.WriteString("reset refs/heads/side\nfrom 0000000000000000000000000000000000000000\n")
	fastImport(t, r, stream.String())
}

// listed reads the history of the branch, a line for each commit.
func listed(t testing.TB, b *git.Branch, from string, limit branch.Limit) []string {
	t.Helper()
	var all []string
	for c, err := range b.Commits(t.Context(), from, limit) {
		must(t, err)
		all = append(all, strings.Join([]string{c.ID, strings.Join(c.Parents, " "), c.Author, c.Email, fmt.Sprint(c.At.Unix()), fmt.Sprintf("%q", c.Message)}, "|"))
	}
	return all
}

// gitLog returns the same from git.
func gitLog(t testing.TB, r gitserver.Repository, args ...string) []string {
	t.Helper()
	out := gitIn(t, r, append([]string{"log", "--format=%H|%P|%an|%ae|%ct|%B%x00"}, args...)...)
	var all []string
	for entry := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00\n") {
		at := strings.LastIndex(entry, "|")
		all = append(all, entry[:at]+fmt.Sprintf("|%q", entry[at+1:]))
	}
	return all
}

// sameCommits asserts that a history equals git's: the same commits, each before its parents, newest
// first. Commits of one second may be in any order.
func sameCommits(t *testing.T, what string, got, want []string) {
	t.Helper()
	seen, lines := map[string]bool{}, map[string]string{}
	for _, line := range want {
		lines[line[:40]] = line
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d commits, git has %d", what, len(got), len(want))
	}
	before := ""
	for _, line := range got {
		id := line[:40]
		if diff := cmp.Diff(lines[id], line); diff != "" {
			t.Fatalf("%s: a commit (-want +got)\n%s", what, diff)
		}
		columns := strings.Split(line, "|")
		for parent := range strings.FieldsSeq(columns[1]) {
			if seen[parent] {
				t.Errorf("%s: %s comes before its child", what, parent)
			}
		}
		if seen[id] {
			t.Errorf("%s: %s comes twice", what, id)
		}
		if before != "" && columns[4] > before {
			t.Errorf("%s: %s is newer than the one before", what, id)
		}
		seen[id], before = true, columns[4]
	}
}

// TestHistory reads a history of several pages, with merges, from every server, and again when others
// have added commits to it. How single files can be read makes no difference to it.
func TestHistory(t *testing.T) {
	t.Parallel()
	contract(t, func(t *testing.T, r gitserver.Repository, c git.Config) {
		past(t, r, 400)
		b := open(t, c)
		all := gitLog(t, r, "main")
		sameCommits(t, "all", listed(t, b, "", branch.Limit{}), all)
		sameCommits(t, "three", listed(t, b, "", branch.Limit{Commits: 3}), gitLog(t, r, "-3", "main"))

		// The branch can be read and written in between, and it moves.
		head := headOf(t, b)
		n := 0
		for commit, err := range b.Commits(t.Context(), head.Commit, branch.Limit{}) {
			must(t, err)
			if n == 0 {
				if commit.ID != head.Commit {
					t.Errorf("begins with %s, want %s", commit.ID, head.Commit)
				}
				head = headOf(t, b)
			}
			n++
		}
		if n != len(all) {
			t.Errorf("%d commits, want %d", n, len(all))
		}
		must(t, push(t, b, &head, "more"))
		if got := listed(t, b, head.Commit, branch.Limit{Commits: 1}); len(got) != 1 || !strings.HasPrefix(got[0], head.Commit) {
			t.Errorf("from the new head: %v", got)
		}
		readFetchedCommits(t, r, b)
		readMergeSinceKnown(t, r, b, c)
		fsck(t, r)
	}, []string{"partial", "no trees", "shallow", "reachable", "named only"}, "partial", "shallow")
}

// TestHistoryStops: a loop may end at any time, and so may the context.
func TestHistoryStops(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	past(t, r, 200)
	b := open(t, git.Config{URL: r.Dir})
	for range b.Commits(t.Context(), "", branch.Limit{}) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for _, err := range b.Commits(ctx, "", branch.Limit{}) {
		if n++; n == 10 {
			cancel()
		}
		last = err
	}
	if last == nil || n < 10 || n > 100 {
		t.Errorf("%d commits, and then %v", n, last)
	}
	for _, err := range open(t, git.Config{URL: gitserver.NewRepository(t).Dir}).Commits(t.Context(), "", branch.Limit{}) {
		if err == nil || !strings.Contains(err.Error(), "the repository is empty") {
			t.Error(err)
		}
	}
}

// TestHistoryOfLargeCommits: pages get smaller when commits are large.
func TestHistoryOfLargeCommits(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	f := gitserver.NewServer(t, gitserver.Options{})
	var stream bytes.Buffer
	random := rand.New(rand.NewPCG(1, 2))
	const commits, size = 50, 360_000
	for i := range commits {
		message := make([]byte, size)
		for j := range message {
			message[j] = byte(' ' + random.IntN(64))
		}
		fmt.Fprintf(&stream, "commit refs/heads/main\ncommitter C <c@example.com> %d +0000\ndata %d\n%s\n", 1_700_000_000+i, size, message)
	}
	fastImport(t, f.Repository, stream.String())
	configure(t, f.Repository, "pack.window", "0", "pack.compression", "0") // quick rather than small
	all := commitsOf(t, open(t, git.Config{URL: f.URL()}), branch.Limit{})
	for _, c := range all {
		if len(c.Message) < size {
			t.Errorf("a message of %d bytes", len(c.Message))
		}
	}
	if len(all) != commits {
		t.Errorf("%d commits, want %d", len(all), commits)
	}
}

// TestHistoryOfThisMachine: a repository's own history is read whatever replaces or
// damages it, and an end of git's is an error, not the end of the history.
func TestHistoryOfThisMachine(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	past(t, r, 30)
	b := open(t, git.Config{URL: r.Dir})
	want := listed(t, b, "", branch.Limit{})
	if len(want) != 33 {
		t.Fatalf("%d commits", len(want))
	}
	id := func(i int) string { return strings.Split(want[i], "|")[0] }
	gitIn(t, r, "replace", id(5), id(20))
	if diff := cmp.Diff(want, listed(t, b, "", branch.Limit{})); diff != "" {
		t.Errorf("with a replacement (-want +got)\n%s", diff)
	}
	if got := listed(t, b, id(10), branch.Limit{Commits: 2}); len(got) != 2 || got[0] != want[10] {
		t.Errorf("two from within are\n%s", strings.Join(got, "\n"))
	}
	for from, says := range map[string]string{strings.Repeat("1", 40): "bad object 1111111", "nonsense": "is not the identifier"} {
		n := 0
		var err error
		for _, err = range b.Commits(t.Context(), from, branch.Limit{}) {
			n++
		}
		if n != 1 || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("from %s: %d yielded, %v; want %q", from, n, err, says)
		}
	}
	// As a file of its own, a commit can be deleted.
	packs, err := filepath.Glob(r.Dir + "/objects/pack/*.pack")
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
	pack, err := os.ReadFile(packs[0])
	must(t, err)
	for _, name := range []string{"pack", "idx"} {
		must(t, os.Remove(strings.TrimSuffix(packs[0], "pack")+name))
	}
	_, err = r.GitInput(pack, "unpack-objects", "-q")
	must(t, err)
	must(t, os.Remove(fmt.Sprintf("%s/objects/%s/%s", r.Dir, id(12)[:2], id(12)[2:])))
	n := 0
	for _, err = range b.Commits(t.Context(), "", branch.Limit{}) {
		n++
	}
	if n > 13 || err == nil || !strings.Contains(err.Error(), id(12)) {
		t.Errorf("without %s: %d yielded, %v", id(12), n, err)
	}
}

// readFetchedCommits: commits that were fetched with a new head are not requested again, so that
// reading others' commits after a conflict takes no further request.
func readFetchedCommits(t *testing.T, r gitserver.Repository, b *git.Branch) {
	t.Helper()
	old := headOf(t, b)
	for i := range 3 {
		_, err := r.Commit("a rival", time.Unix(1_800_000_000+int64(i), 0), write("elsewhere.txt", fmt.Sprint(i)))
		must(t, err)
	}
	head := headOf(t, b)
	asked := b.Stats().Requests
	var between []string
	for commit, err := range b.Commits(t.Context(), head.Commit, branch.Limit{}) {
		must(t, err)
		between = append(between, commit.ID)
		if commit.Parents[0] == old.Commit {
			break
		}
	}
	if requests := b.Stats().Requests - asked; len(between) != 3 || requests != 0 {
		t.Errorf("%d commits between the heads were read with %d requests", len(between), requests)
	}
	sameCommits(t, "all", listed(t, b, head.Commit, branch.Limit{}), gitLog(t, r, "main"))
}

// TestLargeMessageHarmsNoOtherCommit asserts that only the subject of a commit with an
// oversized message is read, even if the commit is stored as a delta, and nothing of one whose
// author's name is as large; and that the branch and its history stay readable.
func TestLargeMessageHarmsNoOtherCommit(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	line := strings.Repeat("x", 99) + "\n"
	large := func(n int) string {
		return fmt.Sprintf("large %d\n\n", n) + strings.Repeat(line, mostMessage/len(line)+n)
	}
	commit := func(mark int, message string, more ...string) string {
		return fmt.Sprintf("commit refs/heads/main\nmark :%d\ncommitter C <c@example.com> %d +0000\ndata %d\n%s\n", mark, 1_700_000_000+mark, len(message), message) +
			strings.Join(append(more, ""), "\n") + fmt.Sprintf("M 100644 inline deploy/%d\ndata 1\n%d\n", mark, mark%10)
	}
	by := "author " + strings.Repeat("A", mostMessage) + " <a@example.com> 1700000000 +0000\ncommitter "
	linear := commit(1, "first\n") + commit(2, large(2), "from :1") + strings.Replace(commit(3, large(3), "from :2"), "committer ", by, 1)
	merged := linear + commit(4, large(4), "from :2") + commit(5, "merge\n", "from :3", "merge :4")
	check := func(t *testing.T, r gitserver.Repository, c git.Config, stream string, want ...string) {
		fastImport(t, r, stream)
		gitIn(t, r, "repack", "-adfq") // as deltas
		b := open(t, c)
		head := headOf(t, b)
		messages := func(head string) (all []string, ids []string) {
			for _, entry := range listed(t, b, head, branch.Limit{}) {
				fields := strings.Split(entry, "|")
				all, ids = append(all, fields[5]), append(ids, fields[0])
			}
			return all, ids
		}
		all, ids := messages("")
		if diff := cmp.Diff(want, all); diff != "" {
			t.Fatalf("the history (-want +got):\n%s", diff)
		}
		_, err := b.Push(t.Context(), head, []branch.Draft{{Message: "on top", At: time.Unix(1_700_000_100, 0), Changes: []branch.Change{write("deploy/on", "top")}}})
		must(t, err)
		for i := range 3 { // which come with the head, and not with the history
			_, err = r.Commit(fmt.Sprint("later ", i), time.Unix(1_700_000_200, 0), write("deploy/later", fmt.Sprint(i)))
			must(t, err)
		}
		_, err = b.Head(t.Context())
		must(t, err)
		if all, _ := messages(""); len(all) != len(want)+4 {
			t.Errorf("%d commits with those that were pushed, want %d: %q", len(all), len(want)+4, all)
		}
		if content, err := b.File(t.Context(), ids[1], "deploy/2"); err != nil || string(content) != "2" {
			t.Errorf("a file of a large commit: %q, %v", content, err)
		}
		a, err := b.PastTrees(t.Context())
		must(t, err)
		defer a.Close()
		_, err = a.Tree(t.Context(), ids[0])
		must(t, err)
	}
	for _, offer := range []string{"local", "partial", "shallow"} {
		t.Run(offer, func(t *testing.T) {
			t.Parallel()
			r := gitserver.NewRepository(t)
			c := git.Config{URL: r.Dir}
			if set, served := clones()[offer]; served {
				set(t, r)
				c = hosts()[0].serve(t, r) // over http
			}
			const unread = `"\n"`
			switch offer {
			case "local": // in git's order
				check(t, r, c, merged, `"merge\n"`, `"large 4\n"`, unread, `"large 2\n"`, `"first\n"`)
			case "partial": // a commit without a time is the oldest
				check(t, r, c, merged, `"merge\n"`, `"large 4\n"`, `"large 2\n"`, `"first\n"`, unread)
			case "shallow": // which sends both parents of the merge together
				check(t, r, c, linear, unread, `"large 2\n"`, `"first\n"`)
			}
		})
	}
}

// mostMessage is the size of an object, in bytes, above which it is not read.
const mostMessage = 4 << 20

// readMergeSinceKnown asserts that after a merge of an old branch, the commits since a known one are
// fetched in one request, and nothing before it.
func readMergeSinceKnown(t *testing.T, r gitserver.Repository, b *git.Branch, c git.Config) {
	t.Helper()
	old := headOf(t, b)
	const commit = "commit refs/heads/%s\nmark :%d\ncommitter C <c@example.com> %d +0000\ndata 2\nx\nfrom %s\n%s\n"
	fastImport(t, r, fmt.Sprintf(commit, "side", 1, 1_700_000_500, gitIn(t, r, "rev-parse", "main~250"), "")+
		fmt.Sprintf(commit, "side", 2, 1_700_000_600, ":1", "")+
		fmt.Sprintf(commit, "main", 3, 1_900_000_000, old.Commit, "merge :2\n")+
		"reset refs/heads/side\nfrom 0000000000000000000000000000000000000000\n")
	head := headOf(t, b)
	asked, read, want := b.Stats().Requests, map[string]bool{}, 3
	for x, err := range b.Commits(t.Context(), head.Commit, branch.Limit{Known: old.Commit}) {
		must(t, err)
		read[x.ID] = true
		if len(read) > want && !strings.HasPrefix(c.URL, "/") {
			t.Fatalf("%s of %s is read too", x.ID, x.At)
		}
	}
	for _, line := range gitLog(t, r, head.Commit, "^"+old.Commit) {
		want--
		if !read[line[:40]] {
			t.Errorf("not read: %s", line)
		}
	}
	if requests := b.Stats().Requests - asked; requests > 2 || want != 0 { // the host may refuse the filter of the first
		t.Errorf("%d requests, and %d commits more than git has", requests, want)
	}
}

// TestHistoryWithoutKnown asserts that all of the history is read if the server lacks the known
// commit, or if the branch was reset to a commit before it.
func TestHistoryWithoutKnown(t *testing.T) {
	t.Parallel()
	f := gitserver.NewServer(t, gitserver.Options{})
	past(t, f.Repository, 20)
	b := open(t, git.Config{URL: f.URL()})
	known := headOf(t, b).Commit
	lost := branch.Limit{Known: strings.Repeat("1", 40)}
	sameCommits(t, "after a lost commit", listed(t, b, known, lost), gitLog(t, f.Repository, "main"))
	gitIn(t, f.Repository, "update-ref", "refs/heads/main", "main~10")
	sameCommits(t, "after a reset", listed(t, b, headOf(t, b).Commit, branch.Limit{Known: known}), gitLog(t, f.Repository, "main"))
}

// TestLongHistory asserts that a history with more commits after the known one than one request
// fetches is read in few pages.
func TestLongHistory(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	f := gitserver.NewServer(t, gitserver.Options{})
	past(t, f.Repository, 7500)
	since := branch.Limit{Known: gitIn(t, f.Repository, "rev-list", "--max-parents=0", "main")}
	if n := len(commitsOf(t, open(t, git.Config{URL: f.URL()}), since)); n != 8250 {
		t.Errorf("%d commits, want 8250", n)
	}
	if all := f.Requests(); len(all) > 15 {
		t.Errorf("%d requests:\n%s", len(all), strings.Join(all, "\n"))
	}
}

// TestHistoryHoldsUpNobody asserts that reads and pushes of the head complete while the server does not
// answer a read of the past.
func TestHistoryHoldsUpNobody(t *testing.T) {
	t.Parallel()
	var hang atomic.Bool
	hanging, release := make(chan struct{}), make(chan struct{})
	f := gitserver.NewServer(t, gitserver.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && hang.CompareAndSwap(true, false) {
				close(hanging)
				<-release
			}
			next.ServeHTTP(w, r)
		})
	}})
	past(t, f.Repository, 100)
	b := open(t, git.Config{URL: f.URL()})
	head := headOf(t, b)
	read := make(chan int, 1)
	hang.Store(true)
	go func() {
		n := 0
		for _, err := range b.Commits(t.Context(), head.Commit, branch.Limit{}) {
			if err != nil {
				t.Error(err)
			}
			n++
		}
		read <- n
	}()
	<-hanging
	seed(t, f.Repository, write("deploy/web/theirs", "theirs"))
	head = headOf(t, b)
	wantFile(t, head.Tree, "deploy/web/theirs", "theirs")
	must(t, push(t, b, &head, "a"))
	select {
	case <-read:
		t.Error("the history was read before the head")
	default:
	}
	close(release)
	if n := <-read; n < 100 {
		t.Errorf("the history has %d commits", n)
	}
}
