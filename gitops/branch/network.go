package branch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// SystemAuthorities is the remedy for a certificate of an unknown authority where no flag names authorities.
const SystemAuthorities = "name the file of the authority in SSL_CERT_FILE"

// NetworkProblem returns the cause and the remedy of an error of a connection, and the host: that of the request if
// err contains its URL, otherwise host. trust is the remedy for a certificate of an unknown authority. The result is
// empty if err is of another kind.
func NetworkProblem(err error, host, trust string) string {
	proxy := "HTTPS_PROXY"
	request, sent := errors.AsType[*url.Error](err)
	if sent {
		if u, urlErr := url.Parse(request.URL); urlErr == nil && u.Host != "" {
			host = u.Host
			if u.Scheme == "http" {
				proxy = "HTTP_PROXY"
			}
		}
	}
	host = OneLine(host, 200)
	check := fmt.Sprintf("check the address, the proxy (%s) and firewalls", proxy)
	dial, _ := errors.AsType[*net.OpError](err)
	proxied := dial != nil && dial.Op == "proxyconnect"
	if proxied {
		host, check = "the proxy", fmt.Sprintf("check %s and firewalls", proxy)
		if to, ok := errors.AsType[*net.OpError](dial.Err); ok && to.Addr != nil {
			host += " " + to.Addr.String()
		}
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		name := OneLine(dns.Name, 200)
		switch {
		case !dns.IsNotFound:
			return fmt.Sprintf("the host %q cannot be looked up: check DNS", name)
		case proxied:
			return fmt.Sprintf("there is no host %q, which is the proxy: check %s, and DNS", name, proxy)
		}
		return fmt.Sprintf("there is no host %q: check the address, and DNS", name)
	}
	if problem := certificateProblem(err, host, trust); problem != "" {
		return problem
	}
	late, _ := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return host + " refuses the connection: " + check
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "the network does not reach " + host + ": " + check
	case errors.Is(err, http.ErrSchemeMismatch):
		return host + " does not use TLS: check the scheme and the port of the address"
	case errors.Is(err, context.DeadlineExceeded), late != nil && late.Timeout():
		return host + " does not answer in time: " + check
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), sent && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		return host + " ended the connection: try again, and " + check
	case sent && refusedByProxy(request.Err):
		return fmt.Sprintf("the proxy (%s) does not connect to %s (%s): check the proxy's user name, password and rules", proxy, host, request.Err)
	}
	return ""
}

// certificateProblem is [NetworkProblem] for TLS.
func certificateProblem(err error, host, trust string) string {
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		issuer := ""
		if unknown.Cert != nil && unknown.Cert.Issuer.String() != "" {
			issuer = fmt.Sprintf(" (%s)", OneLine(unknown.Cert.Issuer.String(), 200))
		}
		return fmt.Sprintf("the certificate of %s is of an unknown authority%s: %s", host, issuer, trust)
	}
	if other, ok := errors.AsType[x509.HostnameError](err); ok {
		names := "no name"
		if other.Certificate != nil && len(other.Certificate.DNSNames) > 0 {
			names = OneLine(strings.Join(other.Certificate.DNSNames, ", "), 200)
		}
		return fmt.Sprintf("the certificate of %s is for %s: check the address", host, names)
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired && invalid.Cert != nil {
		from, to := invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339)
		return fmt.Sprintf("the certificate of %s is valid from %s to %s: renew it, or correct the clock of this machine", host, from, to)
	}
	if other, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Sprintf("the certificate of %s is invalid (%s): replace it", host, strings.TrimPrefix(OneLine(other.Err.Error(), 200), "x509: "))
	}
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		return host + " does not use TLS: check the scheme and the port of the address"
	}
	return ""
}

// refusedByProxy reports whether an error of net/http is the response of a proxy to CONNECT: the text of its status.
func refusedByProxy(err error) bool {
	for status := http.StatusBadRequest; status < 600; status++ {
		if text := http.StatusText(status); text != "" && err.Error() == text {
			return true
		}
	}
	return false
}
