package e2e

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"muster/testdata/e2e/archive"
)

// agentModule is the published agent's, which has the Dockerfile of its image.
const agentModule = "github.com/buildkite/agent/v3"

// agentPrograms are those of the machine's Debian that are in the agent's image, in
// place of agent-base:ubuntu-noble, which is Ubuntu with these and more.
const agentPrograms = "bash sh tini grep date tr mkdir cat chmod sleep env id touch rm printf test [ ls echo true false uname stat dirname basename"

// sshConfig stands in for ssh-env-config.sh, which the Dockerfile fetches from
// github.com/buildkite/docker-ssh-env-config: with none of its variables set, it runs
// what it is told and does no more.
const sshConfig = `#!/bin/bash
exec "$@"
`

// fakeTime is Debian's library that gives programs another clock.
const fakeTime = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"

// pauseImage is what keeps a pod's sandbox, and whatever else has nothing to do.
const pauseImage = "e2e.local/pause:1"

// images imports the agent's image under the name that the base says, and those of
// others.
func (n *realNode) images(ctx context.Context, t tb) {
	busybox, err := os.ReadFile("/bin/busybox")
	must(t, err)
	must(t, n.add(ctx, archive.Image{
		Name: pauseImage, Files: map[string][]byte{"bin/busybox": busybox},
		Command: []string{"/bin/busybox", "sleep", "1000000000"},
	}))
	must(t, n.add(ctx, n.suite.agentImage(ctx, t, n.buildkite.certificate)))
}

// add imports an image.
func (n *realNode) add(ctx context.Context, image archive.Image) error {
	path := filepath.Join(n.dir, "image.tar")
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(image.Write(file), file.Close()); err != nil {
		return err
	}
	return n.load(ctx, path)
}

// load imports an image's archive.
func (n *realNode) load(ctx context.Context, archive string) error {
	return runProgram(ctx, "ctr", "--address", n.socket, "--namespace", "k8s.io", "images", "import", "--snapshotter", "native", archive)
}

// agentImage is what the Dockerfile of the published image makes
// (packaging/docker/ubuntu-24.04), with its entry point and its configuration, but of
// Debian's programs.
func (s *suite) agentImage(ctx context.Context, t tb, certificate string) archive.Image {
	image := archive.Image{
		Files: map[string][]byte{
			"etc/passwd":                      []byte("root:x:0:0:root:/root:/bin/bash\nubuntu:x:1000:1000:Ubuntu:/home/ubuntu:/bin/bash\n"),
			"etc/group":                       []byte("root:x:0:\nubuntu:x:1000:\n"),
			"usr/local/bin/ssh-env-config.sh": []byte(sshConfig),
		},
		Links:   map[string]string{"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"},
		Folders: map[string]int64{"tmp": 0o1777, "home/ubuntu": 0o755, "buildkite/builds": 0o755, "buildkite/hooks": 0o755, "buildkite/plugins": 0o755},
		Env: []string{
			"PATH=/usr/local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "BUILDKITE_AGENT_CONFIG=/buildkite/buildkite-agent.cfg",
			"SSL_CERT_FILE=/etc/ssl/certs/buildkite.pem",
		},
		Entrypoint: []string{"buildkite-agent-entrypoint"}, Command: []string{"start"}, Volumes: []string{"/buildkite"},
	}
	base, err := os.ReadFile(filepath.Join(s.root, "base", "job.yaml"))
	must(t, err)
	_, name, _ := bytes.Cut(base, []byte("image: "))
	name, _, _ = bytes.Cut(name, []byte("\n"))
	image.Name = string(name)
	const docker = "packaging/docker/ubuntu-24.04/"
	files := moduleFiles(ctx, t, agentModule, "v"+strings.TrimPrefix(filepath.Base(s.agent), "buildkite-agent-"), docker+"entrypoint.sh", docker+"buildkite-agent.cfg")
	image.Files["usr/local/bin/buildkite-agent-entrypoint"], image.Files["buildkite/buildkite-agent.cfg"] = files[0], files[1]
	from := map[string]string{
		"usr/local/bin/buildkite-agent":   s.agent,
		"etc/ssl/certs/buildkite.pem":     certificate,
		strings.TrimPrefix(fakeTime, "/"): fakeTime,
	}
	libraries(ctx, t, fakeTime, from)
	for _, program := range strings.Fields(agentPrograms) {
		path, err := exec.LookPath(program)
		must(t, err)
		from["usr/bin/"+program] = path
		libraries(ctx, t, path, from)
	}
	for path, file := range from {
		image.Files[path], err = os.ReadFile(file)
		must(t, err)
	}
	return image
}

// moduleFiles reads files of a published module, which is not built.
func moduleFiles(ctx context.Context, t tb, module, version string, paths ...string) [][]byte {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module+"@"+version)
	cmd.Dir = os.TempDir()
	// It says that it failed where it is older than the module asks for, and has
	// downloaded it all the same.
	out, failed := cmd.Output()
	var got struct{ Zip, Error string }
	if err := json.Unmarshal(out, &got); err != nil || got.Zip == "" {
		t.Fatal(fmt.Errorf("downloading %s: %s: %w", module, got.Error, errors.Join(failed, err)))
	}
	r, err := zip.OpenReader(got.Zip)
	must(t, err)
	defer r.Close()
	var files [][]byte
	for _, path := range paths {
		content, err := fs.ReadFile(r, module+"@"+version+"/"+path)
		must(t, err)
		files = append(files, content)
	}
	return files
}

// libraries adds to the files of an image what the dynamic linker loads for a program or a library.
func libraries(ctx context.Context, t tb, path string, files map[string]string) {
	out, err := exec.CommandContext(ctx, "ldd", path).Output()
	must(t, err)
	for _, word := range strings.Fields(string(out)) {
		if strings.HasPrefix(word, "/") {
			// Debian's /lib is /usr/lib.
			files["usr"+strings.TrimPrefix(word, "/usr")] = word
		}
	}
}
