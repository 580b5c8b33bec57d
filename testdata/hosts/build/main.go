// Command build makes Gitea from its Go module, in the user's cache, unless it is there:
// some ten minutes of two processors, and a few hundred megabytes of modules.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"muster/testdata/hosts"
)

func main() {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func build() error {
	dir, err := hosts.Gitea()
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	cmd := exec.Command("go", "mod", "download", "-json", hosts.GiteaModule+"@v"+hosts.GiteaVersion)
	cmd.Dir, cmd.Stderr = os.TempDir(), os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("downloading Gitea: %w\n%s", err, text)
	}
	var got struct{ Dir, Sum string }
	if err := json.Unmarshal(text, &got); err != nil {
		return err
	}
	if got.Sum != hosts.GiteaSum {
		return fmt.Errorf("the sum of Gitea's module is %q, want %q", got.Sum, hosts.GiteaSum)
	}
	fresh := dir + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	for _, part := range []string{"options", "templates", "public"} { // which it reads
		if err := os.CopyFS(filepath.Join(fresh, part), os.DirFS(filepath.Join(got.Dir, part))); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "building Gitea %s: ten minutes or so, once\n", hosts.GiteaVersion)
	cmd = exec.Command("go", "build", "-trimpath", "-tags", "sqlite sqlite_unlock_notify", "-ldflags", "-s -w -X main.Version="+hosts.GiteaVersion, "-o", filepath.Join(fresh, "gitea"), ".")
	cmd.Dir, cmd.Env = got.Dir, append(cmd.Environ(), "CGO_ENABLED=1", "GOFLAGS=-buildvcs=false")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building Gitea: %w\n%s", err, text)
	}
	return os.Rename(fresh, dir)
}
