package notify

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"muster/gitops/branch"
	"muster/gitops/keyvalue"
)

// Kind is the protocol of a receiver.
type Kind string

// The kinds of receiver.
const (
	// Flux is a Receiver of Flux's notification-controller with the type generic-hmac.
	Flux Kind = "flux"
	// ArgoCD is Argo CD's /api/webhook.
	ArgoCD Kind = "argocd"
	// URL is anything that takes an HTTP POST.
	URL Kind = "url"
)

// Receiver is a recipient of notifications. Its secrets are in files, which are read for each
// request.
type Receiver struct {
	// Name is its name in logs and metrics. It is not the URL, whose path may be secret.
	Name string
	Kind Kind
	URL  string
	// SecretFile contains the secret that Flux or Argo CD is configured with. A URL of Flux without a
	// path gets that of the Receiver that muster init writes, which follows from the secret.
	SecretFile string
	// Repository is the receiver's address of the repository; empty means muster's.
	Repository string
	// CAFile contains certificate authorities besides the machine's, in PEM; optional.
	CAFile string
	// TemplateFile contains the body and HeaderFile further headers, for the kind URL; both are
	// optional.
	TemplateFile, HeaderFile string
}

// named matches names that are valid in metrics and logs.
var named = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$`)

// Parse parses a receiver in the format of the command line, as in
// kind=flux,url=https://flux.example.com/hook/0123,secret-file=token. Its errors do not contain the
// URL.
func Parse(text string) (Receiver, error) {
	var r Receiver
	kind := ""
	form := keyvalue.Form{Name: "a receiver", Example: "kind=flux,url=https://...,secret-file=FILE", Fields: map[string]*string{
		"kind": &kind, "url": &r.URL, "name": &r.Name, "secret-file": &r.SecretFile, "repository": &r.Repository,
		"ca-file": &r.CAFile, "template-file": &r.TemplateFile, "header-file": &r.HeaderFile,
	}}
	if err := form.Parse(text); err != nil {
		return r, err
	}
	r.Kind = Kind(kind)
	return r, r.complete()
}

// complete validates the receiver, and sets a missing name and path.
func (r *Receiver) complete() error {
	u, err := url.Parse(r.URL)
	switch {
	case !slices.Contains([]Kind{Flux, ArgoCD, URL}, r.Kind):
		return errors.New("a receiver's kind is flux, argocd or url")
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return errors.New("a receiver's url is https://HOST/PATH, or http:// inside of the cluster")
	case u.User != nil:
		return errors.New("a receiver's url must have no password in it: logs and lists of processes would show it; give a header-file")
	case r.Kind == URL && r.SecretFile != "":
		return errors.New("a receiver with kind=url takes no secret-file: put its credentials into a header-file")
	case r.Kind != URL && r.SecretFile == "":
		return fmt.Errorf("a receiver with kind=%s needs secret-file", r.Kind)
	case r.Kind != URL && r.TemplateFile+r.HeaderFile != "":
		return errors.New("only a receiver with kind=url takes template-file and header-file")
	}
	if r.Kind == ArgoCD && strings.Trim(u.Path, "/") == "" {
		u.Path = "/api/webhook" // argoproj/argo-cd/docs/operator-manual/webhook.md
		r.URL = u.String()
	}
	r.Name = cmp.Or(r.Name, u.Hostname())
	if !named.MatchString(r.Name) {
		return errors.New("a receiver's name is made of letters, digits and . _ : -, at most 100 of them")
	}
	return nil
}

// place returns the host and the path of a repository's address, without .git. Both are empty for a
// local path.
func place(repository string) (host, path string) {
	a, err := branch.ParseAddress(repository)
	if err != nil || a.Host == "" || a.Repository() == "" {
		return "", ""
	}
	return strings.ToLower(a.Host), a.Repository()
}

// authorities returns the certificate authorities of the machine and of the file; nil without a file.
func (r Receiver) authorities() (*x509.CertPool, error) {
	if r.CAFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(r.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading certificate authorities: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("reading certificate authorities: %s has none in PEM", r.CAFile)
	}
	return pool, nil
}
