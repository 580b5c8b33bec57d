package main

import (
	"encoding/json"
	"errors"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"muster/gitops/branch"
	"muster/gitops/canarytest"
)

// TestErrorsAreJSON: all that run prints with a log in JSON is JSON, line by line,
// and the last line says why it ended, with the exit code that the text has.
func TestErrorsAreJSON(t *testing.T) {
	t.Parallel()
	w, err := newScenario(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.api.Close)
	t.Cleanup(w.agents.Close)
	t.Cleanup(w.git.Close)
	policy := branch.Change{Path: "overlays/a/scaling.yaml", Content: []byte("kind: ScalingPolicy\nspec: {maximum: 1, queue: 7}\n")}
	if _, err := w.repo.Commit("A fleet", start, policy); err != nil {
		t.Fatal(err)
	}
	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	remote := []string{"MUSTER_REPO=" + w.git.URL + "/fleet.git", "MUSTER_BUILDKITE_ORG=acme", "MUSTER_BUILDKITE_URL=" + w.api.URL + "/",
		"BUILDKITE_API_TOKEN=" + canarytest.BuildkiteToken, "MUSTER_STARTUP_JITTER=0s"}
	const asJSON = "MUSTER_LOG_FORMAT=json"
	for name, c := range map[string]struct {
		environ []string
		args    string
		code    int
		err     string
	}{
		"address taken":    {remote, "run --log-format=json --listen " + taken.Addr().String(), exitUsage, "listening for "},
		"no such branch":   {remote, "run --log-format=json --once --branch trunk", exitOutside, "fleet repository: "},
		"invalid overlay":  {remote, "run --log-format json --once", exitUsage, "spec.maximum"},
		"high level":       {remote, "run --log-format=json --log-level error+4 --once", exitUsage, "spec.maximum"},
		"no token":         {[]string{asJSON, remote[0], remote[1]}, "run", exitUsage, "no Buildkite token"},
		"unknown flag":     {[]string{asJSON}, "run --fly", exitUsage, "unknown flag: --fly"},
		"flag before":      {nil, "run --fly --log-format json", exitUsage, "unknown flag: --fly"},
		"argument":         {[]string{asJSON}, "run fast", exitUsage, "takes no argument"},
		"unknown variable": {[]string{asJSON, "MUSTER_INTERVALL=1s"}, "run", exitUsage, "belongs to no flag"},
		"level":            {nil, "run --log-format=json --log-level loud", exitUsage, "--log-level"},
	} {
		t.Run(name, func(t *testing.T) {
			p := started(t, c.environ, strings.Fields(c.args)...)
			var exit *exec.ExitError
			if err := p.Wait(); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			var last map[string]any
			for line := range strings.Lines(p.text()) {
				last = nil
				if err := json.Unmarshal([]byte(line), &last); err != nil {
					t.Errorf("not JSON: %v: %s", err, line)
				}
			}
			text, _ := last["err"].(string)
			if code := p.ProcessState.ExitCode(); code != c.code || last["level"] != "ERROR" || last["msg"] != endedText || !strings.Contains(text, c.err) {
				t.Errorf("exit code %d, want %d and an error with %q; it printed\n%s", code, c.code, c.err, p.text())
			}
			if strings.Contains(text, "muster: ") {
				t.Errorf("a line of text has its beginning still: %q", text)
			}
		})
	}
}

// TestErrorsAreText: the other commands print text, and so does run unless JSON is
// asked for.
func TestErrorsAreText(t *testing.T) {
	t.Parallel()
	for _, c := range [][]string{{"MUSTER_LOG_FORMAT=json", "plan", "--fly"}, {"MUSTER_LOG_FORMAT=text", "run", "--fly"}, {"MUSTER_LOG_FORMAT=json", "run", "--log-format=text", "--fly"}} {
		p := started(t, slices.Clip(c[:1]), c[1:]...)
		_ = p.Wait()
		if code := p.ProcessState.ExitCode(); code != exitUsage || p.text() != "muster: unknown flag: --fly\n" {
			t.Errorf("%q: exit code %d, printed %s", c, code, p.text())
		}
	}
}
