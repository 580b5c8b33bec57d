package base

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// eachShell runs the test in every shell that the command must run in and that
// this machine has; sh must be there. It says which it did not try.
func eachShell(t *testing.T, test func(t *testing.T, shell []string)) {
	for _, argv := range [][]string{{"sh"}, {"dash"}, {"bash", "--posix"}, {"busybox", "sh"}} {
		name := argv[0]
		path, err := exec.LookPath(name)
		if err != nil {
			if name == "sh" {
				t.Fatal(err)
			}
			t.Logf("not tried in %s: this machine has none", name)
			continue
		}
		shell := append([]string{path}, argv[1:]...)
		t.Run(name, func(t *testing.T) { test(t, shell) })
	}
}

// formerBash are versions of bash that keep a here-document in a file. A later bash does so
// with BASH_COMPAT (manual of bash, "Shell Compatibility Mode").
var formerBash = []string{"4.4", "5.0"}

// leaseEnd is the end of the lease in these tests.
const leaseEnd = "2026-11-21T02:30:00Z"

// stamped returns what muster writes on a pod.
func stamped() map[string]string {
	return map[string]string{
		"muster.dev/not-after":    leaseEnd,
		"muster.dev/idle-timeout": "300",
		"muster.dev/purpose":      "demand",
		"muster.dev/ordered-at":   "2026-11-21T02:15:00Z",
		"muster.dev/agent-tags":   "queue=default,os=linux,overlay=default,dispatch=default-7f3k9c2b",
	}
}

// pod is one run of the container's command.
type pod struct {
	shell       []string
	annotations map[string]string
	// clock is what "date -u +%Y%m%d%H%M%S" answers; empty for the real one.
	clock string
	// index is what the Job controller says; empty for a Job that is not Indexed.
	index string
	// token is the Secret's content; empty for a usual one.
	token string
	// env is what an owner added to the container.
	env []string
}

// result is what came of it.
type result struct {
	exit   int
	output string
	// agent is the agent's command line, nil if none was started.
	agent []string
	// token is what the agent reads from file descriptor 3, and tokenFrom the
	// kind of file that it is.
	token, tokenFrom string
	// files is what the agent's open files contain then, and those below TMPDIR.
	files string
	// environ is what /proc shows of the agent's environment.
	environ string
	// pid is the process the kubelet started, and agentPID the agent's.
	pid, agentPID string
	// hooks is the directory of the hook, and bin that of the stand-ins.
	hooks, bin string
}

// run does what the kubelet does with the command of job.yaml: it resolves the
// environment and starts the process, here with stand-ins for the agent's
// entry point and the clock.
func (p pod) run(t *testing.T) result {
	t.Helper()
	c := readContainer(t)
	if len(c.Command) != 3 || c.Command[0] != "/bin/sh" || len(c.Args) != 0 {
		t.Fatalf("command is %q with args %q, want /bin/sh, flags, script", c.Command, c.Args)
	}
	if p.token == "" {
		p.token = usualToken
	}
	bin, tmp, record := t.TempDir(), t.TempDir(), t.TempDir()
	script(t, bin, "buildkite-agent-entrypoint", `cd `+record+`
		readlink /proc/$$/fd/3 >from
		cat <&3 >token
		for file in /proc/$$/fd/* "$TMPDIR"/* "$TMPDIR"/*/*; do [ ! -f "$file" ] || cat "$file" >>files; done
		cat /proc/$$/environ >environ
		printf '%s\n' "$$" "$@" >agent`)
	tools := []string{"tr", "mkdir", "cat", "chmod", "readlink", "date"}
	if p.clock != "" {
		tools = tools[:len(tools)-1]
		setClock(t, bin, p.clock)
	}
	for _, tool := range tools {
		link(t, bin, tool, p.shell)
	}
	env := append([]string{"PATH=" + bin, "TMPDIR=" + tmp}, p.env...)
	if p.index != "" {
		env = append(env, "JOB_COMPLETION_INDEX="+p.index)
	}
	for _, e := range c.Env {
		value := e.Value
		if ref := e.ValueFrom.FieldRef; ref != nil {
			key, ok := strings.CutPrefix(ref.FieldPath, "metadata.annotations['")
			key, ok2 := strings.CutSuffix(key, "']")
			if !ok || !ok2 {
				t.Fatalf("fieldPath %q names no annotation", ref.FieldPath)
			}
			value = p.annotations[key] // a missing annotation is an empty variable
		}
		if ref := e.ValueFrom.SecretKeyRef; ref != nil {
			if ref.Name != "buildkite-agent" || ref.Key != "token" {
				t.Errorf("%s comes from Secret %s, key %s", e.Name, ref.Name, ref.Key)
			}
			value = p.token
		}
		env = append(env, e.Name+"="+value)
	}
	argv := append(slices.Clone(p.shell), c.Command[1:]...)
	if p.clock != "" {
		argv[len(argv)-1] = ownClock(t, p.shell, bin) + argv[len(argv)-1]
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var r result
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatal(err)
		}
		r.exit = exit.ExitCode()
	}
	r.output, r.pid = out.String(), strconv.Itoa(cmd.Process.Pid)
	r.hooks, r.bin = filepath.Join(tmp, "muster-hooks"), bin
	if text := read(t, record, "agent"); text != "" {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		r.agentPID, r.agent = lines[0], lines[1:]
		r.token, r.tokenFrom, r.environ = read(t, record, "token"), read(t, record, "from"), read(t, record, "environ")
		r.files = read(t, record, "files")
	}
	return r
}

