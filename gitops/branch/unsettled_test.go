package branch_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"muster/gitops/branch"
)

// log is a history in the sequence in which a reader yields it.
type log struct {
	branch.History
	commits []branch.Commit
	err     error
}

func (l log) Commits(context.Context, string, branch.Limit) iter.Seq2[branch.Commit, error] {
	return func(yield func(branch.Commit, error) bool) {
		for _, c := range l.commits {
			if !yield(c, nil) {
				return
			}
		}
		if l.err != nil {
			yield(branch.Commit{}, l.err)
		}
	}
}

// commits returns commits from "ID PARENT...".
func commits(ids ...[]string) (all []branch.Commit) {
	for _, id := range ids {
		all = append(all, branch.Commit{ID: id[0], Parents: id[1:], Message: "message of " + id[0] + "\n"})
	}
	return all
}

// TestLanded asserts the result of a push of commit x on commit b, by identifier and by message, from
// what a reader yields: with merges and clocks that differ, b may precede x.
func TestLanded(t *testing.T) {
	cut := errors.New("the connection broke off")
	for name, c := range map[string]struct {
		log    []branch.Commit
		err    error
		landed bool
		want   error // errUnknown: the push itself
	}{
		"at the head":                          {log: commits([]string{"x", "b"}, []string{"b"}), landed: true},
		"below others":                         {log: commits([]string{"o", "x"}, []string{"x", "b"}, []string{"b"}), landed: true},
		"without b":                            {log: commits([]string{"o", "x"}, []string{"x", "b"}), landed: true},
		"others instead":                       {log: commits([]string{"o", "b"}, []string{"b", "a"}, []string{"a"})},
		"others instead, without b":            {log: commits([]string{"o", "b"})},
		"merged, after b":                      {log: commits([]string{"m", "x", "s"}, []string{"s", "b"}, []string{"b", "a"}, []string{"x", "b"}, []string{"a"}), landed: true},
		"merged, after b and its parent":       {log: commits([]string{"m", "x", "s"}, []string{"s", "b"}, []string{"b", "a"}, []string{"a"}, []string{"x", "b"}), landed: true},
		"merge of others":                      {log: commits([]string{"m", "o", "s"}, []string{"s", "b"}, []string{"b", "a"}, []string{"o", "b"}, []string{"a"})},
		"merge of an older line":               {log: commits([]string{"m", "o", "s"}, []string{"o", "b"}, []string{"s", "a"}, []string{"b", "a"}, []string{"a"})},
		"a mirror lags behind":                 {log: commits([]string{"a", "0"}, []string{"0"}), want: errUnknown},
		"rewritten":                            {log: commits([]string{"r", "a"}, []string{"a"}), want: errUnknown},
		"unread":                               {log: commits([]string{"o", "p"}), err: cut, want: cut},
		"unread after b, with a merge to read": {log: commits([]string{"m", "o", "s"}, []string{"s", "b"}, []string{"b", "a"}), err: cut, want: cut},
	} {
		for _, u := range []*branch.Unsettled{{Before: "b", After: "x", Err: cut}, {Before: "b", Message: "message of x", Err: cut}} {
			want := c.want
			if want == errUnknown {
				want = u
			}
			got, err := u.Landed(t.Context(), log{commits: c.log, err: c.err}, c.log[0].ID)
			if (got == "x") != c.landed || !c.landed && got != "" || !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("%s, by %+v: %q, %v; want landed %t, %v", name, u, got, err, c.landed, want)
			}
		}
	}
}

var errUnknown = errors.New("the push")

// TestSettle asserts what a failed push of commit x on commit b returns, by the response to it and the head of the
// branch afterwards.
func TestSettle(t *testing.T) {
	t.Parallel()
	cut, refused := errors.New("the connection broke off"), &branch.Refused{Message: "the branch is protected"}
	landed := commits([]string{"o", "x"}, []string{"x", "b"}, []string{"b"})
	moved := commits([]string{"o", "b"}, []string{"b"})
	rewritten := commits([]string{"r", "a"}, []string{"a"})
	for _, answer := range []branch.Answer{{}, {Refused: refused}, {Refused: refused, NotMoved: true}} {
		for name, c := range map[string]struct {
			head   string // empty: it cannot be read
			log    []branch.Commit
			landed bool
			moved  bool
		}{
			"landed":     {head: "x", log: landed, landed: true},
			"below":      {head: "o", log: landed, landed: true},
			"unchanged":  {head: "b"},
			"moved":      {head: "o", log: moved, moved: true},
			"rewritten":  {head: "r", log: rewritten, moved: true},
			"unreadable": {},
		} {
			if answer.NotMoved && c.landed {
				continue
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // Settle reads the branch nevertheless
			u := &branch.Unsettled{Before: "b", After: "x", Err: cut}
			head := func(ctx context.Context) (string, error) {
				if c.head == "" {
					return "", errors.New("the server is away")
				}
				return c.head, ctx.Err()
			}
			got, err := u.Settle(ctx, answer, head, log{commits: c.log})
			var unknown *branch.Unsettled
			var response *branch.Refused
			isRefused, isUnknown := errors.As(err, &response), errors.As(err, &unknown)
			wantRefused := name == "unchanged" && answer.Refused != nil
			wantUnknown := !answer.NotMoved && (name == "unreadable" || name == "rewritten" || name == "unchanged" && !wantRefused)
			switch {
			case c.landed != (got == "x") || c.landed != (err == nil):
				t.Errorf("%s after %+v: %q, %v", name, answer, got, err)
			case isRefused != wantRefused, isUnknown != wantUnknown, errors.Is(err, branch.ErrMoved) != c.moved:
				t.Errorf("%s after %+v: %v, refused %t, unknown %t", name, answer, err, isRefused, isUnknown)
			case err != nil && !wantRefused && !errors.Is(err, cut):
				t.Errorf("%s after %+v: %v has no cause", name, answer, err)
			}
		}
	}
}

// TestPending asserts that pushes are kept until a head shows their results, also if the history cannot be
// read, and that one that has landed excludes others from the same commit.
func TestPending(t *testing.T) {
	t.Parallel()
	cut := errors.New("the connection broke off")
	var p branch.Pending[string]
	for _, id := range []string{"w", "x", "y"} {
		p.Add(&branch.Unsettled{Before: "b", After: id, Err: cut}, "push of "+id)
	}
	for _, c := range []struct {
		head, landed string
		err          error
		remaining    int
	}{
		{"b", "", nil, 3},
		{"o", "", cut, 3},
		{"o", "push of x", nil, 0},
		{"o", "", nil, 0},
	} {
		history := log{commits: commits([]string{"o", "x"}, []string{"x", "b"}, []string{"b"}), err: c.err}
		if c.err != nil {
			history.commits = history.commits[:1]
		}
		got, err := p.Settle(t.Context(), history, c.head)
		var landed string
		for _, push := range got {
			landed += push.Value
		}
		if landed != c.landed || !errors.Is(err, c.err) || p.Len() != c.remaining {
			t.Errorf("at %s: %q, %v, %d remain; want %q, %v, %d", c.head, landed, err, p.Len(), c.landed, c.err, c.remaining)
		}
	}
}
