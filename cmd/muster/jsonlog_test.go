package main

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"muster/cmd/invocation"
	"muster/gitops/branch"
)

// TestErrorsOfRun asserts that with a log in JSON run prints nothing but JSON, and that the last
// line contains the error; that with a log in text, and for other commands, the error is text.
func TestErrorsOfRun(t *testing.T) {
	w, fleet, _, _ := fleetProgram(t)
	policy := branch.Change{Path: "overlays/a/scaling.yaml", Content: []byte("kind: ScalingPolicy\nspec: {maximum: 1, queue: 7}\n")}
	_, err := w.repo.Commit("An invalid overlay", start, policy)
	check(t, err)
	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	remote := append(fleet.Environ, "MUSTER_STARTUP_JITTER=0s")
	const asJSON, asText = "MUSTER_LOG_FORMAT=json", "MUSTER_LOG_FORMAT=text"
	for name, c := range map[string]struct {
		environ []string
		args    string
		code    int
		err     string
		text    bool
	}{
		"address taken":    {remote, "run --log-format=json --listen " + taken.Addr().String(), invocation.ExitUsage, "listening for ", false},
		"no such branch":   {remote, "run --log-format=json --once --branch trunk", invocation.ExitOutside, "fleet repository: ", false},
		"invalid overlay":  {remote, "run --log-format json --once", invocation.ExitUsage, "spec.maximum", false},
		"high level":       {remote, "run --log-format=json --log-level error+4 --once", invocation.ExitUsage, "spec.maximum", false},
		"no token":         {[]string{asJSON, remote[0], "MUSTER_BUILDKITE_ORG=acme"}, "run", invocation.ExitUsage, "no Buildkite token", false},
		"unknown flag":     {[]string{asJSON}, "run --fly", invocation.ExitUsage, "unknown flag: --fly", false},
		"flag before":      {nil, "run --fly --log-format json", invocation.ExitUsage, "unknown flag: --fly", false},
		"argument":         {[]string{asJSON}, "run fast", invocation.ExitUsage, "takes no argument", false},
		"unknown variable": {[]string{asJSON, "MUSTER_INTERVALL=1s"}, "run", invocation.ExitUsage, "belongs to no flag", false},
		"level":            {nil, "run --log-format=json --log-level loud", invocation.ExitUsage, "--log-level", false},
		"other command":    {[]string{asJSON}, "plan --fly", invocation.ExitUsage, "unknown flag: --fly", true},
		"text":             {[]string{asText}, "run --fly", invocation.ExitUsage, "unknown flag: --fly", true},
		"text by flag":     {[]string{asJSON}, "run --log-format=text --fly", invocation.ExitUsage, "unknown flag: --fly", true},
	} {
		code, stdout, stderr := execute(t, program{invocation.Program{Args: strings.Fields(c.args), Environ: c.environ}})
		if c.text {
			if code != c.code || stdout+stderr != "muster: "+c.err+"\n" {
				t.Errorf("%s: exit code %d, printed %s%s", name, code, stdout, stderr)
			}
			continue
		}
		var last map[string]any
		for line := range strings.Lines(stdout + stderr) {
			last = nil
			if err := json.Unmarshal([]byte(line), &last); err != nil {
				t.Errorf("%s: not JSON: %v: %s", name, err, line)
			}
		}
		text, _ := last["err"].(string)
		if code != c.code || last["level"] != "ERROR" || last["msg"] != invocation.EndedText || !strings.Contains(text, c.err) || strings.Contains(text, "muster: ") {
			t.Errorf("%s: exit code %d, want %d and an error with %q; it printed\n%s", name, code, c.code, c.err, stderr)
		}
	}
}
