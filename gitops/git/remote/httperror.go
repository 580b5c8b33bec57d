package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"muster/gitops/branch"
)

// Answer is a response of a host other than git's protocol: a status and a message.
type Answer struct {
	Status int
	// Words is the message in one line; it may be empty.
	Words string
	// wait is how long to wait before the next request; zero if the host sets no time.
	wait time.Duration
}

// usualWait is the wait after a rate limit without Retry-After.
const usualWait = time.Minute

// Error returns status and message in one line.
func (a *Answer) Error() string {
	said := strings.TrimSpace(fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status)))
	if a.Words != "" && !strings.EqualFold(a.Words, said) && !strings.EqualFold(a.Words, http.StatusText(a.Status)) {
		said += ": " + a.Words
	}
	if a.wait > 0 {
		return fmt.Sprintf("the git host asks to wait %s (%s)", a.wait, said)
	}
	return "the git host answers with " + said
}

// Limits reports whether the cause is the number of requests, and not this request.
func (a *Answer) Limits() bool { return RateLimited.MatchStatus(a.Status) || a.wait > 0 }

// RefusesRequest reports whether err is an [Answer] whose status shows that the same request would be
// refused again. It is false if the cause is the number of requests, the authentication, or a proxy
// that does not reach the server.
func RefusesRequest(err error) bool {
	var a *Answer
	return errors.As(err, &a) && !NoRefusal.MatchStatus(a.Status) && !a.Limits()
}

// refused returns the error of a failed response. It returns nil if go-git reports the status; the
// body becomes the message then.
func refused(response *http.Response, censor func(string) string) error {
	if response.StatusCode < http.StatusMultipleChoices {
		return nil
	}
	a := &Answer{Status: response.StatusCode, Words: wordsOf(textOf(response.Body, censor), censor)}
	a.wait, _ = branch.RetryAfter(response.Header)
	if isRedirect(response) {
		a.Words = "a redirect to no valid URL"
		if to, err := response.Location(); err == nil {
			a.Words = censor(fmt.Sprintf("a redirect that is not followed, to %s: use that address, or check whether the host requires a login", shown(to.String())))
		}
	}
	if RateLimited.MatchStatus(a.Status) && a.wait == 0 {
		a.wait = usualWait
	}
	switch a.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		if a.wait == 0 {
			response.Body = io.NopCloser(strings.NewReader(a.Words))
			return nil
		}
	}
	return a
}

