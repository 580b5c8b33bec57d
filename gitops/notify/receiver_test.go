package notify_test

import (
	encoding "encoding/pem"
	"strings"
	"testing"

	"muster/gitops/canarytest"
	"muster/gitops/notify"
)

func pem(certificate []byte) string {
	return string(encoding.EncodeToMemory(&encoding.Block{Type: "CERTIFICATE", Bytes: certificate}))
}

// TestParse: what is wrong with a receiver is said without its URL.
func TestParse(t *testing.T) {
	t.Parallel()
	url := "url=https://example.com/hook/" + canarytest.GitHubToken
	for text, want := range map[string]string{
		"":                    "is written as KEY=VALUE",
		"kind=flux":           "a receiver's url is",
		"kind=fux," + url:     "kind is flux, argocd or url",
		"kind=flux,kind=flux": "kind is given twice",
		"kind=flux,url=https://%zz,secret-file=a": "a receiver's url is",
		"kind=flux,url=":   "url is empty",
		"kind=flux," + url: "needs secret-file",
		"kind=flux,secret-file=a,url=ftp://example.com":                "a receiver's url is",
		"kind=flux,secret-file=a,url=https://a:b@example.com":          "no password in it",
		"kind=flux,secret-file=a,as=github," + url:                     "only a receiver with kind=argocd",
		"kind=argocd,secret-file=a,as=svn," + url:                      "as is one of github, gitlab",
		"kind=url,secret-file=a," + url:                                "takes no secret-file",
		"kind=flux,secret-file=a,header-file=b," + url:                 "only a receiver with kind=url",
		"kind=flux,secret-file=a,name=a/b," + url:                      "name is made of",
		"kind=flux,secrets=a," + url:                                   `has no "secrets"`,
		"https://example.com/hook/" + canarytest.GitHubToken + "=flux": "is written as KEY=VALUE",
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

// TestNew: what could never be told is an error at once.
func TestNew(t *testing.T) {
	t.Parallel()
	empty, wrong := file(t, " \n"), file(t, "no header")
	for want, receivers := range map[string][]notify.Receiver{
		"two receivers are called a":    {{Name: "a", Kind: notify.URL, URL: "https://a"}, {Name: "a", Kind: notify.URL, URL: "https://b"}},
		"is empty":                      {{Name: "a", Kind: notify.Flux, URL: "https://a", SecretFile: empty}},
		"no such file":                  {{Name: "a", Kind: notify.Flux, URL: "https://a", SecretFile: empty + "none"}},
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