// usualToken is the agent's token in these tests.
const usualToken = "bkct_4f1c0a"

// read returns a file's content; nothing when there is none.
func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// setClock says what "date -u +%Y%m%d%H%M%S" answers.
func setClock(t *testing.T, bin, clock string) {
	t.Helper()
	script(t, bin, "date", `[ "$*" = "-u +%Y%m%d%H%M%S" ] && echo `+clock)
}

// ownClock makes a shell ask the stand-in for the clock where it would not look for one: a
// busybox that prefers its own commands to those of the PATH, as of Debian's busybox-static.
// It is empty for all others.
func ownClock(t *testing.T, shell []string, bin string) string {
	t.Helper()
	if filepath.Base(shell[0]) != "busybox" {
		return ""
	}
	dir := t.TempDir()
	script(t, dir, "date", "echo stand-in")
	cmd := exec.Command(shell[0], append(slices.Clone(shell[1:]), "-c", "date")...)
	cmd.Env = []string{"PATH=" + dir}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(out) == "stand-in\n" {
		return ""
	}
	return "date() { " + bin + "/date \"$@\"; }\n"
}

// script writes an executable that needs nothing but a shell.
func script(t *testing.T, dir, name, body string) {
	t.Helper()
	text := "#!/bin/sh\n" + body + "\n"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// link makes a tool available: busybox's own where busybox is the shell.
func link(t *testing.T, dir, tool string, shell []string) {
	t.Helper()
	target := shell[0]
	if filepath.Base(target) != "busybox" {
		var err error
		if target, err = exec.LookPath(tool); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(target, filepath.Join(dir, tool)); err != nil {
		t.Fatal(err)
	}
}

func TestAgentStartsWithinTheLease(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		got := pod{shell: shell, annotations: stamped(), clock: "20261121021642", index: "11"}.run(t)
		want := []string{
			"start",
			"--token", "fd://3",
			"--name", "%hostname",
			"--spawn", "1",
			"--tags", "queue=default,os=linux,overlay=default,dispatch=default-7f3k9c2b,index=11",
			"--priority", "2",
			"--disconnect-after-job",
			"--disconnect-after-idle-timeout", "300",
			"--additional-hooks-paths", got.hooks,
			"--health-check-addr", ":18080",
		}
		if diff := cmp.Diff(want, got.agent); diff != "" {
			t.Errorf("the agent's command line (-want +got):\n%s", diff)
		}
		if got.exit != 0 || got.output != "" {
			t.Errorf("exit %d, output %q", got.exit, got.output)
		}
		if got.agentPID != got.pid {
			t.Errorf("the agent is process %s, want %s: SIGTERM would end the shell and not reach it", got.agentPID, got.pid)
		}
	})
}