var (
	// title matches the title of a web page.
	title = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)
	// colour matches a control sequence of terminals.
	colour = regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]`)
	// unread matches tags, scripts, styles and comments of a page.
	unread = regexp.MustCompile(`(?is)<(script|style)[^>]*>.*?</(script|style)>|<!--.*?-->|<[^>]*>`)
)

// textOf reads and closes a body, and returns its beginning as text.
func textOf(body io.ReadCloser, censor func(string) string) string {
	const most = 64 << 10
	page, _ := io.ReadAll(io.LimitReader(body, most))
	_ = body.Close()
	return strings.TrimSpace(colour.ReplaceAllString(censor(string(page)), ""))
}

// wordsOf returns the message in a text, in one line: the title of a web page, or its text if it has
// none; the message of JSON.
func wordsOf(text string, censor func(string) string) string {
	switch {
	case strings.HasPrefix(text, "<"):
		if m := title.FindStringSubmatch(text); m != nil && strings.TrimSpace(m[1]) != "" {
			text = m[1]
		}
		text = html.UnescapeString(unread.ReplaceAllString(text, " "))
	case strings.HasPrefix(text, "{"):
		if message := messageOf([]byte(text)); message != "" {
			text = message
		}
	}
	return branch.OneLine(censor(text), longestMessage)
}

var (
	// packetLine matches the length at the beginning of git's protocol (gitprotocol-common(5)).
	packetLine = regexp.MustCompile(`^[0-9a-f]{4}`)
	// dumbRef matches a ref in git's dumb protocol (gitprotocol-http(5), "Dumb Clients").
	dumbRef = regexp.MustCompile(`^[0-9a-f]{40}\t`)
	// htmlPage matches the beginning of a web page.
	htmlPage = regexp.MustCompile(`(?is)^(<!doctype html|<\?xml[^>]*>\s*<!doctype html|<html)`)
)

// notGit returns an error that says what a successful response is, if it is not git's protocol: the page
// of a login or a proxy, or of a path without a repository. Like git, it requires the expected type of
// an advertisement alone.
func notGit(response *http.Response, expected string, censor func(string) string) error {
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		return nil
	}
	kind, _, _ := strings.Cut(strings.ToLower(response.Header.Get("Content-Type")), ";")
	kind = strings.TrimSpace(kind)
	beginning, err := peek(response, len("0000"))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil // reading it shows the error
	}
	if packetLine.Match(beginning) && (kind == expected || strings.HasSuffix(expected, "-result") && wholePacket(response, string(beginning))) {
		return nil
	}
	text := textOf(response.Body, censor)
	if dumbRef.MatchString(text) {
		return errors.New("the host answered with the files of a repository instead of git's protocol: the host needs git http-backend, or another server of the smart protocol")
	}
	return fmt.Errorf("the host answered with %s instead of git's protocol: %s", contentOf(response, text, censor), loginRemedy)
}

// wholePacket reports whether a body begins with a whole line of git's protocol of this length: a text may
// begin with four hexadecimal digits, too.
func wholePacket(response *http.Response, length string) bool {
	size, err := strconv.ParseUint(length, 16, 16)
	if err != nil || size <= uint64(len(length)) {
		return err == nil // a special line, such as a flush packet
	}
	_, err = peek(response, int(size))
	return !errors.Is(err, io.EOF) // reading it shows another error
}

const loginRemedy = "check the address, and whether it requires a login"

// NotJSON returns an error that says what a successful response is, if it is not JSON, such as the page of a
// login or a proxy. censor removes secrets from it.
func NotJSON(response *http.Response, censor func(string) string) error {
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		return nil
	}
	beginning, err := peek(response, 512)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil // reading it shows the error
	}
	if text := bytes.TrimLeft(beginning, " \t\r\n"); len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		return nil
	}
	return fmt.Errorf("the host answered with %s instead of JSON: %s", contentOf(response, textOf(response.Body, censor), censor), loginRemedy)
}

// contentOf returns what a response with this text is, in one line.
func contentOf(response *http.Response, text string, censor func(string) string) string {
	kind, _, _ := strings.Cut(strings.ToLower(response.Header.Get("Content-Type")), ";")
	words, what := wordsOf(text, censor), fmt.Sprintf("content of the type %q", strings.TrimSpace(kind))
	switch {
	case text == "":
		what, words = "an empty response", strings.TrimSpace(fmt.Sprintf("%d %s", response.StatusCode, http.StatusText(response.StatusCode)))
	case strings.Contains(kind, "html"), htmlPage.MatchString(text):
		what = "a web page"
	case strings.Contains(kind, "json"), json.Valid([]byte(text)):
		what = "JSON"
	}
	if words != "" {
		what += " (" + words + ")"
	}
	return branch.OneLine(what, longestMessage)
}

// messageOf returns the message in JSON; empty if no host's field contains one.
func messageOf(body []byte) string {
	var document any
	if json.Unmarshal(body, &document) != nil {
		return ""
	}
	for _, q := range MessageField.quirks() {
		for _, path := range q.Names {
			if message := textAt(document, path); message != "" {
				return message
			}
		}
	}
	return ""
}

// textAt returns the text at a path in JSON, such as errors.0.message; empty if the path does not
// exist. Names are matched case-insensitively.
func textAt(value any, path string) string {
	for key := range strings.SplitSeq(path, ".") {
		switch at := value.(type) {
		case map[string]any:
			value = at[key]
			for name := range at {
				if value == nil && strings.EqualFold(name, key) {
					value = at[name]
				}
			}
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(at) {
				return ""
			}
			value = at[i]
		default:
			return ""
		}
	}
	text, _ := value.(string)
	return text
}

// WaitOf returns how long a host requires to wait, or zero.
func WaitOf(err error) time.Duration {
	var a *Answer
	if errors.As(err, &a) {
		return a.wait
	}
	return 0
}
