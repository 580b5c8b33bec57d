package git

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"time"
)

// pool keeps connections over http open between sessions. The zero value is an
// empty pool.
type pool struct {
	transport   *http.Transport
	authorities string // further certificate authorities in PEM, as last read
}

// get returns what makes requests over the pool's connections. When the file of
// certificate authorities has changed, the pool begins anew. An empty caFile
// adds none to those of the system.
func (p *pool) get(caFile string) (*http.Transport, error) {
	var authorities []byte
	if caFile != "" {
		content, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate authorities: %w", err)
		}
		authorities = content
	}
	if p.transport != nil && string(authorities) == p.authorities {
		return p.transport, nil
	}
	if p.transport != nil {
		p.transport.CloseIdleConnections()
	}
	made := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 2,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 30 * time.Second,
	}
	if len(authorities) > 0 {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("reading the certificate authorities: %s has no certificate in PEM", caFile)
		}
		made.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	p.transport, p.authorities = made, string(authorities)
	return made, nil
}