// The token reaches the agent as it stands in the Secret, and nothing that a
// build can look at holds it: not the environment of process 1, nor a file that
// the shell left open there or in a directory.
func TestTokenIsForTheAgentAlone(t *testing.T) {
	odd := "a b\tc $HOME `date` $(date) \\ \\n ' \" * ? ~ # & ; | < > { } END ü €"
	test := func(t *testing.T, p pod) {
		for _, token := range []string{usualToken, odd, "END", "-n", "one\ntwo\nEND\nthree", strings.Repeat("x", 1000)} {
			p.annotations, p.clock, p.index, p.token = stamped(), "20261121021642", "0", token
			got := p.run(t)
			if got.token != token+"\n" {
				t.Errorf("token %q: the agent reads %q; output %q", token, got.token, got.output)
			}
			if !strings.HasPrefix(got.tokenFrom, "pipe:") {
				t.Errorf("the token comes through %q, want a pipe, which is empty once it was read", got.tokenFrom)
			}
			if !strings.Contains(got.files, leaseEnd) || len(token) > 4 && strings.Contains(got.files, token) {
				t.Errorf("token %q: the files contain %q, want the hook and no token", token, got.files)
			}
			if !strings.Contains(got.environ, "MUSTER_NOT_AFTER=") || strings.Contains(got.environ, "BUILDKITE_AGENT_TOKEN") ||
				len(token) > 4 && strings.Contains(got.environ, token) {
				t.Errorf("token %q: the environment is %q", token, got.environ)
			}
			if got.agentPID != got.pid {
				t.Errorf("token %q: the agent is process %s, want %s", token, got.agentPID, got.pid)
			}
		}
	}
	eachShell(t, func(t *testing.T, shell []string) {
		test(t, pod{shell: shell})
		if filepath.Base(shell[0]) == "bash" {
			for _, version := range formerBash {
				t.Run(version, func(t *testing.T) { test(t, pod{shell: shell, env: []string{"BASH_COMPAT=" + version}}) })
			}
		}
	})
}

// The agent runs the hook when it has registered and before it connects: by
// then the lease may be over.
func TestHookEndsALateAgent(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		got := pod{shell: shell, annotations: stamped(), clock: "20261121021642", index: "0"}.run(t)
		for clock, connects := range map[string]bool{
			"20261121021643": true, "20261121022959": true, "20261121023000": true,
			"20261121023001": false, "20261122000000": false, "20270101000000": false,
			"''": false, "Sat": false,
		} {
			setClock(t, got.bin, clock)
			hook := filepath.Join(got.hooks, "agent-startup")
			info, err := os.Stat(hook)
			if err != nil || info.Mode().Perm()&0o111 != 0o111 || !strings.HasPrefix(read(t, got.hooks, "agent-startup"), "#!/bin/sh\n") {
				t.Fatalf("the agent cannot run the hook: %v, %v", info, err)
			}
			run := []string{hook}
			if its := ownClock(t, shell, got.bin); its != "" {
				run = []string{"-c", its + ". " + hook}
			}
			cmd := exec.Command(shell[0], append(slices.Clone(shell[1:]), run...)...)
			cmd.Env = []string{"PATH=" + got.bin} // of the pod's variables it needs none
			text, err := cmd.CombinedOutput()
			if (err == nil) != connects || !connects && !strings.Contains(string(text), leaseEnd) {
				t.Errorf("at %s the hook ends with %v, says %q; want that the agent connects: %t", clock, err, text, connects)
			}
		}
	})
}

func TestOwnersHooksStay(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		got := pod{
			shell: shell, annotations: stamped(), clock: "20261121021642", index: "0",
			env: []string{"BUILDKITE_ADDITIONAL_HOOKS_PATHS=/hooks/one,/hooks/two"},
		}.run(t)
		if want := got.hooks + ",/hooks/one,/hooks/two"; !slices.Contains(got.agent, want) {
			t.Errorf("the agent's command line is %q, want --additional-hooks-paths %s", got.agent, want)
		}
	})
}

func TestNowhereToWriteStartsNoAgent(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		got := pod{
			shell: shell, annotations: stamped(), clock: "20261121021642", index: "0",
			env: []string{"TMPDIR=/proc/nowhere"},
		}.run(t)
		if got.agent != nil || got.exit == 0 || !strings.Contains(got.output, "/proc/nowhere") {
			t.Errorf("agent %q, exit %d, output %q, want none and a failure that names the directory", got.agent, got.exit, got.output)
		}
	})
}

// TestFlagsOfPurposeAndUptime: an agent of the warm pool yields to those that were ordered for
// jobs. A reusable agent takes several jobs until its uptime ends; others take one.
func TestFlagsOfPurposeAndUptime(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		for _, test := range []struct{ purpose, idle, uptime, want string }{
			{"warm-pool", "3600", "", " --priority 1 --disconnect-after-job --disconnect-after-idle-timeout 3600 "},
			{"demand", "300", "900", " --priority 2 --disconnect-after-uptime 900 --disconnect-after-idle-timeout 300 "},
		} {
			annotations := stamped()
			annotations["muster.dev/purpose"] = test.purpose
			annotations["muster.dev/idle-timeout"] = test.idle
			annotations["muster.dev/uptime"] = test.uptime
			got := pod{shell: shell, annotations: annotations, clock: "20261121021642", index: "0"}.run(t)
			line := strings.Join(got.agent, " ")
			if !strings.Contains(line, test.want) || strings.Count(line, "--disconnect-after-") != 2 || got.exit != 0 {
				t.Errorf("the command line is %q, want%sin it; exit %d, output %q", line, test.want, got.exit, got.output)
			}
		}
	})
}

