// Package agent builds the published buildkite-agent from its Go module. Its
// tests run the command of base/job.yaml with it against a simulated Buildkite.
// See README.md.
package agent

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Version is the agent's, as in the image of base/job.yaml.
const Version = "3.138.3"

const (
	module = "github.com/buildkite/agent/v3"
	// sum is the module's, as sum.golang.org has it.
	sum = "h1:MPfvp9SCNdmr7sIaMTqwdQ+i5AxYcbABrBN10evn9eU="
	// language replaces the agent's "go 1.26.10": this repository's Go may be an
	// older patch release of 1.26, which knows the same language.
	language = "go 1.26.0"
)

// Build makes the agent below dir, which is bin of this repository, unless it
// is there already, and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "buildkite-agent-"+Version)
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	stub, err := filepath.Abs(filepath.Join(dir, "..", "testdata", "agent", "zzglob"))
	if err != nil {
		return "", err
	}
	source, err := os.MkdirTemp("", "buildkite-agent-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(source)
	archive, err := download(ctx, source)
	if err != nil {
		return "", err
	}
	if err := unpack(archive, source); err != nil {
		return "", fmt.Errorf("unpacking %s: %w", archive, err)
	}
	if err := edit(filepath.Join(source, "go.mod"), stub); err != nil {
		return "", fmt.Errorf("editing the agent's go.mod: %w", err)
	}
	fresh := binary + ".new"
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", fresh, ".")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false -mod=mod")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the agent: %w\n%s", err, text)
	}
	return binary, os.Rename(fresh, binary)
}

// download fetches the module and returns the path of its archive. Go refuses to
// do more with it where it is itself older than the module asks for.
func download(ctx context.Context, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module+"@v"+Version)
	cmd.Dir = dir
	var problem bytes.Buffer
	cmd.Stderr = &problem
	text, failed := cmd.Output()
	var got struct{ Zip, Sum, Error string }
	if err := json.Unmarshal(text, &got); err != nil {
		return "", fmt.Errorf("downloading the agent: %w\n%s", errors.Join(failed, err), problem.Bytes())
	}
	if got.Zip == "" {
		return "", fmt.Errorf("downloading the agent: %s", got.Error)
	}
	if got.Sum != sum {
		return "", fmt.Errorf("downloading the agent: its sum is %s, want %s", got.Sum, sum)
	}
	return got.Zip, nil
}

// unpack writes the files of a module's archive.
func unpack(archive, dir string) error {
	r, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, f := range r.File {
		name, ok := strings.CutPrefix(f.Name, module+"@v"+Version+"/")
		if !ok || !filepath.IsLocal(name) {
			return fmt.Errorf("%q lies outside the module", f.Name)
		}
		if err := write(filepath.Join(dir, filepath.FromSlash(name)), f); err != nil {
			return err
		}
	}
	return nil
}

func write(path string, f *zip.File) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	from, err := f.Open()
	if err != nil {
		return err
	}
	defer from.Close()
	text, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

var goLine = regexp.MustCompile(`(?m)^go .*$`)

// signatures replaces the agent's jwx v3.4.0, which the Go module proxy does not have, by
// the version of agent 3.138.2. It signs and verifies pipelines, which no test does.
const signatures = "github.com/lestrrat-go/jwx/v3 => github.com/lestrrat-go/jwx/v3 v3.3.0"

// edit lets the agent be built as it is published, but for the version of Go, for
// zzglob and for jwx.
func edit(path, stub string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text = goLine.ReplaceAll(text, []byte(language))
	text = fmt.Appendf(text, "\nreplace drjosh.dev/zzglob => %s\n\nreplace %s\n", stub, signatures)
	return os.WriteFile(path, text, 0o644)
}
