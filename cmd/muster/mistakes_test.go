package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/gitops/leaktest"
)

// mistakesFile is a session of mistakes at the command line: lines that begin with $ are commands, # are headings.
const mistakesFile = "../../testdata/mistakes.txt"

// TestMistakes types each command of mistakesFile and compares what is printed, and the exit code. muster runs in
// this process, everything else in a shell. Nothing but muster's errors is printed.
func TestMistakes(t *testing.T) {
	file, err := filepath.Abs(mistakesFile)
	check(t, err)
	content, err := os.ReadFile(file)
	check(t, err)
	s := newMistakes(t)
	var got strings.Builder
	typed := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		command, is := strings.CutPrefix(line, "$ ")
		switch {
		case is:
			command = strings.TrimSuffix(command, "\n")
			got.WriteString(line + s.typed(command))
			if strings.Contains(command, "muster") {
				typed[command] = true
			}
		case strings.HasPrefix(line, "# "):
			if got.Len() > 0 {
				got.WriteString("\n")
			}
			got.WriteString(line + "\n")
		}
	}
	if len(typed) < 100 {
		t.Errorf("%s has %d different mistakes, want 100", mistakesFile, len(typed))
	}
	if words := regexp.MustCompile(`dial tcp|openat|lookup |float64|arg\(s\)|\byaml: line|any token|listen tcp|context canceled|json: `).FindString(got.String()); words != "" {
		t.Errorf("a message has the words %q of a library", words)
	}
	if *updateScripts {
		check(t, os.WriteFile(file, []byte(got.String()), 0o644))
		return
	}
	if got.String() != string(content) {
		t.Errorf("%s differs from what is printed (write it with -args -update):\n%s", mistakesFile, got.String())
	}
}

// mistakes is the place where mistakes are typed.
type mistakes struct {
	t       *testing.T
	dir     string
	environ []string
	names   *strings.Replacer // of the addresses in the file
	shown   *strings.Replacer // the reverse
}

// newMistakes makes a clone of a fleet repository, servers, and files of secrets, and changes to the directory.
func newMistakes(t *testing.T) *mistakes {
	dir := t.TempDir()
	w := newScenario(t, dir)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	pairs := []string{
		"https://other-name.example", strings.Replace(secure.URL, "127.0.0.1", "localhost", 1), "https://self-signed.example", secure.URL,
		"http://git.example", w.git.URL, "http://buildkite.example", w.api.URL,
		"localhost:PORT", strings.Replace(secure.Listener.Addr().String(), "127.0.0.1", "localhost", 1),
		"127.0.0.1:PORT", secure.Listener.Addr().String(), "/work", dir,
	}
	reversed := make([]string, len(pairs))
	for i := range pairs {
		reversed[i] = pairs[i^1]
	}
	s := &mistakes{t: t, dir: dir, names: strings.NewReplacer(pairs...), shown: strings.NewReplacer(reversed...), environ: []string{
		"HOME=" + dir, "GIT_COMMITTER_DATE=" + start.Add(-time.Hour).Format(time.RFC3339), "GIT_AUTHOR_DATE=" + start.Add(-time.Hour).Format(time.RFC3339), "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "BUILDKITE_API_TOKEN=" + leaktest.BuildkiteToken,
		"MUSTER_BUILDKITE_ORG=acme", "MUSTER_BUILDKITE_URL=" + w.api.URL + "/",
	}}
	t.Chdir(dir)
	s.shell("git config --global user.name Ada && git config --global user.email ada@example.com && git config --global init.defaultBranch main")
	for _, args := range [][]string{{"init", "clone", "--max", "10"}} {
		if code, _, stderr := s.muster(args); code != invocation.ExitOK {
			t.Fatal(stderr)
		}
	}
	s.shell(fmt.Sprintf("cd clone && git init -q && git add . && git commit -qm 'Change the fleet' && git remote add origin %s/fleet.git && "+
		"git push -q ../srv/fleet.git main && git fetch -q ../srv/fleet.git main:refs/remotes/origin/main && git branch -qu origin/main", w.git.URL))
	s.shell("mkdir nothing && git init -q other && git -C other commit -qm x --allow-empty && touch empty && printf 'a b\\n' > blanks && printf key > key")
	return s
}

// typed types a command and returns what is printed.
func (s *mistakes) typed(command string) string {
	words := s.words(s.names.Replace(command))
	if words[0] == "cd" {
		s.t.Chdir(words[1])
		return ""
	}
	var variables []string
	for strings.Contains(words[0], "=") {
		variables, words = append(variables, words[0]), words[1:]
	}
	if words[0] != "muster" && words[0] != "muster-sim" {
		s.shell(command)
		return ""
	}
	code, stdout, stderr := s.muster(words[1:], variables...)
	return s.shown.Replace(stdout+stderr) + fmt.Sprintf("[%d]\n", code)
}

func (s *mistakes) muster(args []string, environ ...string) (code int, stdout, stderr string) {
	return execute(s.t, program{invocation.Program{Args: args, Environ: append(s.environ, environ...)}})
}

func (s *mistakes) shell(command string) {
	s.t.Helper()
	cmd := exec.Command("sh", "-ec", command)
	cmd.Env = s.environ
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// words splits a command at blanks that are in no single quotes.
func (s *mistakes) words(command string) (words []string) {
	for i, part := range strings.Split(command, "'") {
		switch {
		case i%2 == 1 && strings.HasSuffix(command[:strings.Index(command, "'"+part+"'")], "=") && len(words) > 0:
			words[len(words)-1] += part
		case i%2 == 1:
			words = append(words, part)
		default:
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}
