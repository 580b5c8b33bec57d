package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

const agentToken = "bkct_e2e-secret"

// buildkite is the simulated one in real time: on a socket with TLS for agents, and
// on one without for muster.
type buildkite struct {
	*fakebuildkite.Server
	cluster     string
	agentURL    string
	certificate string
	url         string
	away        atomic.Bool
	plain       *httptest.Server
	tls         *httptest.Server
}

func startBuildkite(ctx context.Context, t tb, dir string, left func(fakebuildkite.AgentRecord)) *buildkite {
	b := &buildkite{}
	b.Server = fakebuildkite.New(fakebuildkite.Options{Now: time.Now(), AgentInterval: time.Second, OnAgentEnd: left})
	b.cluster = b.AddCluster("one")
	b.AddQueue(b.cluster, "default")
	b.AddAgentToken(b.cluster, agentToken)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.away.Load() {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		b.ServeHTTP(w, r)
	})
	b.tls = httptest.NewUnstartedServer(handler)
	b.tls.EnableHTTP2 = true // streaming is gRPC
	b.tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	certificate, text := selfSigned(t, "127.0.0.1", bridgeAddress)
	b.tls.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	b.tls.StartTLS()
	b.agentURL = b.tls.URL
	b.plain = httptest.NewServer(seen.note(handler))
	b.url = b.plain.URL + "/"
	b.certificate = filepath.Join(dir, "buildkite.pem")
	must(t, os.WriteFile(b.certificate, text, 0o600))
	go func() {
		for ctx.Err() == nil {
			b.AdvanceTo(time.Now())
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return b
}

// listen serves agents on another address of this machine too, and returns the URL.
func (b *buildkite) listen(address string) (string, error) {
	l, err := net.Listen("tcp", address+":0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: b.tls.Config.Handler, TLSConfig: &tls.Config{Certificates: b.tls.TLS.Certificates}, ErrorLog: b.tls.Config.ErrorLog}
	go func() { _ = server.ServeTLS(l, "", "") }()
	return "https://" + l.Addr().String(), nil
}

// selfSigned is a certificate for some addresses that signs itself, and in PEM.
func selfSigned(t tb, addresses ...string) (tls.Certificate, []byte) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "e2e"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 0, 7),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, a := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(a))
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// goAway lets every request of muster and of agents fail until comeBack.
func (b *buildkite) goAway() {
	b.away.Store(true)
	b.tls.CloseClientConnections()
}

func (b *buildkite) comeBack() { b.away.Store(false) }

func (b *buildkite) close() {
	for _, s := range []*httptest.Server{b.tls, b.plain} {
		s.CloseClientConnections()
		_ = s.Listener.Close()
	}
}

// agentsOf are the agents of a dispatch.
func (b *buildkite) agentsOf(dispatch string) []fakebuildkite.AgentRecord {
	return slices.DeleteFunc(b.Agents(), func(a fakebuildkite.AgentRecord) bool {
		return !slices.Contains(a.Tags, "dispatch="+dispatch)
	})
}

// jobsOf are the jobs of a queue.
func (b *buildkite) jobsOf(queue string) []fakebuildkite.JobRecord {
	return slices.DeleteFunc(b.Jobs(), func(j fakebuildkite.JobRecord) bool {
		return !slices.Contains(j.Rules, "queue="+queue)
	})
}
