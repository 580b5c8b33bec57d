package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/leaktest"

	"github.com/rogpeppe/go-internal/testscript"
)

// Every script has canaries for credentials, in its environment and in files. When
// it is over, all that muster printed, committed and sent is searched for them, for
// control characters and for mentions.

// printedVariable names the file that has all that muster printed in a script.
const printedVariable = "CANARY_PRINTED"

// overheard returns where muster's output goes besides.
func overheard(out io.Writer) io.Writer {
	f, err := os.OpenFile(os.Getenv(printedVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return out // not in a script
	}
	return io.MultiWriter(out, f)
}

// plant puts the canaries into a script's environment, and has them looked for.
func (w *scenario) plant(env *testscript.Env) {
	printed, key := filepath.Join(env.WorkDir, ".printed"), filepath.Join(env.WorkDir, ".key")
	check(env.T(), os.WriteFile(key, []byte("-----BEGIN OPENSSH PRIVATE KEY-----\n"+leaktest.SSHKey+"\n-----END OPENSSH PRIVATE KEY-----\n"), 0o600))
	agent := filepath.Join(env.WorkDir, ".agent-token")
	check(env.T(), os.WriteFile(agent, []byte(leaktest.AgentToken+"\n"), 0o600))
	w.git.SetPassword(leaktest.GitPassword)
	basic := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("git:"+leaktest.GitPassword))
	for name, value := range map[string]string{
		printedVariable: printed, "BUILDKITE_API_TOKEN": leaktest.BuildkiteToken, "BUILDKITE_AGENT_TOKEN": leaktest.AgentToken,
		"GITHUB_TOKEN": leaktest.GitHubToken, "MUSTER_GIT_PASSWORD": leaktest.GitPassword, "MUSTER_SSH_KEY_FILE": key, "AGENT_TOKEN_FILE": agent,
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "http.extraHeader", "GIT_CONFIG_VALUE_0": basic, // for git itself
	} {
		env.Setenv(name, value)
	}
	env.Defer(func() { check(env.T(), w.found(printed)) })
}

// found returns what got out.
func (w *scenario) found(printed string) error {
	var all []error
	note := func(where string, found []string) {
		if len(found) > 0 {
			all = append(all, fmt.Errorf("%s: %q", where, found))
		}
	}
	text, err := os.ReadFile(printed)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(text)) {
		note("printed: "+line, leaktest.Printed(line))
	}
	messages, err := w.repo.Git("log", "--all", "--format=%B%x00", "--grep=^Muster: ", "--grep=^Reason: ")
	if err != nil {
		return err
	}
	for message := range strings.SplitSeq(messages, "\x00") {
		note("committed: "+message, leaktest.Committed(message))
	}
	files, err := w.repo.Git("log", "--all", "-p", "--format=", "--grep=^Muster: ", "--grep=^Reason: ")
	if err != nil {
		return err
	}
	note("in a file", leaktest.Leaks(files))
	w.sent.Lock()
	defer w.sent.Unlock()
	note("sent", w.sent.found)
	return errors.Join(all...)
}

// sent are credentials that reached a host which they are not for.
type sent struct {
	sync.Mutex
	found []string
}

// only makes a host that is to see one credential and no other.
func (s *sent) only(host, own string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		text := r.URL.String()
		for name, values := range r.Header {
			text += "\n" + name + ": " + strings.Join(values, "\n")
		}
		for _, leak := range leaktest.Leaks(text) {
			if !strings.HasPrefix(leak, own+", ") {
				s.Lock()
				s.found = append(s.found, host+" got "+leak)
				s.Unlock()
			}
		}
		next.ServeHTTP(rw, r)
	})
}

// hostile puts hostile text where a script writes HOSTILE, and its escaped form,
// for between double quotes, where it writes HOSTILE-ESCAPED.
func hostile(text string) string {
	return strings.NewReplacer("HOSTILE-ESCAPED", leaktest.Hostile, "HOSTILE", leaktest.Words()).Replace(text)
}

func hostiles(texts []string) []string {
	var all []string
	for _, text := range texts {
		all = append(all, hostile(text))
	}
	return all
}

// cmdFail makes the next request to Buildkite go wrong: fail PATH STATUS
// [MESSAGE]. With a status from 500 on it is all requests until the command recover. In the message, TOKEN is Buildkite's token.
func cmdFail(ts *testscript.TestScript, _ bool, args []string) {
	fault := fakebuildkite.Fault{Path: args[0], Status: number(ts, args[1])}
	if fault.Status >= http.StatusInternalServerError {
		fault.Times = -1
	}
	if len(args) > 2 {
		fault.Body = `{"message":"` + strings.ReplaceAll(hostile(args[2]), "TOKEN", leaktest.BuildkiteToken) + `"}`
	}
	scenarioOf(ts).buildkite.Fail(fault)
}

// cmdRecover ends what cmdFail began: recover.
func cmdRecover(ts *testscript.TestScript, _ bool, _ []string) { scenarioOf(ts).buildkite.Recover() }

// cmdDeny makes the git server answer once with a status, and with the request's
// own credentials and hostile words: deny STATUS.
func cmdDeny(ts *testscript.TestScript, _ bool, args []string) {
	scenarioOf(ts).deny.Store(int64(number(ts, args[0])))
}

// denied answers for the git server after the command deny.
func (w *scenario) denied(rw http.ResponseWriter, r *http.Request) bool {
	status := w.deny.Swap(0)
	if status == 0 {
		return false
	}
	_, password, _ := r.BasicAuth()
	rw.Header().Set("Content-Type", "text/plain")
	rw.WriteHeader(int(status))
	fmt.Fprintf(rw, "%s: %s says %q %s", leaktest.Words(), r.Header.Get("Authorization"), password, password)
	return true
}

// cmdHook gives the repository a hook that is run at each push, says hostile words
// and its environment, and ends with a status: hook STATUS.
func cmdHook(ts *testscript.TestScript, _ bool, args []string) {
	dir := filepath.Join(scenarioOf(ts).repo.Dir, "hooks")
	ts.Check(os.MkdirAll(dir, 0o755))
	script := "#!/bin/sh\ncat >&2 <<'END'\n" + leaktest.Words() + "\nEND\nenv >&2\nexit " + args[0] + "\n"
	ts.Check(os.WriteFile(filepath.Join(dir, "pre-receive"), []byte(script), 0o755))
}

// cmdHostile replaces HOSTILE in files by hostile words: hostile FILE...
func cmdHostile(ts *testscript.TestScript, _ bool, args []string) {
	for _, file := range args {
		text := hostile(ts.ReadFile(file))
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o644))
	}
}

// cmdCanaries looks for canaries in files that muster wrote: canaries FILE... A style
// sheet has rules that look like mentions.
func cmdCanaries(ts *testscript.TestScript, _ bool, args []string) {
	for _, file := range args {
		for line := range strings.Lines(ts.ReadFile(file)) {
			if found := leaktest.Printed(strings.TrimPrefix(line, "@media ")); len(found) > 0 {
				ts.Fatalf("%s has %q: %q", file, found, line)
			}
		}
	}
}
