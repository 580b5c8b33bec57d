package notify_test

import (
	encoding "encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gitops/branch"
	"muster/gitops/leaktest"
	"muster/gitops/notify"
)

func pem(certificate []byte) string {
	return string(encoding.EncodeToMemory(&encoding.Block{Type: "CERTIFICATE", Bytes: certificate}))
}

// TestParse: errors about a receiver omit its URL.
func TestParse(t *testing.T) {
	t.Parallel()
	url := "url=https://example.com/hook/" + leaktest.GitHubToken
	for text, want := range map[string]string{
		"":                    "is written as KEY=VALUE",
		"kind=flux":           "a receiver's url is",
		"kind=fux," + url:     "kind is flux, argocd or url",
		"kind=flux,kind=flux": "kind is given twice",
		"kind=flux,url=https://%zz,secret-file=a": "a receiver's url is",
		"kind=flux,url=":   "url is empty",
		"kind=flux," + url: "needs secret-file",
		"kind=flux,secret-file=a,url=ftp://example.com":              "a receiver's url is",
		"kind=flux,secret-file=a,url=https://a:b@example.com":        "no password in it",
		"kind=argocd,secret-file=a,as=gitlab," + url:                 `has no "as"`,
		"kind=url,secret-file=a," + url:                              "takes no secret-file",
		"kind=flux,secret-file=a,header-file=b," + url:               "only a receiver with kind=url",
		"kind=flux,secret-file=a,name=a/b," + url:                    "name is made of",
		"kind=flux,secrets=a," + url:                                 `has no "secrets"`,
		"https://example.com/hook/" + leaktest.GitHubToken + "=flux": "is written as KEY=VALUE",
	} {
		_, err := notify.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
			continue
		}
		clean(t, err.Error())
	}
	r, err := notify.Parse("kind=argocd,url=https://argocd.example.com,secret-file=a")
	if err != nil || r.URL != "https://argocd.example.com/api/webhook" || r.Name != "argocd.example.com" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestNew: a receiver that can never be notified is an error at once.
