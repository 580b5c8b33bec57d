package gitops

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"muster/gitops/gitserver"
	"muster/testdata/bench"
)

// roles are what the test binary can be besides a test: processes of their
// own, whose memory and time are measured apart and which can be killed.
var roles = map[string]func() error{
	"server": serveRole,
	"ticks":  ticksRole,
	"decide": decideRole,
}

const roleVariable = "MUSTER_TEST_ROLE"

func TestMain(m *testing.M) {
	role, ok := roles[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := role(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// start runs the test binary in a role and returns what it prints line by
// line. It ends with the test.
func start(t testing.TB, role string, env ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(cmd.Environ(), roleVariable+"="+role), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	bench.Check(t, err)
	out, err := cmd.StdoutPipe()
	bench.Check(t, err)
	bench.Check(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewScanner(out)
}

// serveRole serves a directory until its standard input ends.
func serveRole() error {
	s, err := gitserver.Serve(os.Getenv("DIR"), gitserver.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Println(s.URL)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// serveOther serves a directory from another process.
func serveOther(t testing.TB, dir string) string {
	t.Helper()
	_, out := start(t, "server", "DIR="+dir)
	if !out.Scan() {
		t.Fatal("the server did not start")
	}
	return strings.TrimSpace(out.Text())
}
