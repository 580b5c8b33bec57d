package notify_test

import (
	"fmt"
	"net/http"
	"testing"

	"muster/gitops/branch"
	"muster/gitops/canarytest"
	"muster/gitops/notify"
)

// echo answers with the credential that it was sent.
func echo(_ int, rw http.ResponseWriter, r *http.Request) bool {
	http.Error(rw, "not you, "+r.Header.Get("Authorization")+r.Header.Get("X-Gitlab-Token"), http.StatusForbidden)
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
	for _, kind := range []string{"kind=flux", "kind=argocd,as=github", "kind=argocd,as=gitlab", "kind=argocd,as=gogs", "kind=argocd,as=bitbucket-server"} {
		s := newSyncer(t, canarytest.GitPassword, nil)
		_, logger := newLog(t)
		good := fmt.Sprintf("%s,url=%s,secret-file=%s,name=good", kind, s.URL, file(t, canarytest.GitPassword))
		bad := fmt.Sprintf("%s,url=%s,secret-file=%s,name=bad", kind, s.URL, file(t, canarytest.AgentToken))
		findings := notifier(t, logger, good, bad).Check(t.Context())
		if len(findings) != 1 {
			t.Fatalf("%s: %q", kind, findings)
		}
		contains(t, findings[0].Error(), "the receiver bad: it answers 400 Bad Request: Webhook processing failed: HMAC verification failed")
		for _, r := range s.requests() {
			if kind != "kind=flux" && r.header.Get("X-Github-Event") != "ping" {
				contains(t, string(r.body), "muster.invalid")
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
		_, logger := newLog(t)
		found := notifier(t, logger, "kind=url,url="+s.URL).Check(t.Context())
		if len(found) != findings {
			t.Errorf("%d: %q", status, found)
		}
		for _, r := range s.requests() {
			if r.method != http.MethodHead || len(r.body) > 0 {
				t.Errorf("it was sent %s %s", r.method, r.body)
			}
		}
	}
}

// TestCheckSaysNothingSecret: nor does a finding.
func TestCheckSaysNothingSecret(t *testing.T) {
	t.Parallel()
	s := newSyncer(t, "", echo)
	_, logger := newLog(t)
	for _, err := range notifier(t, logger, "kind=argocd,as=gitlab,url="+s.URL+"/"+canarytest.GitHubToken+",secret-file="+file(t, canarytest.GitPassword)).Check(t.Context()) {
		clean(t, err.Error())
		contains(t, err.Error(), "403 Forbidden: not you, [secret]")
	}
}
