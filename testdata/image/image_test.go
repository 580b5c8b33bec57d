// Package image runs muster's image as a container.
package image

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/branch"
	"muster/gitops/gitserver"
)

var archive = flag.String("image", "../../bin/muster-image.tar", "the image, as make image writes it")

const user = 65532

// world is what the container finds around it, and a containerd.
type world struct {
	*containerd
	repo      gitserver.Repository
	git       *gitserver.Server
	buildkite *fakebuildkite.Server
	api       *httptest.Server
	cluster   string
	secrets   string // a directory as Kubernetes mounts one
}

// must ends a test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t *testing.T) *world {
	w := &world{containerd: startContainerd(t)}
	dir := t.TempDir()
	var err error
	w.repo, err = gitserver.Init(filepath.Join(dir, "srv", "fleet.git"))
	must(t, err)
	w.git, err = gitserver.Serve(filepath.Join(dir, "srv"), gitserver.Options{TLS: true})
	must(t, err)
	t.Cleanup(w.git.Close)
	w.buildkite = fakebuildkite.New(fakebuildkite.Options{
		Now:           time.Now(),
		BeforeRequest: func(*http.Request) { w.buildkite.AdvanceTo(time.Now()) },
	})
	w.cluster = w.buildkite.AddCluster("ci")
	w.buildkite.AddQueue(w.cluster, "default")
	w.api = httptest.NewTLSServer(w.buildkite)
	t.Cleanup(w.api.Close)
	w.secrets = filepath.Join(dir, "secrets")
	w.put(t, "token", []byte("test-token\n"))
	w.put(t, "authorities.crt", w.git.CertificatePEM()) // that of every httptest server
	return w
}

// put writes a file that the container's user alone can read.
func (w *world) put(t *testing.T, name string, content []byte) {
	t.Helper()
	file := filepath.Join(w.secrets, name)
	must(t, os.MkdirAll(w.secrets, 0o755))
	must(t, os.WriteFile(file, content, 0o400))
	must(t, os.Chown(file, user, user))
}

// settings are the arguments of ctr that make the container's surroundings.
func (w *world) settings() []string {
	return []string{
		"--net-host",
		"--env", "MUSTER_REPO=" + w.git.URL + "/fleet.git",
		"--env", "MUSTER_BUILDKITE_URL=" + w.api.URL + "/",
		"--env", "MUSTER_BUILDKITE_ORG=acme",
		"--env", "MUSTER_BUILDKITE_TOKEN_FILE=/secrets/token",
		"--mount", "type=bind,src=" + w.secrets + ",dst=/secrets,options=rbind:ro",
		"--mount", "type=bind,src=" + filepath.Join(w.secrets, "authorities.crt") + ",dst=/etc/ssl/certs/ca-certificates.crt,options=rbind:ro",
	}
}

// TestContainer begins a fleet with the image, and lets it scale.
func TestContainer(t *testing.T) {
	w := newWorld(t)
	if out := w.run(t, nil); !strings.Contains(out, "Available Commands:") {
		t.Errorf("without arguments the image prints %q", out)
	}
	w.publish(t)
	w.buildkite.CreateBuild(fakebuildkite.Build{Cluster: w.cluster, Steps: []fakebuildkite.Step{{Parallelism: 3, Duration: time.Hour}}})
	if out := w.run(t, w.settings(), "/usr/bin/muster", "check"); out != "OK\n" {
		t.Errorf("check says %q", out)
	}
	before := w.head(t)

	ended, out := w.start(t, "runs", w.settings(), "/usr/bin/muster", "run", "--startup-jitter=0s")
	for w.head(t) == before {
		select {
		case err := <-ended:
			t.Fatalf("muster has ended: %v\n%s", err, out)
		case <-time.After(100 * time.Millisecond):
		}
	}
	if log, err := w.repo.Git("log", "-1", "--format=%s"); err != nil || strings.TrimSpace(log) != "default: dispatch 3 agents" {
		t.Errorf("the commit is %q, %v", log, err)
	}
	w.lookAtProcess(t, w.pid(t, "runs"))
	w.ctr(t, "tasks", "kill", "--signal", "SIGTERM", "runs")
	if err := <-ended; err != nil {
		t.Errorf("told to end, muster ends with %v\n%s", err, out)
	}
	if !strings.Contains(out.String(), "msg=stopped") {
		t.Errorf("the log ends without a word:\n%s", out)
	}
}

// publish lets the image write a fleet repository with a schedule, whose time
// zone it has to know, and pushes it.
func (w *world) publish(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chown(dir, user, user))
	w.run(t, []string{"--mount", "type=bind,src=" + dir + ",dst=/tmp,options=rbind:rw"}, "/usr/bin/muster", "init", "/tmp/fleet", "--with-deploy")
	var changes []branch.Change
	fleet := os.DirFS(filepath.Join(dir, "fleet"))
	err := fs.WalkDir(fleet, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(fleet, path)
		if path == "overlays/default/scaling.yaml" {
			content = fmt.Appendf(content, "\n  schedules: [{name: night, from: 00:00, to: 24:00, timeZone: Pacific/Chatham, max: 7}]\n")
		}
		changes = append(changes, branch.Change{Path: path, Content: content})
		return err
	})
	must(t, err)
	_, err = w.repo.Commit("Begin the fleet\n", time.Now(), changes...)
	must(t, err)
}

