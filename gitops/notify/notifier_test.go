package notify_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"muster/gitops/leaktest"
	"muster/gitops/notify"
)

// TestNotifiesEachReceiver: each receiver is notified once, and nothing is logged.
func TestNotifiesEachReceiver(t *testing.T) {
	t.Parallel()
	a, b := newSyncer(t, leaktest.GitPassword, nil), newSyncer(t, leaktest.AgentToken, nil)
	n, lines := notifyOnce(t, flux(t, a), strings.Replace(flux(t, b), "name=flux", "name=other", 1))
	for _, s := range []*syncer{a, b} {
		if got := s.requests(); len(got) != 1 || after(t, got[0]) != push(1).After {
			t.Errorf("it was sent %v", got)
		}
	}
	for _, s := range n.Stats() {
		if s.Sent != 1 || s.Failed+s.Merged != 0 || s.Last < time.Second {
			t.Errorf("%+v", s)
		}
	}
	if len(lines) > 0 {
		t.Errorf("the log has %q", lines)
	}
	n.Landed(push(2)) // after Close: no notification, no panic
	n.Close()
}

// TestNotifiesAfterContextEnds: a push that landed just before the context ended, as by SIGTERM, is
// notified before the notifier closes.
func TestNotifiesAfterContextEnds(t *testing.T) {
	t.Parallel()
	a := newSyncer(t, leaktest.GitPassword, nil)
	n, _ := notifier(t, flux(t, a))
	ctx, end := context.WithCancel(t.Context())
	n.Start(ctx)
	end()
	n.Landed(push(1))
	n.Close()
	if got := a.requests(); len(got) != 1 || after(t, got[0]) != push(1).After {
		t.Errorf("it was sent %v", got)
	}
}

