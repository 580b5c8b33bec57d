package main

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"

	"github.com/rogpeppe/go-internal/testscript"
)

var recordRelease = flag.String("record-release", "", "the `version` for which TestRecordRelease writes a fleet repository")

// TestRecordRelease writes the fleet repository of a version, which later ones have to read, verify
// and continue; see testdata/releases/README.md.
func TestRecordRelease(t *testing.T) {
	if *recordRelease == "" {
		t.Skip("a release is recorded once: -record-release VERSION")
	}
	dir, err := filepath.Abs(filepath.Join(top, "testdata", "releases"))
	check(t, err)
	params := scriptParams([]string{filepath.Join(dir, "record.txtar")})
	setup := params.Setup
	params.Setup = func(env *testscript.Env) error {
		env.Setenv("RELEASE", filepath.Join(dir, *recordRelease+".bundle"))
		return setup(env)
	}
	params.Cmds["tick"] = func(ts *testscript.TestScript, _ bool, _ []string) {
		ts.Check(ts.Exec("muster", "run", "--once"))
		for _, overlay := range []string{"default", "linux-large"} {
			cmdSync(ts, false, []string{"overlays/" + overlay})
		}
	}
	// chain COUNT DURATION: a build of one job and, after it, COUNT jobs.
	params.Cmds["chain"] = func(ts *testscript.TestScript, _ bool, args []string) {
		d, err := time.ParseDuration(args[1])
		ts.Check(err)
		w := scenarioOf(ts)
		w.buildkite.CreateBuild(fakebuildkite.Build{Cluster: w.cluster.BuildkiteCluster, Pipeline: "chain", Steps: []fakebuildkite.Step{
			{Label: "compile", Duration: d}, {Type: fakebuildkite.Wait}, {Label: "check", Parallelism: number(ts, args[0]), Duration: d},
		}})
	}
	testscript.Run(t, params)
}

// cmdRestore fetches the fleet repository of a release, and advances the time to its last commit:
// restore VERSION.
func cmdRestore(ts *testscript.TestScript, _ bool, args []string) {
	w := scenarioOf(ts)
	bundle, err := filepath.Abs(filepath.Join(top, "testdata", "releases", args[0]+".bundle"))
	ts.Check(err)
	_, err = w.repo.Git("fetch", "--quiet", bundle, "main:main")
	ts.Check(err)
	out, err := w.repo.Git("log", "-1", "--format=%cI", "main")
	ts.Check(err)
	last, err := time.Parse(time.RFC3339, strings.TrimSpace(out))
	ts.Check(err)
	now, err := time.Parse(time.RFC3339, ts.Getenv("FAKE_NOW"))
	ts.Check(err)
	cmdAdvance(ts, false, []string{last.Sub(now).String()})
}
