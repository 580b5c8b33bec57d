package notify_test

import (
	encoding "encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"testing"

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
