package branch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"syscall"
	"testing"
	"time"
)

// TestNetworkProblem asserts the text of each error of a connection: host, cause and remedy.
func TestNetworkProblem(t *testing.T) {
	get := func(address string, err error) error { return &url.Error{Op: "Get", URL: address, Err: err} }
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	proxy := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 3128}
	through := func(err error) error {
		return &net.OpError{Op: "proxyconnect", Net: "tcp", Err: &net.OpError{Op: "dial", Net: "tcp", Addr: proxy, Err: err}}
	}
	untrusted := func(err error) error { return &tls.CertificateVerificationError{Err: err} }
	past := &x509.Certificate{NotBefore: time.Date(2025, 1, 2, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}
	const check = "check the address, the proxy (HTTPS_PROXY) and firewalls"
	for _, test := range []struct {
		err  error
		want string
	}{
		{dial(&net.DNSError{Name: "git.example.com", IsNotFound: true}), `there is no host "git.example.com": check the address, and DNS`},
		{dial(&net.DNSError{Name: "git.example.com", Err: "server misbehaving"}), `the host "git.example.com" cannot be looked up: check DNS`},
		{dial(syscall.ECONNREFUSED), "host.example:8443 refuses the connection: " + check},
		{get("https://redirected.example/x", dial(syscall.ECONNREFUSED)), "redirected.example refuses the connection: " + check},
		{get("http://plain.example/x", dial(syscall.ECONNREFUSED)), "plain.example refuses the connection: check the address, the proxy (HTTP_PROXY) and firewalls"},
		{dial(syscall.EHOSTUNREACH), "the network does not reach host.example:8443: " + check},
		{dial(syscall.ETIMEDOUT), "host.example:8443 does not answer in time: " + check},
		{fmt.Errorf("%w: handshake", context.DeadlineExceeded), "host.example:8443 does not answer in time: " + check},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, "host.example:8443 ended the connection: try again, and " + check},
		{get("https://cut.example/", io.EOF), "cut.example ended the connection: try again, and " + check},
		{untrusted(x509.UnknownAuthorityError{}), "the certificate of host.example:8443 is of an unknown authority: TRUST"},
		{untrusted(x509.UnknownAuthorityError{Cert: &x509.Certificate{Issuer: pkix.Name{CommonName: "Corp"}}}), "the certificate of host.example:8443 is of an unknown authority (CN=Corp): TRUST"},
		{untrusted(x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"a.example", "b.example"}}}), "the certificate of host.example:8443 is for a.example, b.example: check the address"},
		{untrusted(x509.CertificateInvalidError{Cert: past, Reason: x509.Expired}), "the certificate of host.example:8443 is valid from 2025-01-02T00:00:00Z to 2026-01-02T00:00:00Z: renew it, or correct the clock of this machine"},
		{untrusted(errors.New("x509: odd key")), "the certificate of host.example:8443 is invalid (odd key): replace it"},
		{tls.RecordHeaderError{}, "host.example:8443 does not use TLS: check the scheme and the port of the address"},
		{get("https://a.example/", http.ErrSchemeMismatch), "a.example does not use TLS: check the scheme and the port of the address"},
		{get("https://a.example/", through(syscall.ECONNREFUSED)), "the proxy 192.0.2.1:3128 refuses the connection: check HTTPS_PROXY and firewalls"},
		{get("https://a.example/", through(&net.DNSError{Name: "proxy.example", IsNotFound: true})), `there is no host "proxy.example", which is the proxy: check HTTPS_PROXY, and DNS`},
		{get("https://a.example/", errors.New("Proxy Authentication Required")), "the proxy (HTTPS_PROXY) does not connect to a.example (Proxy Authentication Required): check the proxy's user name, password and rules"},

		{get("https://a.example/", context.Canceled), ""},
		{io.ErrUnexpectedEOF, ""},
		{errors.New("Not Found"), ""},
	} {
		if got := NetworkProblem(fmt.Errorf("reading: %w", test.err), "host.example:8443", "TRUST"); got != test.want {
			t.Errorf("%v:\n got %s\nwant %s", test.err, got, test.want)
		}
	}
}

// TestNetworkProblemOfServers asserts the texts of errors that net/http returns.
func TestNetworkProblemOfServers(t *testing.T) {
	plain, secure := httptest.NewServer(http.NotFoundHandler()), httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer plain.Close()
	defer secure.Close()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusProxyAuthRequired) }))
	defer refusing.Close()
	proxy, err := url.Parse(refusing.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		address string
		proxy   *url.URL
		want    string
	}{
		{secure.URL, nil, "the certificate of " + secure.Listener.Addr().String() + " is of an unknown authority (O=Acme Co): TRUST"},
		{"https://" + plain.Listener.Addr().String(), nil, plain.Listener.Addr().String() + " does not use TLS: check the scheme and the port of the address"},
		{"https://git.example", proxy, "the proxy (HTTPS_PROXY) does not connect to git.example (Proxy Authentication Required): check the proxy's user name, password and rules"},
	} {
		client := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(test.proxy)}}
		_, err := client.Get(test.address)
		if got := NetworkProblem(err, "", "TRUST"); got != test.want {
			t.Errorf("%v:\n got %s\nwant %s", err, got, test.want)
		}
	}
}
