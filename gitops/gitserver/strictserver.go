package gitserver

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
)

// Strict is a host in front of git's own server that refuses requests which that accepts. The zero value
// refuses a capability that it did not offer (gitprotocol-capabilities: "Client MUST NOT ask for
// capabilities the server did not say it supports").
type Strict struct {
	// Hides are capabilities that the host does not offer.
	Hides []string
	// Insists is the list of capabilities without which the server sends no objects. multi_ack
	// includes multi_ack_detailed.
	Insists []string
	// Refusal is the response without them.
	Refusal Response
	// Filter is the response to a filter, although the capability is offered; the zero value
	// filters.
	Filter Response
	// Upload and Receive intercept requests for objects and pushes before the server; nil means no
	// interception.
	Upload, Receive func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

// Response replaces git's response.
type Response struct {
	Status int
	// Type is the type of the content; empty means plain text.
	Type  string
	Words string
	// RetryAfter is the value of the header; empty if the header is absent.
	RetryAfter string
}

// AzureDevOps requires multi_ack in every request. Its message is quoted by go-git, issue 64, and
// fluxcd/pkg, issue 576.
func AzureDevOps() Strict {
	return Strict{
		Insists: []string{"multi_ack"},
		Refusal: Response{Status: http.StatusBadRequest, Words: "TF401041: The client that initiated the request does not support multi-ack. Servers must support multi-ack"},
	}
}

// Dulwich requires UploadPackHandler.required_capabilities (dulwich 0.21, server.py), responds with the
// message of an exception, and has no filter.
func Dulwich() Strict {
	return Strict{
		Hides:   []string{"filter", "multi_ack_detailed", "allow-tip-sha1-in-want", "allow-reachable-sha1-in-want"},
		Insists: []string{"side-band-64k", "thin-pack", "ofs-delta"},
		Refusal: Response{Status: http.StatusInternalServerError, Words: "Client does not support required capability b'thin-pack'."},
	}
}

// CodeCommit requires multi_ack (fluxcd/pkg, issue 576), and has neither filters nor single objects.
func CodeCommit() Strict {
	return Strict{
		Hides:   []string{"filter", "allow-tip-sha1-in-want", "allow-reachable-sha1-in-want", "ofs-delta"},
		Insists: []string{"multi_ack"},
		Refusal: Response{Status: http.StatusBadRequest, Words: "multi_ack is required"},
	}
}

// NoFilter offers filters and refuses each with an HTTP status and text that git does not use, like a
// proxy that inspects requests.
func NoFilter() Strict {
	return Strict{Filter: Response{Status: http.StatusBadRequest, Type: "text/html", Words: "<html><head><title>Bad Request</title></head><body><h1>Bad Request</h1></body></html>"}}
}

// Wrap returns the host in front of a server, for [Options.Wrap].
func (s Strict) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/info/refs"):
			s.advertise(w, r, next)
		case strings.HasSuffix(r.URL.Path, "/git-upload-pack"):
			s.send(w, r, next)
		case strings.HasSuffix(r.URL.Path, "/git-receive-pack") && s.Receive != nil:
			s.Receive(w, r, next)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// advertise removes capabilities that the host does not offer.
func (s Strict) advertise(w http.ResponseWriter, r *http.Request, next http.Handler) {
	a := httptest.NewRecorder()
	next.ServeHTTP(a, r)
	body := a.Body.Bytes()
	if line, at, ok := capabilityLine(body); ok {
		name, caps, _ := strings.Cut(line, "\x00")
		kept := slices.DeleteFunc(strings.Fields(caps), func(c string) bool {
			named, _, _ := strings.Cut(c, "=")
			return slices.Contains(s.Hides, named)
		})
		first := packet(name + "\x00" + strings.Join(kept, " ") + "\n")
		a.Body = bytes.NewBuffer(slices.Concat(body[:at], first, body[at+4+len(line):]))
		a.Header().Del("Content-Length")
	}
	sendRecorded(w, a)
}

// send refuses a request that the host does not accept.
func (s Strict) send(w http.ResponseWriter, r *http.Request, next http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "reading the body", http.StatusBadRequest)
		return
	}
	line, _, ok := capabilityLine(body)
	if !ok { // a command of version 2
		next.ServeHTTP(w, again(r, body))
		return
	}
	// want HASH CAPABILITIES
	asked := strings.Fields(line)[2:]
	for _, c := range asked {
		if name, _, _ := strings.Cut(c, "="); slices.Contains(s.Hides, name) {
			Response{Status: http.StatusBadRequest, Words: "the client asks for " + name + ", which was not offered"}.Write(w)
			return
		}
	}
	for _, c := range s.Insists {
		if !slices.Contains(asked, c) && (c != "multi_ack" || !slices.Contains(asked, "multi_ack_detailed")) {
			s.Refusal.Write(w)
			return
		}
	}
	if s.Filter.Status != 0 && bytes.Contains(body, []byte("filter ")) {
		s.Filter.Write(w)
		return
	}
	if s.Upload != nil {
		s.Upload(w, again(r, body), next)
		return
	}
	next.ServeHTTP(w, again(r, body))
}

// Write writes the response.
func (s Response) Write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", s.Type)
	if s.Type == "" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	if s.RetryAfter != "" {
		w.Header().Set("Retry-After", s.RetryAfter)
	}
	w.WriteHeader(s.Status)
	_, _ = io.WriteString(w, s.Words)
}

// again returns a request with a body that has been read.
func again(r *http.Request, body []byte) *http.Request {
	r = r.Clone(r.Context())
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	return r
}

// capabilityLine returns the packet with the capabilities, and its offset. They follow a zero byte in a
// server's advertisement, and the first want in a client's request.
func capabilityLine(body []byte) (line string, at int, ok bool) {
	for at+4 <= len(body) {
		size, err := strconv.ParseUint(string(body[at:at+4]), 16, 16)
		if err != nil || at+int(size) > len(body) {
			return "", 0, false
		}
		if size < 4 { // a flush
			at += 4
			continue
		}
		line := string(body[at+4 : at+int(size)])
		if strings.Contains(line, "\x00") || strings.HasPrefix(line, "want ") {
			return line, at, true
		}
		at += int(size)
	}
	return "", 0, false
}

func packet(line string) []byte { return fmt.Appendf(nil, "%04x%s", len(line)+4, line) }
