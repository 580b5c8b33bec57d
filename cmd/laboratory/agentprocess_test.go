package laboratory

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/cmd/evidence"
)

// parentVariable makes the test binary start an agent, whose program and directory it has, and wait to be killed.
const parentVariable = "TEST_PARENT_OF_AGENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentVariable); dir != "" {
		if _, err := fakeAgent(dir).start(context.Background(), evidence.Agent{Name: "a"}); err != nil {
			panic(err)
		}
		time.Sleep(time.Minute)
		return
	}
	os.Exit(m.Run())
}

// fakeAgent returns a program in a directory, which writes its arguments, environment and signals into files there.
func fakeAgent(dir string) agentProgram {
	return agentProgram{
		path: filepath.Join(dir, "agent"), dir: dir, environ: append(os.Environ(), "BUILDKITE_AGENT_NAME=other"), now: time.Now,
		token: func() (string, error) { return "secret", nil },
	}
}

func writeAgent(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	script := `#!/bin/sh
trap 'echo quit >"$0.quit"; exit 7' QUIT
echo "$@" >"$0.args"; env >"$0.env"
touch "$0.beat" "$0.started"
while :; do touch "$0.beat"; sleep 0.05; done
`
	if err := os.WriteFile(filepath.Join(dir, "agent"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// until waits for a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %s", what)
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// TestAgentProcess asserts that an agent gets its flags but nothing of the user's configuration, that it stops as it
// is, and disconnects after that.
func TestAgentProcess(t *testing.T) {
	dir := writeAgent(t)
	file := filepath.Join(dir, "agent")
	p, err := fakeAgent(dir).start(t.Context(), evidence.Agent{Name: "a", Slugs: []string{"muster-live-x-jobs", "muster-live-x-failing"}, Tags: []string{"queue=q", "x=y"}, Priority: 3, AfterJob: true, IdleTimeout: time.Minute, Uptime: time.Hour, HookFails: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	until(t, "the start", func() bool { return exists(file + ".started") })
	args, _ := os.ReadFile(file + ".args")
	for _, want := range []string{"start --no-color ", " --tags queue=q,x=y --priority 3 --disconnect-after-idle-timeout 60 --disconnect-after-job --disconnect-after-uptime 3600\n"} {
		if !strings.Contains(string(args), want) {
			t.Errorf("the arguments lack %q: %s", want, args)
		}
	}
	env, _ := os.ReadFile(file + ".env")
	if lines := strings.Split(string(env), "\n"); slices.Contains(lines, "BUILDKITE_AGENT_NAME=other") || !slices.Contains(lines, "BUILDKITE_AGENT_TOKEN=secret") {
		t.Errorf("the environment is %s", env)
	}
	if out, err := exec.Command(filepath.Join(dir, "a", "hooks", "agent-startup")).CombinedOutput(); err == nil {
		t.Errorf("the hook does not fail: %s", out)
	}
	variables := filepath.Join(dir, "variables")
	for text, accepted := range map[string]bool{
		`BUILDKITE_PIPELINE_SLUG="muster-live-x-jobs"`: true,
		"": false,
		`BUILDKITE_PIPELINE_SLUG="muster-live-x-failing"`:                                                      true,
		`BUILDKITE_PIPELINE_SLUG="muster-live-x-other"`:                                                        false,
		`BUILDKITE_PIPELINE_SLUG="muster-live-x-"`:                                                             false,
		`BUILDKITE_PIPELINE_SLUG="other"`:                                                                      false,
		`BUILDKITE_PIPELINE_SLUG="my-muster-live-x-jobs"`:                                                      false,
		"X\nBUILDKITE_PIPELINE_SLUG=\"muster-live-x-jobs\"\nBUILDKITE_PIPELINE_SLUG=\"other\"":                 false,
		"BUILDKITE_PIPELINE_SLUG=\"other\"\nBUILDKITE_LABEL=\"\\nBUILDKITE_PIPELINE_SLUG=muster-live-x-jobs\"": false,
	} {
		if err := os.WriteFile(variables, []byte("BUILDKITE_LABEL=\"test\"\n"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		hook := exec.Command(filepath.Join(dir, "a", "hooks", "pre-bootstrap"))
		hook.Env = []string{"PATH=" + os.Getenv("PATH"), "BUILDKITE_ENV_FILE=" + variables}
		if out, err := hook.CombinedOutput(); (err == nil) != accepted {
			t.Errorf("a job with %s is accepted: %t\n%s", text, err == nil, out)
		}
	}
	p.Freeze()
	beat := func() time.Time {
		info, err := os.Stat(file + ".beat")
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	until(t, "the process to stop", func() bool { return time.Since(beat()) > 300*time.Millisecond })
	if _, _, exited := p.Exited(); exited {
		t.Error("it has exited")
	}
	p.Stop()
	until(t, "the exit", func() bool { _, _, exited := p.Exited(); return exited })
	if code, _, _ := p.Exited(); code != 7 || !exists(file+".quit") {
		t.Errorf("the exit code is %d", code)
	}
}

// TestAgentsEndWithParent asserts that an agent disconnects after live was killed.
func TestAgentsEndWithParent(t *testing.T) {
	dir := writeAgent(t)
	file := filepath.Join(dir, "agent")
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+dir)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the start", func() bool { return exists(file + ".started") })
	if err := parent.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	until(t, "the agent to disconnect", func() bool { return exists(file + ".quit") })
}