func TestNew(t *testing.T) {
	t.Parallel()
	empty, wrong := file(t, " \n"), file(t, "no header")
	for want, receivers := range map[string][]notify.Receiver{
		"two receivers are named a":     {{Name: "a", Kind: notify.URL, URL: "https://a"}, {Name: "a", Kind: notify.URL, URL: "https://b"}},
		"is empty":                      {{Name: "a", Kind: notify.Flux, URL: "https://a", SecretFile: empty}},
		"no such file":                  {{Name: "a", Kind: notify.Flux, URL: "https://a", SecretFile: empty + "none"}},
		"no such file or directory":     {{Name: "a", Kind: notify.URL, URL: "https://a", TemplateFile: empty + "none"}},
		"such file or directory":        {{Name: "a", Kind: notify.URL, URL: "https://a", HeaderFile: empty + "none"}},
		"write one header on each line": {{Name: "a", Kind: notify.URL, URL: "https://a", HeaderFile: wrong}},
		"has none in PEM":               {{Name: "a", Kind: notify.URL, URL: "https://a", CAFile: wrong}},
		"the template has {{.Head}}":    {{Name: "a", Kind: notify.URL, URL: "https://a", TemplateFile: file(t, `{"head":"{{.Head}}"}`)}},
		"give repository=URL":           {{Name: "a", Kind: notify.ArgoCD, URL: "https://a", SecretFile: wrong}},
	} {
		_, err := notify.New(notify.Config{Repository: "/srv/fleet.git", Branch: "main", Receivers: receivers, Now: clock()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestFilesLater: a receiver whose files do not exist is logged once at the start, is a finding of Check,
// and is notified once they exist.
func TestFilesLater(t *testing.T) {
	t.Parallel()
	s, secure := newSyncer(t, leaktest.GitPassword, nil), httptest.NewTLSServer(nil)
	t.Cleanup(secure.Close)
	secret, authority := filepath.Join(t.TempDir(), "token"), filepath.Join(t.TempDir(), "ca.crt")
	r, err := notify.Parse(fmt.Sprintf("kind=flux,url=%s/hook/0123,ca-file=%s,secret-file=%s,name=flux", s.URL, authority, secret))
	must(t, err)
	l := &log{}
	cfg := notify.Config{Repository: fleet, Branch: "main", Receivers: []notify.Receiver{r}, FilesLater: true, Log: slog.New(slog.NewTextHandler(l, nil)), Now: clock()}
	n, err := notify.New(cfg)
	must(t, err)
	if found := n.Check(t.Context()); len(found) != 1 || !strings.Contains(found[0].Error(), "ca.crt: no such file or directory") {
		t.Errorf("findings: %q", found)
	}
	n.Impatient(time.Second, time.Second)
	n.Start(t.Context())
	n.Landed(push(1))
	settle(t, n, 1)
	must(t, os.WriteFile(authority, []byte(pem(secure.Certificate().Raw)), 0o600))
	must(t, os.WriteFile(secret, []byte(leaktest.GitPassword), 0o600))
	n.Landed(push(2))
	n.Close()
	if got := s.requests(); len(got) != 1 || after(t, got[0]) != push(2).After {
		t.Errorf("it was sent %v", got)
	}
	lines := l.all()
	if len(lines) != 2 {
		t.Fatalf("the log has %q", lines)
	}
	contains(t, lines[0], "level=WARN", "receiver=flux", "no such file or directory")
	contains(t, lines[1], `level=INFO msg="resolved: `)

	cfg.Receivers[0].CAFile = file(t, "no certificate")
	if _, err := notify.New(cfg); err == nil || !strings.Contains(err.Error(), "has none in PEM") {
		t.Errorf("an invalid file: %v", err)
	}
}

// TestFluxPath: a URL of Flux without a path gets that of the Receiver muster in flux-system, from the current
// token. Test values: printf %s sesamemusterflux-system | sha256sum. The receiver's 404 is explained.
func TestFluxPath(t *testing.T) {
	t.Parallel()
	paths := make(chan string, 2)
	s := newSyncer(t, "sesame", func(_ int, rw http.ResponseWriter, r *http.Request) bool {
		paths <- r.URL.Path
		rw.WriteHeader(http.StatusNotFound)
		return true
	})
	for _, slash := range []string{"", "/"} {
		n, _ := notifier(t, "kind=flux,url="+s.URL+slash+",secret-file="+file(t, "sesame")+",name=flux")
		found := n.Check(t.Context())
		if got, want := <-paths, "/hook/16db2c30ddd1d9b1f2768e2d1b5dc2d4b54f9678898cc5c5ff21e4ebdc2f1b38"; got != want {
			t.Errorf("path %s, want %s", got, want)
		}
		if len(found) != 1 || !strings.HasSuffix(found[0].Error(), "404 Not Found: the namespace flux-system has no Receiver muster whose token is that of secret-file") {
			t.Errorf("findings: %q", found)
		}
	}
}

// echo answers with the credential that it was sent.
func echo(_ int, rw http.ResponseWriter, r *http.Request) bool {
	http.Error(rw, "not you, "+r.Header.Get("Authorization"), http.StatusForbidden)
	return true
}

func changes(p notify.Push) []branch.Change {
	var all []branch.Change
	for _, path := range p.Written {
		all = append(all, branch.Change{Path: path, Content: []byte{}})
	}
	for _, path := range p.Removed {
		all = append(all, branch.Change{Path: path})
	}
	return all
}

// TestCheck: a receiver that would take a push is no finding, and a wrong secret is one,
// in the receiver's words. Argo CD is told of no push to the fleet repository.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"kind=flux", "kind=argocd"} {
		s := newSyncer(t, leaktest.GitPassword, nil)
		good := fmt.Sprintf("%s,url=%s,secret-file=%s,name=good", kind, s.URL, file(t, leaktest.GitPassword))
		bad := fmt.Sprintf("%s,url=%s,secret-file=%s,name=bad", kind, s.URL, file(t, leaktest.AgentToken))
		n, _ := notifier(t, good, bad)
		findings := n.Check(t.Context())
		if len(findings) != 1 {
			t.Fatalf("%s: %q", kind, findings)
		}
		contains(t, findings[0].Error(), "the receiver bad: it answers 400 Bad Request: Webhook processing failed: HMAC verification failed")
		for _, r := range s.requests() {
			if kind == "kind=argocd" && r.header.Get("X-Github-Event") != "ping" {
				t.Errorf("Argo CD is sent %v %s", r.header, r.body)
			}
		}
	}
}

// TestCheckURL: a URL is not sent a push. That it takes nothing but POST is no fault.
func TestCheckURL(t *testing.T) {
	t.Parallel()
	for status, findings := range map[int]int{200: 0, 405: 0, 404: 0, 302: 1, 401: 1, 403: 1, 503: 1} {
		s := newSyncer(t, "", func(_ int, rw http.ResponseWriter, _ *http.Request) bool {
			rw.Header().Set("Location", "https://elsewhere.example.com/")
			rw.WriteHeader(status)
			return true
		})
		n, _ := notifier(t, "kind=url,url="+s.URL)
		if found := n.Check(t.Context()); len(found) != findings {
			t.Errorf("%d: %q", status, found)
		}
		for _, r := range s.requests() {
			if r.method != http.MethodHead || len(r.body) > 0 {
				t.Errorf("it was sent %s %s", r.method, r.body)
			}
		}
	}
}

// TestCheckReportsNoSecret asserts that a finding contains neither the secret of a URL nor that of a
// file if the receiver repeats them.
func TestCheckReportsNoSecret(t *testing.T) {
	t.Parallel()
	s := newSyncer(t, "", func(_ int, rw http.ResponseWriter, _ *http.Request) bool {
		http.Error(rw, "not you, "+leaktest.GitPassword, http.StatusForbidden)
		return true
	})
	n, _ := notifier(t, "kind=argocd,url="+s.URL+"/"+leaktest.GitHubToken+",secret-file="+file(t, leaktest.GitPassword))
	found := n.Check(t.Context())
	if len(found) != 1 {
		t.Fatalf("%d findings, want 1", len(found))
	}
	clean(t, found[0].Error())
	contains(t, found[0].Error(), "403 Forbidden: not you, [secret]")
}
