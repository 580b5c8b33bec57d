package notify_test

import (
	"errors"
	"slices"
	"testing"

	"muster/gitops/branch"
	"muster/gitops/notify"
)

// TestLanding: what has landed is handed on once, also where the answer was lost.
func TestLanding(t *testing.T) {
	t.Parallel()
	var got []notify.Push
	l := notify.Landing{Landed: func(p notify.Push) { got = append(got, p) }}
	lost := errors.New("the connection broke off")
	files := []branch.Change{{Path: "b", Content: []byte("x")}, {Path: "a"}, {Path: "b", Content: []byte("y")}}

	l.Seen("1")
	l.Pushed("1", "", files, branch.ErrMoved)
	l.Pushed("1", "", files, &branch.Refused{Message: "no"})
	l.Pushed("1", "", files, branch.ErrInvalid)
	l.Seen("1")
	l.Seen("2") // somebody else's
	if len(got) > 0 {
		t.Fatalf("nothing has landed, and %v is handed on", got)
	}
	l.Pushed("2", "3", files, nil)
	l.Pushed("3", "", files, lost)
	l.Seen("3") // it may still come
	l.Seen("4")
	l.Seen("5")
	l.Pushed("5", "", files, lost)
	l.Pushed("5", "6", files, nil) // so it had not landed
	l.Seen("6")
	want := []notify.Push{
		{Before: "2", After: "3", Written: []string{"b"}, Removed: []string{"a"}},
		{Before: "3", After: "4", Unlisted: true},
		{Before: "5", After: "6", Written: []string{"b"}, Removed: []string{"a"}},
	}
	same := func(a, b notify.Push) bool {
		return a.Before == b.Before && a.After == b.After && a.Unlisted == b.Unlisted && slices.Equal(a.Written, b.Written) && slices.Equal(a.Removed, b.Removed)
	}
	if !slices.EqualFunc(got, want, same) {
		t.Errorf("%+v, want %+v", got, want)
	}
	new(notify.Landing).Pushed("1", "2", files, nil) // tells nobody
}