// TestSlowReceiverGetsLatestPush: the next notification of a slow receiver has the newest head and the
// files of all pushes since the last one. Other receivers do not wait for it.
func TestSlowReceiverGetsLatestPush(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	slow := newSyncer(t, leaktest.GitPassword, func(n int, _ http.ResponseWriter, r *http.Request) bool {
		if n == 1 {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		return false
	})
	quick := newSyncer(t, leaktest.GitPassword, nil)
	n, _ := notifier(t, flux(t, slow), strings.Replace(flux(t, quick), "name=flux", "name=quick", 1))
	n.Start(t.Context())
	n.Landed(push(1))
	slow.wait(1)
	quick.wait(1)
	for i := 2; i <= 5; i++ {
		n.Landed(push(i))
	}
	quick.wait(1) // while the other one hangs
	close(release)
	n.Close()
	got := slow.requests()
	if len(got) != 2 || after(t, got[1]) != push(5).After {
		t.Fatalf("it was sent %d requests", len(got))
	}
	contains(t, string(got[1].body), `"before":"`+push(1).After+`"`, "d2.yaml", "d5.yaml")
	if s := n.Stats()[0]; s.Sent != 2 || s.Merged != 3 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
	if s := n.Stats()[1]; s.Sent+s.Merged != 5 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

// TestFailureIsLoggedOnce: a short failure is retried; a persistent one is logged once, and once more
// when it is resolved. The next notification includes the failed push. The logged response omits the
// secret that it repeats.
func TestFailureIsLoggedOnce(t *testing.T) {
	t.Parallel()
	s := newSyncer(t, leaktest.GitPassword, func(n int, rw http.ResponseWriter, _ *http.Request) bool {
		switch {
		case n == 1: // of the first push
			rw.WriteHeader(http.StatusServiceUnavailable)
			return true
		case n == 3 || n == 4: // of the second and third, for good
			http.Error(rw, "you said\n"+leaktest.GitPassword+" which is wrong", http.StatusBadRequest)
			return true
		}
		return false
	})
	n, l := notifier(t, flux(t, s))
	n.Start(t.Context())
	for i, requests := range []int{2, 1, 1, 1, 1} {
		n.Landed(push(i + 1))
		s.wait(requests)
		settle(t, n, int64(i+1))
	}
	n.Close()
	got := s.requests()
	contains(t, string(got[len(got)-2].body), `"before":"`+push(2).Before+`"`, "d2.yaml", "d3.yaml", "d4.yaml")
	if s := n.Stats()[0]; s.Sent != 3 || s.Failed != 2 || s.Merged != 0 {
		t.Errorf("%+v", s)
	}
	lines := l.all()
	if len(lines) != 2 {
		t.Fatalf("the log has %q", lines)
	}
	contains(t, lines[0], "level=WARN", "receiver=flux", "400 Bad Request: you said [secret] which is wrong")
	contains(t, lines[1], `level=INFO msg="resolved: `, "receiver=flux")
}

// settle waits until n pushes are counted.
func settle(t *testing.T, n *notify.Notifier, pushes int64) {
	t.Helper()
	for {
		s := n.Stats()[0]
		if s.Sent+s.Failed+s.Merged == pushes {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("the test is over")
		}
		time.Sleep(time.Millisecond)
	}
}

// notifyOnce notifies receivers of the first push, and returns the notifier, which is closed, and the log.
func notifyOnce(t *testing.T, receivers ...string) (n *notify.Notifier, log []string) {
	t.Helper()
	n, l := notifier(t, receivers...)
	n.Start(t.Context())
	n.Landed(push(1))
	n.Close()
	return n, l.all()
}

// TestSilentReceiverFails: a receiver that does not respond fails after the timeout, and is still
// notified of the next push.
func TestSilentReceiverFails(t *testing.T) {
	t.Parallel()
	s := newSyncer(t, leaktest.GitPassword, func(_ int, _ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	})
	n, l := notifier(t, flux(t, s))
	n.Impatient(50*time.Millisecond, 100*time.Millisecond) // the pause alone is longer than what is left
	n.Start(t.Context())
	for i := range 2 {
		n.Landed(push(i + 1))
		settle(t, n, int64(i+1))
	}
	n.Close()
	if got := len(s.requests()); got > 2 {
		t.Errorf("%d requests: the second try was too late", got)
	}
	if s := n.Stats()[0]; s.Failed != 2 {
		t.Errorf("%+v", s)
	}
	contains(t, strings.Join(l.all(), ""), "it does not answer within")
}

// TestRetryIncludesLaterPush: a push that lands between two tries is part of the second one.
func TestRetryIncludesLaterPush(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := newSyncer(t, leaktest.GitPassword, func(n int, rw http.ResponseWriter, _ *http.Request) bool {
		if n == 1 {
			<-release
			rw.WriteHeader(http.StatusInternalServerError)
		}
		return n == 1
	})
	n, _ := notifier(t, flux(t, s))
	n.Start(t.Context())
	n.Landed(push(1))
	s.wait(1)
	n.Landed(push(2))
	close(release)
	n.Close()
	got := s.requests()
	if len(got) != 2 || after(t, got[1]) != push(2).After {
		t.Errorf("%d requests", len(got))
	}
	if s := n.Stats()[0]; s.Sent != 1 || s.Merged != 1 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

// TestHangingReceiverEndsWithContext: one that does not answer ends soon after the context, whatever it does. Nothing
// that lands waits for it.
func TestHangingReceiverEndsWithContext(t *testing.T) {
	t.Parallel()
	s := newSyncer(t, leaktest.GitPassword, func(_ int, _ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	})
	n, l := notifier(t, flux(t, s))
	ctx, cancel := context.WithCancel(t.Context())
	n.Start(ctx)
	n.Landed(push(1))
	s.wait(1)
	n.Landed(push(2))
	cancel()
	n.Close()
	if got := len(s.requests()); got != 1 {
		t.Errorf("%d requests", got)
	}
	if lines := l.all(); len(lines) > 0 {
		t.Errorf("the end of the process is no failure of the receiver: %q", lines)
	}
}

// TestFailingReceiver asserts how often a receiver that fails is notified, and the line of the log, which has
// neither the rest of an address nor the credentials of headers. A request that is signed for one host
// is not sent to another.
func TestFailingReceiver(t *testing.T) {
	t.Parallel()
	other := newSyncer(t, leaktest.GitPassword, nil)
	for name, test := range map[string]struct {
		answer   func(int, http.ResponseWriter, *http.Request) bool // nil: nobody listens
		header   bool                                               // the receiver gets a header, and no signature
		requests int
		want     string
	}{
		"nobody listens": {want: "refuses the connection: check the address"},
		"error": {
			requests: 3, want: "500 Internal Server Error",
			answer: func(_ int, rw http.ResponseWriter, _ *http.Request) bool {
				rw.WriteHeader(http.StatusInternalServerError)
				return true
			},
		},
		"redirect": {
			requests: 1, want: "redirects are not followed; it leads to " + other.URL + ": give that address",
			answer: func(_ int, rw http.ResponseWriter, r *http.Request) bool {
				http.Redirect(rw, r, other.URL+"/hook/secret?token=secret", http.StatusTemporaryRedirect)
				return true
			},
		},
		"endless response": {
			requests: 1, want: "400 Bad Request: no no",
			answer: func(_ int, rw http.ResponseWriter, r *http.Request) bool {
				rw.WriteHeader(http.StatusBadRequest)
				for r.Context().Err() == nil {
					if _, err := rw.Write([]byte(strings.Repeat("no ", 1000))); err != nil {
						break
					}
				}
				return true
			},
		},
		"header repeated": {requests: 1, want: "403 Forbidden: not you, [secret]", header: true, answer: echo},
		"credential repeated": {
			requests: 1, want: "403 Forbidden: wrong token [secret]", header: true,
			answer: func(_ int, rw http.ResponseWriter, _ *http.Request) bool {
				http.Error(rw, "wrong token "+leaktest.GitHubToken, http.StatusForbidden)
				return true
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSyncer(t, leaktest.GitPassword, test.answer)
			if test.answer == nil {
				s.Close()
			}
			receiver := flux(t, s)
			if test.header {
				header := file(t, "Authorization: Bearer "+leaktest.GitHubToken)
				receiver = "kind=url,url=" + s.URL + ",header-file=" + header
			}
			_, lines := notifyOnce(t, receiver)
			log := strings.Join(lines, "")
			contains(t, log, test.want)
			if len(lines) != 1 || len(log) > 600 || strings.Contains(log, "token=") || strings.Contains(log, "/hook/") {
				t.Errorf("the log has %q", lines)
			}
			if got := len(s.requests()); got != test.requests {
				t.Errorf("%d requests, want %d", got, test.requests)
			}
		})
	}
	if got := other.requests(); len(got) > 0 {
		t.Errorf("the other host was sent %v", got)
	}
}

// TestSecretIsReadAgain: the secret is read again for each request.
func TestSecretIsReadAgain(t *testing.T) {
	t.Parallel()
	s := newSyncer(t, leaktest.GitPassword, nil)
	name := file(t, leaktest.GitPassword)
	n, _ := notifier(t, "kind=flux,url="+s.URL+",secret-file="+name)
	n.Start(t.Context())
	n.Landed(push(1))
	settle(t, n, 1)
	must(t, os.WriteFile(name, []byte(leaktest.AgentToken), 0o600))
	s.mu.Lock()
	s.secret = leaktest.AgentToken
	s.mu.Unlock()
	n.Landed(push(2))
	settle(t, n, 2)
	if err := os.Remove(name); err != nil { // while it is written anew
		t.Fatal(err)
	}
	n.Landed(push(3))
	n.Close()
	if s := n.Stats()[0]; s.Sent != 2 || s.Failed != 1 {
		t.Errorf("%+v", s)
	}
}

// selfSigned is a certificate like the one that Argo CD makes for itself: of no authority
// (argo-cd, util/settings/settings.go, "generate TLS cert").
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	from := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.AddDate(1000, 0, 0), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestAuthorities: a server with a certificate of the file's authorities is notified, and only with the
// file.
func TestAuthorities(t *testing.T) {
	t.Parallel()
	s := &syncer{secret: leaktest.GitPassword, registered: make(chan struct{}, 10)}
	s.Server = httptest.NewUnstartedServer(s)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}
	s.StartTLS()
	t.Cleanup(s.Close)
	n, lines := notifyOnce(t, flux(t, s), strings.Replace(flux(t, s), "name=flux", "name=known,ca-file="+file(t, pem(s.Certificate().Raw)), 1))
	if a, b := n.Stats()[0], n.Stats()[1]; a.Failed != 1 || b.Sent != 1 {
		t.Errorf("%+v, %+v", a, b)
	}
	contains(t, strings.Join(lines, "\n"), "is of an unknown authority")
}
