package main

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/cmd/invocation"
)

// TestStatusLive asserts that status --live prints the figures and conditions of a running muster, that it prints no
// overlay that is not chosen, and what it prints of other addresses.
func TestStatusLive(t *testing.T) {
	w, p, _, stderr := fleetProgram(t, "run", "--once")
	w.addBuild(13)
	w.buildkite.AdvanceTo(start)
	if code := p.run(t.Context()); code != invocation.ExitOK {
		t.Fatal(code, stderr)
	}
	later := start.Add(time.Minute)
	w.buildkite.AdvanceTo(later)
	live := func(args ...string) (int, string, string) {
		t.Helper()
		args = append([]string{"status", "--live", "http://" + listenAddress(stderr.String())}, args...)
		return execute(t, program{invocation.Program{Args: args, Clock: stoppedClock{later}}})
	}
	p.Args = []string{"run", "--listen", "127.0.0.1:0", "--startup-jitter", "0s"}
	runScripted(t, p, later, func() {
		table := ""
		until(func() bool {
			_, table, _ = live("default")
			return strings.Contains(table, "the last tick ended 0s ago")
		})
		for _, want := range []string{
			", branch main of " + w.git.URL + "/fleet.git: ", "OVERLAY  QUEUE    STATE       DISPATCHES  IN-FLIGHT  PENDING",
			"default  default  MaxReached  1           10         13", "\n\noverlay default: ScalingLimited=True (MaxReached): ", "\n  Raise max",
		} {
			if !strings.Contains(table, want) {
				t.Errorf("no %q in\n%s", want, table)
			}
		}
		if code, document, _ := live("-o", "json"); code != invocation.ExitOK || !strings.Contains(document, `"reason": "MaxReached"`) {
			t.Errorf("exit code %d, %s", code, document)
		}
		if code, names, _ := live("-o", "name"); code != invocation.ExitOK || names != "overlays/default\n" {
			t.Errorf("exit code %d, %s", code, names)
		}
		if code, _, errs := live("defaul"); code != invocation.ExitUsage || !strings.Contains(errs, "did you mean default?") {
			t.Errorf("exit code %d, %s", code, errs)
		}
	})

	other := httptest.NewServer(w.buildkite)
	gone := httptest.NewServer(nil)
	gone.Close()
	defer other.Close()
	for address, want := range map[string]string{
		gone.URL:               "refuses the connection: check the address",
		other.URL:              "check the address",
		w.git.URL + "/nowhere": "the answer is 404 Not Found",
	} {
		code, out, errs := execute(t, program{invocation.Program{Args: []string{"status", "--live", address}}})
		if code != invocation.ExitOutside || out != "" || !strings.HasPrefix(errs, "muster: reading "+address) || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %q, %q, want %q", address, code, out, errs, want)
		}
	}
}
