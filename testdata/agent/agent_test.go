package agent

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
)

// eachMode runs the test with an agent that streams, which is what the image
// does by itself, and with one that has to poll.
func eachMode(t *testing.T, test func(t *testing.T, o fakebuildkite.Options)) {
	t.Parallel()
	for name, poll := range map[string]bool{"streaming": false, "polling": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fakebuildkite.Options{NoStreaming: poll})
		})
	}
}

// build asks for jobs that end with the exit code once gate is called.
func (p *pod) build(jobs int, exit int) (gate func()) {
	path := filepath.Join(p.home, "gate")
	p.CreateBuild(fakebuildkite.Build{Cluster: p.cluster, Steps: []fakebuildkite.Step{{
		Parallelism: jobs,
		Command:     "until [ -e " + path + " ]; do sleep 0.05; done; echo the job has run; exit " + strconv.Itoa(exit),
	}}})
	return func() { p.write("gate", "") }
}

// states are the states of all jobs, in order.
func (w *world) states() []string {
	var states []string
	for _, j := range w.Jobs() {
		states = append(states, j.State)
	}
	return states
}

func (p *pod) wantStates(want ...string) {
	p.t.Helper()
	if got := p.states(); !slices.Equal(got, want) {
		p.t.Errorf("the jobs are %v, want %v", got, want)
	}
}

func (p *pod) wantRequests(want ...string) {
	p.t.Helper()
	if got := p.requests(); !slices.Equal(got, want) {
		p.t.Errorf("the agent asked %v, want %v", got, want)
	}
}

func (p *pod) wantSaid(want string) {
	p.t.Helper()
	if !strings.Contains(p.out.String(), want) {
		p.t.Errorf("the pod did not say %q", want)
	}
}

// TestRegistration asserts that an agent registers with the name and the tags that muster expects,
// also if variables of the environment set others.
func TestRegistration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fakebuildkite.Options{})
	p := w.start(options{env: []string{
		"BUILDKITE_AGENT_TAGS=queue=other,dispatch=other", "BUILDKITE_AGENT_NAME=other", "BUILDKITE_AGENT_SPAWN=3", "BUILDKITE_AGENT_PRIORITY=9",
	}})
	p.connects()
	host, err := os.Hostname()
	must(t, err)
	got := w.Agents()[0]
	want := []string{"queue=default", "overlay=default", "dispatch=default-7f3k9c2b", "index=0"}
	if got.Name != host || !slices.Equal(got.Tags, want) {
		t.Errorf("the agent is %q with tags %v, want %q with %v", got.Name, got.Tags, host, want)
	}
	p.wantRequests("register", "connect")
}

// TestOneJob: the agent takes one job, whatever comes of it, and leaves with
// exit code 0; a second job is another agent's.
func TestOneJob(t *testing.T) {
	t.Parallel()
	for exit, state := range map[int]string{0: "passed", 3: "failed"} {
		t.Run(state, func(t *testing.T) {
			eachMode(t, func(t *testing.T, o fakebuildkite.Options) {
				w := newWorld(t, o)
				p := w.start(options{})
				p.connects()
				gate := p.build(2, exit)
				p.until("it ran a job", func() bool { return w.states()[0] == "running" })
				p.wantCounts(counts{Own: 1, Busy: 1, Registered: 1, Worked: true})
				gate()
				p.ends(0)
				p.wantStates(state, "scheduled")
				p.wantCounts(counts{Registered: 1, Worked: true})
				p.wantRequests("register", "connect", "accept", "start", "finish", "disconnect")
				if log := w.JobLog(w.Jobs()[0].ID); !strings.Contains(log, "the job has run") {
					t.Errorf("the job's log is %q", log)
				}
				if a := w.Agents()[0]; a.Reason != fakebuildkite.EndedAfterJob || a.Jobs != 1 {
					t.Errorf("the agent is %+v", a)
				}
			})
		})
	}
}