func (w *world) head(t *testing.T) string {
	t.Helper()
	head, err := w.repo.Head()
	must(t, err)
	return head
}

// lookAtProcess reads what Linux says of the process: proc(5).
func (w *world) lookAtProcess(t *testing.T, pid string) {
	t.Helper()
	status, err := os.ReadFile("/proc/" + pid + "/status")
	must(t, err)
	ids := strings.Repeat(fmt.Sprintf(`\s+%d`, user), 4)
	for _, want := range []string{"Uid:" + ids, "Gid:" + ids, `CapInh:\s+0+`, `CapPrm:\s+0+`, `CapEff:\s+0+`, `CapBnd:\s+0+`, `CapAmb:\s+0+`, `NoNewPrivs:\s+1`} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).Match(status) {
			t.Errorf("the process's status has no %s:\n%s", want, status)
		}
	}
	mounts, err := os.ReadFile("/proc/" + pid + "/mountinfo")
	must(t, err)
	if !regexp.MustCompile(`(?m)^\d+ \d+ \S+ \S+ / ro[, ]`).Match(mounts) {
		t.Errorf("the root is not read-only:\n%s", mounts)
	}
}

// containerd is one of the test's own, with the image in it.
type containerd struct {
	dir, address, image string
	runs                int
}

// capabilities are those that ctr gives to a container.
var capabilities = []string{"CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP", "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"}

func startContainerd(t *testing.T) *containerd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("containers need root")
	}
	dir := t.TempDir()
	c := &containerd{dir: dir, address: filepath.Join(dir, "socket")}
	config := fmt.Sprintf("version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = %q\n",
		filepath.Join(dir, "root"), filepath.Join(dir, "state"), c.address)
	file := filepath.Join(dir, "config.toml")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	ctx, stop := context.WithCancel(context.Background())
	var log bytes.Buffer
	daemon := exec.CommandContext(ctx, "containerd", "--config", file)
	daemon.Stdout, daemon.Stderr = &log, &log
	daemon.Cancel = func() error { return daemon.Process.Signal(syscall.SIGTERM) }
	must(t, daemon.Start())
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	t.Cleanup(func() { stop(); <-ended })
	for exec.Command("ctr", "--address", c.address, "version").Run() != nil {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("containerd has ended: %v\n%s", err, &log)
		case <-time.After(100 * time.Millisecond):
		}
	}
	c.ctr(t, "images", "import", "--snapshotter", "native", *archive)
	c.image = strings.TrimSpace(c.ctr(t, "images", "list", "--quiet"))
	return c
}

// ctr calls containerd's client, and returns what it prints.
func (c *containerd) ctr(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("ctr", append([]string{"--address", c.address}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ctr %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// container are the arguments of ctr for a container of the image.
func (c *containerd) container(id string, settings, command []string) []string {
	args := []string{"--address", c.address, "run", "--rm", "--snapshotter", "native", "--read-only"}
	for _, one := range capabilities {
		args = append(args, "--cap-drop", "CAP_"+one)
	}
	return append(append(append(args, settings...), c.image, id), command...)
}

// run runs a container to its end, and returns what it prints, the log left out.
// Without a command it runs the image's entry point.
func (c *containerd) run(t *testing.T, settings []string, command ...string) string {
	t.Helper()
	c.runs++
	var out, log bytes.Buffer
	client := exec.Command("ctr", c.container(fmt.Sprint("run-", c.runs), settings, command)...)
	client.Stdout, client.Stderr = &out, &log
	if err := client.Run(); err != nil {
		t.Fatalf("%q: %v\n%s%s", command, err, &out, &log)
	}
	return out.String()
}

// start starts a container; what it printed may be read once it has ended. A
// container that still runs when the test ends is killed.
func (c *containerd) start(t *testing.T, id string, settings []string, command ...string) (<-chan error, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	client := exec.Command("ctr", c.container(id, settings, command)...)
	client.Stdout, client.Stderr = &out, &out
	must(t, client.Start())
	ended, over := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- client.Wait()
		close(over)
	}()
	t.Cleanup(func() {
		select {
		case <-over:
			return
		default:
		}
		// It may end by itself meanwhile.
		_ = exec.Command("ctr", "--address", c.address, "tasks", "kill", "--signal", "SIGKILL", id).Run()
		<-over
	})
	return ended, &out
}

// pid is the container's process.
func (c *containerd) pid(t *testing.T, id string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + id + `\s+(\d+)\s+RUNNING`).FindStringSubmatch(c.ctr(t, "tasks", "list"))
	if m == nil {
		t.Fatalf("the container %s does not run", id)
	}
	return m[1]
}
