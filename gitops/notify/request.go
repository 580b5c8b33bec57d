package notify

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"time"

	"muster/gitops/branch"
)

const (
	longestAnswer = 4 << 10 // bytes of a response that are read
	longestWords  = 200     // bytes of it that are shown
	// longestProblem is the maximum number of bytes of a problem of the network, with its remedy.
	longestProblem = 600
	longestFile    = 64 << 10 // of secrets, headers and templates
)

// post sends requests to one receiver.
type post struct {
	Receiver
	about  about
	client *http.Client // nil until its files have been read
}

// newPost returns a post for a receiver.
func newPost(r Receiver, a about) *post {
	a.repository = cmp.Or(r.Repository, a.repository)
	return &post{Receiver: r, about: a}
}

// connect reads the certificate authorities, once. Only their context ends requests.
func (p *post) connect() error {
	if p.client != nil {
		return nil
	}
	pool, err := p.authorities()
	if err != nil {
		return err
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableCompression: true,
		TLSClientConfig:        &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		MaxResponseHeaderBytes: 64 << 10, MaxIdleConns: 1, IdleConnTimeout: time.Minute,
	}
	p.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return nil
}

// event returns the request for a push, from the current content of the files, and the secrets in it. It
// also connects.
func (p *post) event(push Push) (made event, secrets []string, err error) {
	if err := p.connect(); err != nil {
		return event{}, nil, err
	}
	if p.Kind == URL {
		return p.custom(push)
	}
	text, err := read(p.SecretFile)
	if err != nil {
		return event{}, nil, err
	}
	key := strings.TrimSpace(string(text))
	if key == "" {
		return event{}, nil, fmt.Errorf("%s is empty", p.SecretFile)
	}
	secrets = []string{key}
	if p.Kind == Flux {
		made = fluxEvent(p.about, push, []byte(key))
		if u, err := url.Parse(p.URL); err == nil && strings.Trim(u.Path, "/") == "" {
			made.path = fluxPath(key)
			secrets = append(secrets, made.path)
		}
		return made, secrets, nil
	}
	made, err = argoEvent(p.about, push, []byte(key))
	return made, secrets, err
}

// custom returns the request for a URL: the filled template or a document, and the headers of the
// file.
func (p *post) custom(push Push) (made event, secrets []string, err error) {
	made = event{body: inJSON(documentOf(p.about, push)), header: http.Header{}}
	if p.TemplateFile != "" {
		template, err := read(p.TemplateFile)
		if err != nil {
			return event{}, nil, err
		}
		text, err := fill(string(template), p.about, push)
		if err != nil {
			return event{}, nil, fmt.Errorf("%s: %w", p.TemplateFile, err)
		}
		made.body = []byte(text)
	}
	if p.HeaderFile == "" {
		return made, nil, nil
	}
	text, err := read(p.HeaderFile)
	if err != nil {
		return event{}, nil, err
	}
	lines := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(bytes.TrimSpace(text), "\n\n"...))))
	header, err := lines.ReadMIMEHeader()
	if err != nil {
		return event{}, nil, fmt.Errorf("%s: write one header on each line, as NAME: VALUE", p.HeaderFile) // the cause quotes it
	}
	made.header = http.Header(header)
	for name, values := range header {
		if name == "Content-Type" || name == "Accept" || name == "User-Agent" {
			continue
		}
		for _, value := range values {
			secrets = append(secrets, value)
			if _, credential, ok := strings.Cut(value, " "); ok {
				secrets = append(secrets, credential) // behind its scheme
			}
		}
	}
	return made, secrets, nil
}

// read returns a file of at most [longestFile] bytes.
func read(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, longestFile+1))
	if err == nil && len(text) > longestFile {
		err = fmt.Errorf("%s has more than %d bytes", name, longestFile)
	}
	return text, err
}

// refused is a response with a status other than success.
type refused struct {
	status int
	words  string
}

// Error returns the status and the receiver's message.
func (r refused) Error() string {
	text := fmt.Sprintf("it answers %d %s", r.status, http.StatusText(r.status))
	if r.words != "" {
		text += ": " + r.words
	}
	return text
}

// errSilent is returned if a receiver takes too long.
var errSilent = fmt.Errorf("it does not answer within %s", maxTry)

// again reports whether the same request may be accepted a moment later.
func again(err error) bool {
	var r refused
	if !errors.As(err, &r) {
		return true
	}
	return r.status >= http.StatusInternalServerError || r.status == http.StatusTooManyRequests || r.status == http.StatusRequestTimeout
}

// send sends a push. The error contains neither the URL nor a secret.
func (p *post) send(ctx context.Context, push Push) error {
	made, secrets, err := p.event(push)
	if err != nil {
		return err
	}
	return p.do(ctx, http.MethodPost, made, secrets)
}

// do sends a request. It does not follow redirects: the request is signed for this receiver, and a
// redirected POST may become a GET.
func (p *post) do(ctx context.Context, method string, made event, secrets []string) error {
	request, err := http.NewRequestWithContext(ctx, method, p.URL, bytes.NewReader(made.body))
	if err != nil {
		return errors.New("its url cannot be read: write it as https://HOST/PATH")
	}
	if made.path != "" {
		request.URL.Path = made.path
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "muster")
	maps.Copy(request.Header, made.header)
	answer, err := p.client.Do(request)
	switch address := (*url.Error)(nil); {
	case errors.Is(err, context.DeadlineExceeded):
		return errSilent
	case errors.As(err, &address): // as every other error, which shows the whole URL
		if problem := branch.NetworkProblem(err, request.URL.Host, "give the receiver its file in ca-file"); problem != "" {
			return errors.New(branch.OneLine(problem, longestProblem, secrets...))
		}
		return errors.New(branch.OneLine(address.Err.Error(), longestWords, secrets...))
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, longestAnswer))
	switch {
	case answer.StatusCode < http.StatusMultipleChoices:
		return nil
	case answer.StatusCode < http.StatusBadRequest:
		return refused{answer.StatusCode, redirection(answer)}
	}
	if made.path != "" && answer.StatusCode == http.StatusNotFound {
		return refused{answer.StatusCode, "the namespace flux-system has no Receiver muster whose token is that of secret-file"}
	}
	return refused{answer.StatusCode, branch.OneLine(string(text), longestWords, secrets...)}
}

// redirection describes a redirect by its host: the rest of the URL may be secret.
func redirection(answer *http.Response) string {
	to, err := answer.Location()
	if err != nil {
		return "redirects are not followed"
	}
	return branch.OneLine(fmt.Sprintf("redirects are not followed; it leads to %s://%s: give that address", to.Scheme, to.Host), longestWords)
}
