package remote

import (
	"crypto/x509"
	"fmt"
	"net"
	"syscall"
	"testing"

	"muster/gitops/branch"
)

// TestExplainUnreachable asserts that errors of the network have a remedy.
func TestExplainUnreachable(t *testing.T) {
	address, err := branch.ParseAddress("ssh://git@git.example.com:2222/x")
	if err != nil {
		t.Fatal(err)
	}
	const check = ": check the address, the proxy (HTTPS_PROXY) and firewalls"
	for _, test := range []struct {
		err  error
		want string
	}{
		{&net.DNSError{Err: "no such host", Name: "git.example.com", IsNotFound: true}, `there is no host "git.example.com": check the address, and DNS`},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "git.example.com:2222 refuses the connection" + check},
		{x509.UnknownAuthorityError{}, "the certificate of git.example.com:2222 is of an unknown authority: name the file of the authority in --git-ca-file"},
		{openSSHProblem("ssh: Could not resolve hostname git.example.com: Name or service not known"), `there is no host "git.example.com": check the address, and DNS`},
		{openSSHProblem("ssh: connect to host git.example.com port 2222: Connection refused"), "git.example.com:2222 refuses the connection" + check},
		{openSSHProblem("ssh: connect to host git.example.com port 2222: Connection timed out"), "git.example.com:2222 does not answer in time" + check},
		{openSSHProblem("ssh: connect to host git.example.com port 2222: No route to host"), "the network does not reach git.example.com:2222" + check},
	} {
		if got := (&Connection{Address: address}).explain(fmt.Errorf("Get: %w", test.err)); got != test.want {
			t.Errorf("%v: %s, want %s", test.err, got, test.want)
		}
	}
	if err := openSSHProblem("git@git.example.com: Permission denied (publickey)."); err != nil {
		t.Error(err)
	}
}

// TestOpenSSHRemedy asserts the remedies of logins that fail.
func TestOpenSSHRemedy(t *testing.T) {
	for message, want := range map[string]string{
		"git@git.example.com: Permission denied (publickey).": ": add the public half of the ssh key to the repository, as a key that may write",
		"Host key verification failed.":                       ": connect once with ssh, and compare the key with those that the host publishes",
		"fatal: disk full":                                    "",
	} {
		if got := openSSHRemedy(message); got != want {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
}
