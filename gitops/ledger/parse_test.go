package ledger_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"muster/generator/plan"
	"muster/gitops/ledger"
)

// wantEntry holds what is read of a message to the act that it was made of.
func wantEntry(t testing.TB, message string, act ledger.Act, version string) {
	t.Helper()
	got, err := ledger.Parse(message)
	if err != nil {
		t.Fatalf("%v\n%s", err, message)
	}
	want := ledger.Entry{Overlay: act.Path, Kind: act.Kind, Observation: act.Decision.Observation, Version: version}
	switch act.Kind {
	case ledger.Dispatch:
		for _, d := range act.Decision.Dispatch {
			want.Dispatches = append(want.Dispatches, d.ID)
		}
		want.Agents = act.Decision.Sum.Dispatch
	case ledger.Retire:
		for _, r := range act.Decision.Retire {
			want.Dispatches = append(want.Dispatches, r.ID)
			want.Agents += r.Agents
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(ledger.Entry{}, "Subject", "Prose"), cmpopts.EquateEmpty(), cmp.Comparer(sameIndexes)); diff != "" {
		t.Errorf("read back (-want +got):\n%s\n%s", diff, message)
	}
	if joined := got.Subject + "\n\n" + got.Prose + "\n\nOverlay: " + got.Overlay + "\n"; len(message) < len(joined) || message[:len(joined)] != joined {
		t.Errorf("subject and prose are %q", joined)
	}
}

func sameIndexes(a, b plan.Indexes) bool { return a.String() == b.String() }
