package remote

import (
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
)

// Answer is what a host said in place of git's answer: a status, and its words.
type Answer struct {
	Status int
	// Words are in one line; empty: it said nothing that can be read.
	Words string
	// wait is for how long the host does not want to be asked; zero: it does not say.
	wait time.Duration
}

const (
	// usualWait is for how long a host is left alone that limits the rate of requests
	// without Retry-After.
	usualWait = time.Minute
	// longestWait bounds what Retry-After may ask: a wrong clock or a typing error
	// there must not stop a fleet for a day.
	longestWait = time.Hour
)

// Error says it in one line.
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

// Limits reports whether it refuses for the number of requests, and for nothing in this
// one.
func (a *Answer) Limits() bool { return RateLimited.MatchStatus(a.Status) || a.wait > 0 }

// RefusesRequest reports whether the status shows that the same request would be refused again. It
// is false if the cause is the number of requests, the authentication, or a proxy that does not
// reach the server.
func (a *Answer) RefusesRequest() bool {
	return !NoRefusal.MatchStatus(a.Status) && !a.Limits()
}

// refused returns the error of a response with a status of failure; nil where it has
// none, or one that go-git tells: there the body becomes the words alone.
func refused(response *http.Response, censor func(string) string) error {
	if response.StatusCode < http.StatusBadRequest {
		return nil
	}
	a := &Answer{Status: response.StatusCode, Words: wordsOf(response.Body, censor), wait: retryAfter(response.Header)}
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

// retryAfter is the header's value, which is in seconds or a date (RFC 9110, 10.2.3). A
// date counts from the answer's own, so that no clock here matters.
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	var wait time.Duration
	if seconds, err := strconv.Atoi(value); err == nil {
		wait = time.Duration(min(max(0, seconds), int(longestWait/time.Second))) * time.Second
	} else if until, err := http.ParseTime(value); err == nil {
		if now, err := http.ParseTime(header.Get("Date")); err == nil {
			wait = until.Sub(now)
		}
	}
	return min(max(0, wait), longestWait)
}

var (
	// title is a web page's.
	title = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)
	// colour is a sequence that a terminal obeys.
	colour = regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]`)
	// unread are the parts of a page that are no text, and its tags.
	unread = regexp.MustCompile(`(?is)<(script|style)[^>]*>.*?</(script|style)>|<!--.*?-->|<[^>]*>`)
)

// wordsOf reads and closes a body, and is what it says, in one line: of a page its
// title, or its text where it has none; of JSON its message.
func wordsOf(body io.ReadCloser, censor func(string) string) string {
	const most = 64 << 10
	page, _ := io.ReadAll(io.LimitReader(body, most))
	_ = body.Close()
	text := strings.TrimSpace(colour.ReplaceAllString(censor(string(page)), ""))
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
	return oneLine(censor(text))
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

// held is an error of a host that asks to wait.
type held struct {
	*censored
	wait time.Duration
}

// RetryAfter is how long not to ask, by which a caller knows the error.
func (e held) RetryAfter() time.Duration { return e.wait }

// Unwrap is the error itself.
func (e held) Unwrap() error { return e.censored }

// WaitOf is how long a host asked to be left alone; zero: it did not.
func WaitOf(err error) time.Duration {
	var a *Answer
	if errors.As(err, &a) {
		return a.wait
	}
	return 0
}
