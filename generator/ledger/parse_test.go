package ledger_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// wantEntry holds what is read of a message to the act that it was made of.
func wantEntry(t *testing.T, message string, op ledger.Draft, version string) {
	t.Helper()
	got, err := ledger.Parse(message)
	if err != nil {
		t.Fatalf("%v\n%s", err, message)
	}
	want := op.Operation(version)
	want.Overlay = "" // the reader of a log sets it
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Comparer(sameIndexes)); diff != "" {
		t.Errorf("read back (-want +got):\n%s\n%s", diff, message)
	}
}

func sameIndexes(a, b plan.IndexSet) bool { return a.String() == b.String() }

// good is a message of muster's.
func good(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("testdata/demand.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, message, _ := strings.Cut(string(text), "-- message --\n")
	return message
}

// TestParse: what is muster's, what is not, and what was.
func TestParse(t *testing.T) {
	m := good(t)
	body, trailers, _ := strings.Cut(m, "\n\nOverlay: ")
	trailers = "Overlay: " + trailers
	without := func(key string) string { return regexp.MustCompile(`(?m)^`+key+`: .*\n`).ReplaceAllString(m, "") }
	instead := func(line string) string {
		key, _, _ := strings.Cut(line, ": ")
		return regexp.MustCompile(`(?m)^`+key+`: .*$`).ReplaceAllLiteralString(m, line)
	}
	observation := regexp.MustCompile(`(?m)^Observation: .*$`).FindString(m)
	toRepair := strings.NewReplacer("linux-eu: dispatch ", "linux-eu: repair ", "Operation: dispatch", "Operation: repair")
	const ok, foreign = "", "foreign"
	for _, test := range []struct{ name, message, want string }{
		{"as it is", m, ok},
		{"CRLF", strings.ReplaceAll(m, "\n", "\r\n"), ok},
		{"without its last line end", strings.TrimSuffix(m, "\n"), ok},
		{"more blank lines", "\n\n" + m + "\n\n", ok},
		{"signed off", m + "Signed-off-by: A <a@example.com>\n", ok},
		{"cherry-picked", m + "(cherry picked from commit 0123456789abcdef0123456789abcdef01234567)\n", ok},
		{"changed by a tool", m + "Change-Id: I0123\nReviewed-by: B <b@example.com>\n", ok},
		{"other trailers first", body + "\n\nTeam: ci\n" + trailers, ok},
		{"an observation in the prose", body + "\n\n" + observation + "\n\n" + trailers, ok},
		{"all trailers in the prose, and more", body + "\n\n" + strings.ReplaceAll(trailers, "Operation: dispatch", "Operation: retire") + "\nmore\n\n" + trailers, ok},

		{"empty", "", foreign},
		{"blank", " \n\n", foreign},
		{"of a person", "Fix the base\n\nIt was broken.\n", foreign},
		{"only a subject", "linux-eu: dispatch 3 agents\n", foreign},
		{"a merge", "Merge branch 'main' of git.example.com:fleet\n", foreign},
		{"a revert", "Revert \"linux-eu: dispatch 3 agents\"\n\nThis reverts commit 0123456789abcdef0123456789abcdef01234567.\n", foreign},
		{"a text that quotes everything", "Revert \"linux-eu: dispatch 3 agents\"\n\nThis reverts commit 0123.\n\n" + m, ok},
		{"words before the overlay", "ci: " + m, ok},
		{"noise before the trailers", "x\n\n" + trailers, ok},
		{"a person who quotes and goes on", "linux-eu: dispatch fewer agents\n\n" + trailers + "\nThat was too many.\n", foreign},
		{"indented trailers", body + "\n\n" + regexp.MustCompile(`(?m)^`).ReplaceAllString(trailers, "    "), foreign},
		{"prose among the trailers", strings.Replace(m, "\nOperation: ", "\nand then\nOperation: ", 1), foreign},
		{"another's overlay", "linux-eu: dispatch the parcels\n\nThey wait.\n\nOverlay: linux-eu\n", foreign},
		{"very large", m[:len(m)-1] + strings.Repeat(" ", 5<<20), foreign},

		{"two observations", strings.Replace(m, observation, observation+"\n"+observation, 1), "line 13: Observation: it is there twice, first on line 12"},
		{"two overlays", m + "Overlay: overlays/linux-eu\n", "line 14: Overlay: it is there twice, first on line 8"},
		{"two acts", m + "Operation: dispatch\n", "line 14: Operation: it is there twice, first on line 9"},
		{"another act", instead("Operation: explode"), `line 9: Operation: "explode" is not an operation: want repair, dispatch, withdraw, retire, cancel or close-breaker`},
		{"no act", without("Operation"), foreign},
		{"no base", without("Based-on"), "Based-on: there is no such trailer"},
		{"a base that is no commit", instead("Based-on: HEAD"), `line 10: Based-on: "HEAD" is not the identifier of a commit`},
		{"no observation", without("Observation"), "Observation: there is no such trailer"},
		{"no version", without("Muster"), "Muster: there is no such trailer"},
		{"no dispatch", without("Dispatch"), "Dispatch: there is no such trailer"},
		{"no agents", instead("Dispatch: a"), "line 11: Dispatch: a has no number of agents"},
		{"an empty version", instead("Muster: "), `line 13: Muster: "" is not a version`},
		{"no number", instead("Dispatch: a agents=many"), `line 11: Dispatch: agents: "many" is not a number from 0 to 1000000`},
		{"a negative number", instead("Dispatch: a agents=-1"), `line 11: Dispatch: agents: "-1" is not a number from 0 to 1000000`},
		{"a number too large", instead("Dispatch: a agents=99999999999999999999"), `line 11: Dispatch: agents: "99999999999999999999" is not a number from 0 to 1000000`},
		{"no ID", instead("Dispatch: ../x agents=1"), `line 11: Dispatch: "../x agents=1" is not the ID of a dispatch`},
		{"one dispatch twice", instead("Dispatch: a agents=1\nDispatch: a agents=1"), "line 12: Dispatch: a is there twice"},
		{"a lease that is no time", instead("Dispatch: a agents=1 not-after=soon"), `line 11: Dispatch: not-after: "soon" is not a time`},
		{"a field of a later version", instead("Dispatch: a agents=1 zone=eu"), ok},
		{"a repair with a dispatch", toRepair.Replace(m), "line 11: Dispatch: a repair has none"},
		{"a path that leads out", instead("Overlay: ../linux-eu"), `line 8: Overlay: "../linux-eu" is not a directory of a repository`},
		{"a control character", instead("Overlay: \x1b/linux-eu"), `line 8: Overlay: "\x1b/linux-eu" is not a directory of a repository`},
		{"JSON cut off", instead("Observation: {\"at\":"), "line 12: Observation: unexpected end of JSON input"},
		{"no JSON", instead("Observation: \x1b[2J"), `line 12: Observation: invalid character '\x1b' looking for beginning of value`},
		{"another type", instead(`Observation: {"version":2,"at":7}`), "line 12: Observation: Time.UnmarshalJSON: input is not a JSON string"},
		{"no time", instead(`Observation: {"version":2,"queue":"x"}`), "line 12: Observation: it has no time"},
		{"a year far ahead", instead(`Observation: {"version":2,"at":"9999-12-31T23:59:59Z"}`), "line 12: Observation: At: the year 9999 is not from 1970 to 2499"},
		{"a negative number of jobs", instead(`Observation: {"version":2,"at":"2026-11-21T02:15:00Z","jobs":[{"overlays":["linux-eu"],"pending":-3}]}`), "line 12: Observation: Jobs: Pending: -3 is not a number from 0 to 1000000000"},
		{"more agents than there can be", instead(`Observation: {"version":2,"at":"2026-11-21T02:15:00Z","overlays":[{"overlay":"linux-eu","dispatches":{"a":{"hadJob":1000000000000}}}]}`), "line 12: Observation: Overlays: Dispatches: HadJob: 1000000000000 is not a number from 0 to 1000000000"},
		{"indexes beyond any Job", instead(`Observation: {"version":2,"at":"2026-11-21T02:15:00Z","overlays":[{"overlay":"linux-eu","dispatches":{"a":{"registered":"0-999999999"}}}]}`), `line 12: Observation: indexes "0-999999999": "0-999999999" is not a range above those before it`},
		{"a later version", instead(`Observation: {"version":9}`), "line 12: Observation: version 9 is not supported, only version 2"},
		{"a later version with fields of other types", instead(`Observation: {"version":9,"at":7}`), "line 12: Observation: version 9 is not supported, only version 2"},
		{"no version", instead(`Observation: {"at":"2026-11-21T02:15:00Z"}`), "line 12: Observation: version 0 is not supported, only version 2"},
		{"a very long value", instead(`Observation: {"version":2,"at":"` + strings.Repeat("ü", 300) + `"}`), `line 12: Observation: parsing time "` + strings.Repeat(`\xc3\xbc`, 23) + `\x…`},
		{"a time with a control character", instead("Observation: {\"version\":2,\"at\":\"\x7f\"}"), `line 12: Observation: parsing time " " as "2006-01-02T15:04:05Z07:00": cannot parse " " as "2006"`},
		{"two values", instead(`Observation: {"version":2,"at":"2026-11-21T02:15:00Z"} {}`), "line 12: Observation: invalid character '{' after top-level value"},
		{"indexes that are none", instead(`Observation: {"version":2,"at":"2026-11-21T02:15:00Z","overlays":[{"overlay":"x","dispatches":{"a":{"registered":"3-1"}}}]}`), `line 12: Observation: indexes "3-1": "3-1" is not a range above those before it`},
		{"indexes over and over", instead(`Observation: {"version":2,"at":"2026-11-21T02:15:00Z","overlays":[{"overlay":"x","dispatches":{"a":{"registered":"0-9,0-9"}}}]}`), `line 12: Observation: indexes "0-9,0-9": "0-9" is not a range above those before it`},
		{"far too many indexes", instead(`Observation: {"version":2,"at":"2026-11-21T02:15:00Z","overlays":[{"overlay":"x","dispatches":{"a":{"registered":"99999999"}}}]}`), `line 12: Observation: indexes "99999999": "99999999" is not a range above those before it`},
	} {
		_, err := ledger.Parse(test.message)
		var damaged *ledger.Malformed
		switch {
		case test.want == ok && err == nil:
		case test.want == foreign && errors.Is(err, ledger.ErrForeign):
		case errors.As(err, &damaged) && err.Error() == test.want:
		default:
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// commands are operations of commands, with their trailers.
func commands() map[string]ledger.Operation {
	return map[string]ledger.Operation{
		"Overlay: overlays/a\nOperation: cancel\nIdentity: 7f3k\nBased-on: " + base + "\nDispatch: a-1 agents=5\nDispatch: a-2 agents=1\nMuster: v1\n": {
			Kind: ledger.Cancel, Path: "overlays/a", Identity: "7f3k", Base: base, Orders: []ledger.Order{{ID: "a-1", Agents: 5}, {ID: "a-2", Agents: 1}}, Version: "v1", Text: "a: cancel"},
		"Overlay: overlays/a\nOperation: close-breaker\nBased-on: " + base + "\nFailures: 4\nMuster: v1\n": {
			Kind: ledger.CloseBreaker, Path: "overlays/a", Base: base, Failures: 4, Version: "v1", Text: "a: cancel"},
	}
}

// TestCommands: the trailers of a command state its operation, which has no observation. Other trailers,
// such as a person's reason, may follow.
func TestCommands(t *testing.T) {
	for trailers, o := range commands() {
		if got := strings.Join(o.Trailers(), "\n") + "\n"; got != trailers {
			t.Errorf("%s: wrote\n%swant\n%s", o.Kind, got, trailers)
		}
		message := "a: cancel\n\n" + trailers + "Reason: it is broken\n"
		got, err := ledger.Parse(message)
		if diff := cmp.Diff(o, got, cmpopts.EquateEmpty(), cmp.Comparer(sameIndexes)); err != nil || diff != "" {
			t.Errorf("%s: read back, %v (-want +got):\n%s", o.Kind, err, diff)
		}
		if got.ByMuster() || got.Kind.Own() || !got.Kind.Command() {
			t.Errorf("%s: by muster", o.Kind)
		}
		for _, c := range []struct{ message, want string }{
			{message, ""},
			{strings.Replace(message, "Muster: v1", "Muster: v1\nObservation: {}", 1), "Observation"},
			{strings.Replace(message, "overlays/a", "overlays/b", 1), "Overlay"},
			{strings.Replace(message, "Based-on: ", "Based-on: 00", 1), "Based-on"},
			{strings.Replace(message, "agents=5", "agents=4", 1) + "Failures: 3\n", "Failures"},
		} {
			if keys := strings.Join(ledger.Differing(c.message, o), " "); !strings.HasSuffix(keys, c.want) || (keys == "") != (c.want == "") {
				t.Errorf("%s: %q differs, want %q:\n%s", o.Kind, keys, c.want, c.message)
			}
		}
	}
	for message, want := range map[string]string{
		"x\n\nOverlay: overlays/a\nOperation: cancel\nBased-on: " + base + "\nMuster: v1\n":                                        "Dispatch: there is no such trailer",
		"x\n\nOverlay: overlays/a\nOperation: close-breaker\nBased-on: " + base + "\nDispatch: a-1 agents=5\nMuster: v1\n":         "line 6: Dispatch: a close-breaker has none",
		"x\n\nOverlay: overlays/a\nOperation: close-breaker\nBased-on: " + base + "\nFailures: -1\nMuster: v1\n":                   `line 6: Failures: "-1" is not a number from 0 to 1000000`,
		"x\n\nOverlay: overlays/a\nOperation: cancel\nBased-on: " + base + "\nDispatch: a-1 agents=5\nLimit: max \a\nMuster: v1\n": `line 7: Limit: "max \a" is not a limit`,
		"x\n\nOverlay: overlays/a\nOperation: revert\nBased-on: " + base + "\nDispatch: a-1 agents=5\nMuster: v1\n":                `line 4: Operation: "revert" is not an operation: want repair, dispatch, withdraw, retire, cancel or close-breaker`,
	} {
		if _, err := ledger.Parse(message); err == nil || err.Error() != want {
			t.Errorf("%v, want %q, of\n%s", err, want, message)
		}
	}
}

// TestUnwritableTime: JSON cannot write every time that there is.
func TestUnwritableTime(t *testing.T) {
	d := plan.Decision{Overlay: "x", Observation: plan.Observation{At: time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)}}
	_, err := ledger.Parse(ledger.Message(ledger.Draft{Kind: ledger.Repair, Path: "overlays/x", Base: base, Decision: d}, "v0"))
	var damaged *ledger.Malformed
	if !errors.As(err, &damaged) {
		t.Error(err)
	}
}

// TestRead: a log has commits of muster's, damaged ones, and those of others.
func TestRead(t *testing.T) {
	m := good(t)
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	log := []branch.Commit{
		{ID: "4", Parents: []string{"3"}, Author: "muster", Email: "muster@localhost", At: at, Message: m},
		{ID: "3", Parents: []string{"2", "x"}, Author: "Jane", Message: m},
		{ID: "2", Parents: []string{"1"}, Message: strings.Replace(m, `"version"`, `"versio`, 1)},
		{ID: "1", Message: "Begin\n"},
	}
	failed := errors.New("the log is cut off")
	var got []string
	for r, err := range ledger.Read("overlays", func(yield func(branch.Commit, error) bool) {
		for _, c := range log {
			if !yield(c, nil) {
				return
			}
		}
		yield(branch.Commit{}, failed)
	}) {
		switch {
		case err != nil:
			got = append(got, err.Error())
		case r.ByMuster():
			got = append(got, fmt.Sprint(r.ID, " ", r.Overlay, r.Author, r.Email, r.At.Equal(at), r.Kind))
		case r.Damage != nil:
			got = append(got, fmt.Sprint(r.Commit.ID, " damaged on line ", r.Damage.Line))
		default:
			got = append(got, r.Commit.ID+" "+r.Commit.Author)
		}
	}
	want := []string{"4 linux-eumustermuster@localhosttruedispatch", "3 Jane", "2 damaged on line 12", "1 ", "the log is cut off"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for range ledger.Read("overlays", func(yield func(branch.Commit, error) bool) { _ = yield(log[0], nil) && yield(log[1], nil) }) {
		break // a reader may stop at any time
	}
}

// FuzzParse: no message makes Parse panic, and what it reads it can have
// written.
func FuzzParse(f *testing.F) {
	f.Add(good(f))
	for trailers := range commands() {
		f.Add("x\n\n" + trailers)
	}
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		_, message, _ := strings.Cut(string(text), "-- message --\n")
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		e, err := ledger.Parse(message)
		var damaged *ledger.Malformed
		switch {
		case err == nil:
			if e.Path == "" || e.Version == "" || e.Base == "" || e.Observation.At.IsZero() != e.Kind.Command() || e.Kind == ledger.Repair && len(e.Orders) > 0 {
				t.Errorf("%+v", e)
			}
		case errors.As(err, &damaged):
			if lines := strings.Count(message, "\n") + 1; damaged.Line < 0 || damaged.Line > lines {
				t.Errorf("line %d of %d", damaged.Line, lines)
			}
		case !errors.Is(err, ledger.ErrForeign):
			t.Error(err)
		}
	})
}