func TestLease(t *testing.T) {
	tests := []struct {
		name, clock string
		starts      bool
	}{
		{"a second before its end", "20261121022959", true},
		{"at its end", "20261121023000", true},
		{"a second after its end", "20261121023001", false},
		{"a minute after its end", "20261121023100", false},
		{"a day after, earlier in the day", "20261122000000", false},
		{"a year after, earlier in the year", "20270101000000", false},
		{"a day before, later in the day", "20261120235959", true},
	}
	eachShell(t, func(t *testing.T, shell []string) {
		for _, test := range tests {
			got := pod{shell: shell, annotations: stamped(), clock: test.clock, index: "0"}.run(t)
			if started := got.agent != nil; started != test.starts || got.exit != 0 {
				t.Errorf("%s: started %t, exit %d, want %t and 0; output %q",
					test.name, started, got.exit, test.starts, got.output)
			}
			if !test.starts && !strings.Contains(got.output, leaseEnd) {
				t.Errorf("%s: output %q does not say when the lease ended", test.name, got.output)
			}
		}
	})
}

func TestLeaseByTheRealClock(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		for _, left := range []time.Duration{time.Hour, -time.Hour} {
			annotations := stamped()
			annotations["muster.dev/not-after"] = time.Now().Add(left).UTC().Format(time.RFC3339)
			got := pod{shell: shell, annotations: annotations, index: "0"}.run(t)
			if started := got.agent != nil; started != (left > 0) || got.exit != 0 {
				t.Errorf("%s left: started %t, exit %d, output %q", left, started, got.exit, got.output)
			}
		}
	})
}

func TestIncompleteJobStartsNoAgent(t *testing.T) {
	tests := []struct {
		name, key string
		values    []string // the empty string is also the missing annotation
	}{
		{"lease", "muster.dev/not-after", []string{
			"", "never", "2026-11-21", "2026-11-21T02:30:00", "2026-11-21T02:30:00+01:00",
			"2026-11-21 02:30:00Z", "20261121023000", "99999-11-21T02:30:00Z", "$(date)", "2026-11-21T02:30:00Z\n",
			"2026-11-21T02:30:00.5Z", "٢٠٢٦-11-21T02:30:00Z",
		}},
		{"idle time-out", "muster.dev/idle-timeout", []string{"", "0", "5m", "-300", "300 --debug", "3e2"}},
		{"tags", "muster.dev/agent-tags", []string{"", "=", "queue", "queue=", "=default"}},
		{"uptime", "muster.dev/uptime", []string{"0", "030", "30m", "-1", "1800 --debug", "$(date)", " "}},
	}
	eachShell(t, func(t *testing.T, shell []string) {
		for _, test := range tests {
			for _, value := range test.values {
				annotations := stamped()
				annotations[test.key] = value
				got := pod{shell: shell, annotations: annotations, clock: "20260101000000", index: "0"}.run(t)
				if got.agent != nil || got.exit != 1 || !strings.Contains(got.output, test.key) {
					t.Errorf("%s %q: agent %q, exit %d, output %q, want none, 1 and the annotation's name",
						test.name, value, got.agent, got.exit, got.output)
				}
			}
		}
		for _, index := range []string{"", "x"} {
			got := pod{shell: shell, annotations: stamped(), clock: "20260101000000", index: index}.run(t)
			if got.agent != nil || got.exit != 1 {
				t.Errorf("index %q: agent %q, exit %d", index, got.agent, got.exit)
			}
		}
		got := pod{shell: shell, index: "0"}.run(t)
		if got.agent != nil || got.exit != 1 {
			t.Errorf("no annotation at all: agent %q, exit %d", got.agent, got.exit)
		}
	})
}

func TestUnreadableClockStartsNoAgent(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		for _, clock := range []string{"''", "Sat", "'2026 11'", "20261121T022959"} {
			got := pod{shell: shell, annotations: stamped(), clock: clock, index: "0"}.run(t)
			if got.agent != nil || got.exit == 0 {
				t.Errorf("clock %s: agent %q, exit %d, want none and a failure", clock, got.agent, got.exit)
			}
		}
	})
}
