package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/gitops/canarytest"
)

// agentTokenFile is a file with the agents' token.
func agentTokenFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent-token")
	if err := os.WriteFile(file, []byte(canarytest.AgentToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestMetricsTriggerTicks: the program as it is reads the metrics between two ticks, and
// orders for a job that they show. Its interval is a day: what orders is the metrics, or the
// test does not end.
func TestMetricsTriggerTicks(t *testing.T) {
	t.Parallel()
	k := thisClock(t)
	k.start([]string{"MUSTER_AGENT_TOKEN_FILE=" + agentTokenFile(t)}, "--agent-endpoint", k.api.URL+"/v3", "--webhook-interval", "1s", "--log-level", "debug")
	k.says("nothing to do")
	k.addBuild(3)
	k.says("agents=3")
	k.stop()
	if text := k.process.text(); strings.Contains(text, canarytest.AgentToken) {
		t.Error(text)
	}
}

// TestAgentTokenFlags: agent tokens that cannot be read, and an address that is none.
func TestAgentTokenFlags(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--agent-token-file /nowhere":                                       "reading the agent token: open /nowhere: no such file",
		"--agent-token-file " + empty:                                       "reading the agent token: " + empty + " is empty",
		"--agent-endpoint ftp://x/ --agent-token-file " + agentTokenFile(t): "the address of Buildkite's Agent API is not one",
	} {
		var out bytes.Buffer
		p := program{
			args: append([]string{"run", "--repo", "https://git.invalid/fleet.git", "--buildkite-org", "acme"}, strings.Fields(args)...), stdout: io.Discard, stderr: &out,
			clock: stoppedClock{start}, environ: []string{"BUILDKITE_API_TOKEN=" + canarytest.BuildkiteToken},
		}
		if code := p.run(t.Context()); code != exitUsage || !strings.Contains(out.String(), want) {
			t.Errorf("run %s: %d %s", args, code, &out)
		}
	}
}