// TestLingers: between its job and its next ping an agent that polls is listed
// as connected, without a job, and takes nothing.
func TestLingers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fakebuildkite.Options{NoStreaming: true})
	p := w.start(options{})
	id := p.connects()
	gate := p.build(2, 0)
	p.until("it ran a job", func() bool { return w.states()[0] == "running" })
	w.hold("/ping")
	gate()
	p.until("it finished its job", func() bool { return w.states()[0] == "passed" })
	finished := w.Jobs()[0].Finished.UTC().Truncate(time.Millisecond)
	snapshot, counted := w.look(p.overlay)
	if want := (counts{Stopping: 1, Registered: 1, Worked: true}); counted != want {
		t.Errorf("muster counts an agent that lingers as %+v, want %+v", counted, want)
	}
	connected := w.Agents()[0].Connected.UTC().Truncate(time.Millisecond)
	want := []plan.Agent{{
		ID: id, Cluster: w.cluster, State: plan.AgentIdle, Connected: connected, IdleSince: finished, LastJobFinished: finished,
		Tags: []string{"queue=default", "overlay=default", "dispatch=default-7f3k9c2b", "index=0"},
	}}
	if !reflect.DeepEqual(snapshot.Agents, want) {
		t.Errorf("agents %+v, want %+v", snapshot.Agents, want)
	}
	w.release("/ping")
	p.ends(0)
	p.wantStates("passed", "scheduled")
	p.wantCounts(counts{Registered: 1, Worked: true})
}

// TestIdleTimeout: an agent that no job came for leaves with exit code 0.
func TestIdleTimeout(t *testing.T) {
	eachMode(t, func(t *testing.T, o fakebuildkite.Options) {
		w := newWorld(t, o)
		w.hold("/disconnect")
		p := w.start(options{idle: 2 * time.Second})
		p.until("it left", func() bool { return w.count("disconnect") == 1 })
		p.wantCounts(counts{Own: 1, Spare: 1, Registered: 1})
		w.release("/disconnect")
		p.ends(0)
		p.wantCounts(counts{Registered: 1})
		p.wantRequests("register", "connect", "disconnect")
	})
}

// TestPause: a paused agent outlives its idle time-out, and begins a fresh one
// when it is resumed.
func TestPause(t *testing.T) {
	eachMode(t, func(t *testing.T, o fakebuildkite.Options) {
		const idle = 2 * time.Second
		w := newWorld(t, o)
		w.hold("/ping")
		w.hold("/StreamPings")
		p := w.start(options{idle: idle})
		p.until("it was connected", func() bool { return len(w.Agents()) == 1 })
		id := w.Agents()[0].ID
		w.PauseAgent(id)
		w.release("/ping")
		w.release("/StreamPings")
		later := w.Now().Add(2 * idle)
		p.until("twice its idle time-out had passed", func() bool { return w.Now().After(later) })
		p.wantCounts(counts{Stopping: 1, Registered: 1})
		resumed := time.Now()
		w.ResumeAgent(id)
		p.ends(0)
		if stayed := time.Since(resumed); stayed < idle {
			t.Errorf("it left %s after it was resumed, want no less than %s", stayed, idle)
		}
	})
}

// TestLeaseOver: a pod that comes after its lease asks Buildkite nothing.
func TestLeaseOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fakebuildkite.Options{})
	p := w.start(options{lease: -2 * time.Second})
	p.ends(0)
	p.wantSaid("muster: the lease expired at ")
	p.wantRequests()
	p.wantCounts(counts{})
}

// TestLateRegistration: Buildkite answers no agent until the lease is over. The
// agent registers then, and never connects.
func TestLateRegistration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fakebuildkite.Options{})
	const lease = 9 * time.Second // the agent's next try comes ten after its first
	w.RefuseAgents(w.Now(), w.Now().Add(lease+time.Second))
	p := w.start(options{lease: lease})
	p.until("it ended or connected", func() bool { return p.ended() || w.count("connect") > 0 })
	if w.count("connect") > 0 {
		t.Fatal("the agent connects after its lease")
	}
	p.ends(1)
	p.wantSaid("before this agent had registered: it does not connect")
	if w.count("register") < 2 {
		t.Errorf("the agent asked %v", w.requests())
	}
	p.wantCounts(counts{})
	if n := len(w.Agents()); n != 0 {
		t.Errorf("%d agents have connected", n)
	}
}

