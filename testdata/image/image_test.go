// Package image runs muster's image as a container.
package image

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/branch"
	"muster/gitops/gitserver"

	"sigs.k8s.io/yaml"
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
	w.buildkite.AddAgentToken(w.cluster, "agent-token")
	w.api = httptest.NewTLSServer(w.buildkite)
	t.Cleanup(w.api.Close)
	w.secrets = filepath.Join(dir, "secrets")
	w.put(t, "buildkite/token", []byte("test-token\n"))
	w.put(t, "buildkite/agent-token", []byte("agent-token\n"))
	w.put(t, "git/password", []byte("unused\n"))
	w.put(t, "authorities.crt", w.git.CertificatePEM()) // that of every httptest server
	return w
}

// put writes a key of a Secret as Kubernetes mounts it with fsGroup: the container's group may read it.
func (w *world) put(t *testing.T, name string, content []byte) {
	t.Helper()
	file := filepath.Join(w.secrets, filepath.FromSlash(name))
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, content, 0o440))
	must(t, os.Chown(file, 0, user))
}

// settings are the arguments of ctr that make the container's surroundings.
func (w *world) settings() []string {
	return []string{
		"--net-host",
		"--env", "MUSTER_REPO=" + w.git.URL + "/fleet.git",
		"--env", "MUSTER_BUILDKITE_URL=" + w.api.URL + "/",
		"--env", "MUSTER_AGENT_ENDPOINT=" + w.api.URL + "/v3/",
		"--mount", "type=bind,src=" + filepath.Join(w.secrets, "authorities.crt") + ",dst=/etc/ssl/certs/ca-certificates.crt,options=rbind:ro",
	}
}

// deployment is what this test reads of a Deployment.
type deployment struct {
	Spec struct{ Template struct{ Spec podSpec } }
}

type podSpec struct {
	SecurityContext struct{ RunAsUser, RunAsGroup, FSGroup int }
	Containers      []struct {
		Args            []string
		Resources       struct{ Limits struct{ Memory string } }
		SecurityContext struct{ ReadOnlyRootFilesystem, AllowPrivilegeEscalation bool }
		VolumeMounts    []struct{ Name, MountPath string }
	}
	Volumes []struct {
		Name   string
		Secret *struct{ SecretName string }
	}
}

// deployed returns the settings of ctr and the arguments with which the files in deploy/ of a fleet start the
// container. The variables are changed as a user changes them for a repository over https, and name the simulated
// Buildkite; the container listens at an address of its own on this machine.
func (w *world) deployed(t *testing.T, fleet, listen string) (settings, args []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(fleet, "deploy", "base", "deployment.yaml"))
	must(t, err)
	var d deployment
	must(t, yaml.Unmarshal(text, &d))
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	if id := pod.SecurityContext; id.RunAsUser != user || id.RunAsGroup != user || id.FSGroup != user ||
		!c.SecurityContext.ReadOnlyRootFilesystem || c.SecurityContext.AllowPrivilegeEscalation {
		t.Errorf("deploy/ starts another container than this test: %+v", pod)
	}
	memory, err := strconv.Atoi(strings.TrimSuffix(c.Resources.Limits.Memory, "Mi"))
	must(t, err)
	settings = append(w.settings(), "--env", "POD_NAMESPACE=muster", "--memory-limit", strconv.Itoa(memory<<20))
	environ, err := os.ReadFile(filepath.Join(fleet, "deploy", "base", "muster.env"))
	must(t, err)
	for line := range strings.Lines(string(environ) + "MUSTER_GIT_PASSWORD_FILE=/secrets/git/password\n") {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(name, "#") && name != "MUSTER_REPO" && !strings.HasPrefix(name, "MUSTER_SSH_") {
			settings = append(settings, "--env", name+"="+value)
		}
	}
	for _, m := range c.VolumeMounts {
		mount := "type=tmpfs,src=tmpfs,dst=" + m.MountPath + ",options=rw:mode=1777"
		for _, v := range pod.Volumes {
			if v.Name == m.Name && v.Secret != nil {
				dir := filepath.Join(w.secrets, strings.TrimPrefix(v.Secret.SecretName, "muster-"))
				must(t, os.MkdirAll(dir, 0o755)) // an optional Secret may be missing
				mount = "type=bind,src=" + dir + ",dst=" + m.MountPath + ",options=rbind:ro"
			}
		}
		settings = append(settings, "--mount", mount)
	}
	for _, arg := range c.Args {
		args = append(args, strings.Replace(arg, "--listen=:8080", "--listen="+listen, 1))
	}
	return settings, args
}

// TestContainer begins a fleet with the image, and lets it scale as deploy/ starts it.
func TestContainer(t *testing.T) {
	w := newWorld(t)
	if out := w.run(t, nil); !strings.Contains(out, "Usage:\n  muster COMMAND") {
		t.Errorf("without arguments the image prints %q", out)
	}
	listen := freeAddress(t)
	settings, args := w.deployed(t, w.publish(t), listen)
	command := append([]string{"/usr/bin/muster"}, args...)
	w.buildkite.CreateBuild(fakebuildkite.Build{Cluster: w.cluster, Steps: []fakebuildkite.Step{{Parallelism: 3, Duration: time.Hour}}})
	if out := w.run(t, settings, "/usr/bin/muster", "check"); !strings.HasSuffix(out, "\nOK\n") { // after warnings of placeholders
		t.Errorf("check says %q", out)
	}
	before := w.head(t)

	ended, out := w.start(t, "runs", settings, command...)
	until := func(done func() bool) {
		for !done() {
			select {
			case err := <-ended:
				t.Fatalf("muster has ended: %v\n%s", err, out)
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	until(func() bool { return w.head(t) != before })
	for _, path := range []string{"/", "/healthz", "/readyz"} {
		until(func() bool {
			answer, err := http.Get("http://" + listen + path)
			return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
		})
	}
	if log, err := w.repo.Git("log", "-1", "--format=%s"); err != nil || strings.TrimSpace(log) != "default: dispatch 3 agents (3 pending)" {
		t.Errorf("the commit is %q, %v", log, err)
	}
	w.lookAtProcess(t, w.pid(t, "runs"))
	w.ctr(t, "tasks", "kill", "--signal", "SIGTERM", "runs")
	if err := <-ended; err != nil {
		t.Errorf("told to end, muster ends with %v\n%s", err, out)
	}
	if !strings.Contains(out.String(), `"msg":"stopped"`) {
		t.Errorf("the log ends without a word:\n%s", out)
	}
}

// publish lets the image write a fleet repository with a schedule, whose time
// zone it has to know, and pushes it. It returns the directory.
func (w *world) publish(t *testing.T) string {
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
	return filepath.Join(dir, "fleet")
}

// freeAddress returns an address of this machine at which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
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
