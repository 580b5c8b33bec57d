package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"muster/cmd/invocation"
	"muster/gitops/gitserver"
)

// TestStatusWithTheSSHProgram asserts that the user's ssh configuration is used without flags,
// and that the error with flags contains the remedy.
func TestStatusWithTheSSHProgram(t *testing.T) {
	server, err := gitserver.ServeSSH(t.TempDir())
	check(t, err)
	t.Cleanup(server.Close)
	r := newFleetReader(t, "")
	settings := "[url \"ssh://git@fleet.inside" + filepath.Dir(r.repo.Dir) + "/\"]\n\tinsteadOf = our:\n"
	host, port, _ := net.SplitHostPort(server.Address)
	config := filepath.Join(r.home, "config")
	text := fmt.Sprintf("Host fleet.inside\n  HostName %s\n  Port %s\n  IdentityFile %s\n  UserKnownHostsFile %s\n", host, port, server.KeyFile, server.KnownHostsFile)
	check(t, errors.Join(os.WriteFile(config, []byte(text), 0o600), os.WriteFile(filepath.Join(r.home, ".gitconfig"), []byte(settings), 0o600)))
	r.Environ = append(r.Environ, "MUSTER_REPO=our:"+filepath.Base(r.repo.Dir), "GIT_SSH_COMMAND=ssh -F "+config)
	r.succeeds(t, "the ssh program")
	r.fails(t, "with flags", invocation.ExitOutside, "leave out --ssh-key-file and --ssh-known-hosts-file", "MUSTER_SSH_KEY_FILE="+server.KeyFile, "MUSTER_SSH_KNOWN_HOSTS_FILE="+server.KnownHostsFile)
}