// TestConnectRetries: after the hook, an agent that registered within its lease tries to connect for
// 45 seconds.
func TestConnectRetries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fakebuildkite.Options{})
	w.Fail(fakebuildkite.Fault{Path: "/v3/connect", Status: http.StatusServiceUnavailable})
	p := w.start(options{})
	p.connects()
	p.wantRequests("register", "connect", "connect")
}

// TestSIGTERM: an idle agent leaves at once, one that works when its job has
// ended. A second SIGTERM cancels the job.
func TestSIGTERM(t *testing.T) {
	t.Parallel()
	t.Run("idle", func(t *testing.T) {
		eachMode(t, func(t *testing.T, o fakebuildkite.Options) {
			p := newWorld(t, o).start(options{})
			p.connects()
			p.sigterm()
			p.ends(0)
			p.wantRequests("register", "connect", "stop", "disconnect")
			p.wantCounts(counts{Registered: 1})
		})
	})
	t.Run("working", func(t *testing.T) {
		eachMode(t, func(t *testing.T, o fakebuildkite.Options) {
			p := newWorld(t, o).start(options{})
			p.connects()
			gate := p.build(2, 0)
			p.until("it ran a job", func() bool { return p.states()[0] == "running" })
			p.sigterm()
			p.until("it said that it stops", func() bool { return p.Agents()[0].State == "stopping" })
			p.wantCounts(counts{Busy: 0, Stopping: 1, Registered: 1, Worked: true})
			gate()
			p.ends(0)
			p.wantStates("passed", "scheduled")
			p.wantRequests("register", "connect", "accept", "start", "stop", "finish", "disconnect")
		})
	})
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		p := newWorld(t, fakebuildkite.Options{}).start(options{})
		p.connects()
		p.build(1, 0)
		p.until("it ran a job", func() bool { return p.states()[0] == "running" })
		p.sigterm()
		p.until("it said that it stops", func() bool { return p.Agents()[0].State == "stopping" })
		p.sigterm()
		p.ends(0)
		p.wantStates("failed")
		p.wantRequests("register", "connect", "accept", "start", "stop", "finish", "disconnect")
	})
	t.Run("registering", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, fakebuildkite.Options{})
		w.RefuseAgents(w.Now(), w.Now().Add(time.Hour))
		p := w.start(options{})
		p.until("it tried to register", func() bool { return w.count("register") > 0 })
		p.sigterm()
		p.ends(128 + int(syscall.SIGTERM))
		p.wantRequests("register")
	})
}

// TestRefused: an error that retries cannot fix ends the agent at once.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		o        options
		requests []string
		said     string
	}{
		"wrong token":                  {options{token: "other"}, []string{"register"}, "Invalid agent token"},
		"no such queue":                {options{queue: "none"}, []string{"register"}, "one queue of the cluster"},
		"a queue in the environment":   {options{env: []string{"BUILDKITE_AGENT_QUEUE=default"}}, nil, "Queue must be present in only one of"},
		"no place for the agent's own": {options{env: []string{"TMPDIR=/proc/nowhere"}}, nil, "/proc/nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newWorld(t, fakebuildkite.Options{}).start(test.o)
			p.ends(1)
			p.wantRequests(test.requests...)
			p.wantSaid(test.said)
			p.wantCounts(counts{})
		})
	}
}

// TestCancelledBeforeAccepted: the agent waits for another job, and takes it.
// (SIGTERM must not come while it accepts one: then this version never ends, see
// docs/explanation/agent-job.md.)
func TestCancelledBeforeAccepted(t *testing.T) {
	eachMode(t, func(t *testing.T, o fakebuildkite.Options) {
		w := newWorld(t, o)
		p := w.start(options{})
		p.connects()
		w.hold("/accept")
		id := w.CreateBuild(fakebuildkite.Build{Cluster: w.cluster, Steps: []fakebuildkite.Step{{Command: "true"}}})
		p.until("it accepted a job", func() bool { return w.count("accept") == 1 })
		w.CancelBuild(id)
		w.release("/accept")
		p.until("it was told", func() bool { return strings.Contains(p.out.String(), "not this agent's") })
		p.wantCounts(counts{Own: 1, Spare: 1, Registered: 1})
		p.build(1, 0)()
		p.ends(0)
		p.wantStates("canceled", "passed")
	})
}

