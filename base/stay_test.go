package base

import (
	"strings"
	"testing"
)

// TestReusableAgent: a reusable agent takes several jobs until its uptime ends; others take one.
func TestReusableAgent(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		for uptime, want := range map[string]string{
			"":     " --disconnect-after-job --disconnect-after-idle-timeout 300 ",
			"1800": " --disconnect-after-uptime 1800 --disconnect-after-idle-timeout 300 ",
		} {
			annotations := stamped()
			annotations["muster.dev/uptime"] = uptime
			got := pod{shell: shell, annotations: annotations, clock: "20261121021642", index: "0"}.run(t)
			line := strings.Join(got.agent, " ")
			if !strings.Contains(line, want) || strings.Count(line, "--disconnect-after-") != 2 || got.exit != 0 {
				t.Errorf("uptime %q: the agent's command line is %q, want%sin it; exit %d, output %q", uptime, line, want, got.exit, got.output)
			}
		}
		for _, uptime := range []string{"0", "030", "30m", "-1", "1800 --debug", "$(date)", " "} {
			annotations := stamped()
			annotations["muster.dev/uptime"] = uptime
			got := pod{shell: shell, annotations: annotations, clock: "20261121021642", index: "0"}.run(t)
			if got.agent != nil || got.exit != 1 || !strings.Contains(got.output, "muster.dev/uptime") {
				t.Errorf("uptime %q: agent %q, exit %d, output %q, want none, 1 and the annotation's name", uptime, got.agent, got.exit, got.output)
			}
		}
	})
}
