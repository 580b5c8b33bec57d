package remote

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
)

// TestExplainUnreachable asserts that errors of the network have a remedy.
func TestExplainUnreachable(t *testing.T) {
	for want, err := range map[string]error{
		`there is no host "git.example.com": check the address: `:                      &net.DNSError{Err: "no such host", Name: "git.example.com", IsNotFound: true},
		"nothing accepts connections there: check the host, the port, and firewalls: ": &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
	} {
		if got := (&Connection{}).explain(fmt.Errorf("Get: %w", err)); !strings.HasPrefix(got, want) {
			t.Errorf("%v: %s", err, got)
		}
	}
}