// shells are those in which the base's command runs, by the name of the program. bash is the
// /bin/sh of some images, and then in POSIX mode; with BASH_COMPAT it makes a here-document a file, as
// bash 4.4 and 5.0 do.
var shells = []shell{
	{"sh", "/bin/sh", nil}, {"dash", "sh", nil}, {"busybox", "sh", nil}, {"bash", "sh", nil}, {"bash", "bash", nil},
	{"bash", "sh", []string{"BASH_COMPAT=5.0"}}, {"bash", "bash", []string{"BASH_COMPAT=5.0"}},
	{"bash", "sh", []string{"BASH_COMPAT=4.4"}}, {"bash", "bash", []string{"BASH_COMPAT=4.4"}},
}

// TestTokenIsNowhereToRead asserts for each shell that while a build runs, nothing that it may look at has
// the agent's token: no variable, argument or open file of any of the pod's processes.
func TestTokenIsNowhereToRead(t *testing.T) {
	for _, s := range shells {
		t.Run(strings.Join(append([]string{s.program, "as", s.name}, s.env...), " "), func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(s.program); err != nil {
				t.Skip(s.program + " is not installed")
			}
			p := newWorld(t, fakebuildkite.Options{}).start(options{shell: s})
			p.connects()
			gate := p.build(1, 0)
			var tree []int
			p.until("its build's command ran", func() bool {
				tree = p.tree()
				return slices.ContainsFunc(tree, func(pid int) bool {
					return bytes.Contains(readNow(filepath.Join("/proc", strconv.Itoa(pid), "cmdline")), []byte("until [ -e "))
				})
			})
			named := false
			for _, name := range readable(tree) {
				text := readNow(name)
				named = named || strings.HasSuffix(name, "environ") && bytes.Contains(text, []byte("MUSTER_NOT_AFTER="))
				if bytes.Contains(text, []byte(agentToken)) || bytes.Contains(text, []byte("BUILDKITE_AGENT_TOKEN=")) {
					t.Errorf("%s has the token", name)
				}
			}
			if !named {
				t.Error("no process has the pod's variables: the wrong ones were looked at")
			}
			gate()
			p.ends(0)
		})
	}
}

// TestTokenIsFound asserts that [readable] has a file that a shell makes of a here-document.
func TestTokenIsFound(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	cmd := exec.Command(bash, "-c", "exec 3<<END\n"+agentToken+"\nEND\ncat <&3 >/dev/null; echo; read -r wait")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "BASH_COMPAT=5.0"}
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	_, err = out.Read(make([]byte, 1)) // it has read its here-document
	must(t, err)
	if !slices.ContainsFunc(readable([]int{cmd.Process.Pid}), func(name string) bool {
		return strings.HasSuffix(name, "/fd/3") && bytes.Contains(readNow(name), []byte(agentToken))
	}) {
		t.Error("a here-document of bash 5.0 is not found")
	}
	must(t, in.Close())
	_ = cmd.Wait() // read reports the end of its input
}

// readable returns the files below /proc in which a build may look for a token: the variables and arguments
// of processes, and their open files and pipes but the standard ones, on which others wait.
func readable(pids []int) (files []string) {
	for _, pid := range pids {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		files = append(files, filepath.Join(dir, "environ"), filepath.Join(dir, "cmdline"))
		open, _ := os.ReadDir(filepath.Join(dir, "fd")) // none of a process that has ended
		for _, e := range open {
			name := filepath.Join(dir, "fd", e.Name())
			to, _ := os.Readlink(name)
			standard := e.Name() == "0" || e.Name() == "1" || e.Name() == "2"
			if strings.HasPrefix(to, "pipe:") && !standard || strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "/dev/") {
				files = append(files, name)
			}
		}
	}
	return files
}

// readNow reads what there is to read, without waiting for more; nothing of a
// process that has ended.
func readNow(path string) []byte {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	var text []byte
	for buffer := make([]byte, 4096); ; {
		n, err := syscall.Read(fd, buffer)
		if err != nil || n <= 0 {
			return text
		}
		text = append(text, buffer[:n]...)
	}
}
