package branch

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Address is the address of a repository, as git reads it.
type Address struct {
	// Scheme is http, https, ssh, git or file.
	Scheme string
	// User and Password are those in the address; both may be empty.
	User, Password string
	// Host is the name or the IP address of the host, without brackets; empty for file.
	Host string
	// Port is zero if the address has none.
	Port int
	// Path is the path on the host without escapes. Over ssh it may be relative, as in ~user/fleet.
	Path string
	// Query is the text after the question mark over http. It may contain a token.
	Query string
	// http is the address over http without user and password; nil for others.
	http *url.URL
}

// ErrNoAddress is returned if an address is empty.
var ErrNoAddress = errors.New("the repository's address is missing")

// errNoURL does not quote the address: even a part of it is often half of a password.
var errNoURL = errors.New("the repository's address is not a URL that git accepts: expected https://HOST/PATH, ssh://USER@HOST/PATH or a path, without a password")

var (
	// addressScheme and addressHelper match what git takes for a URL and for the name of a remote
	// helper (url.c, is_url; transport.c, transport_get).
	addressScheme = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9+.-]*)://`)
	addressHelper = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9+.-]*::)`)
	// addressSCP matches host and path, as in git@example.com:fleet.git, and bracketed a host in
	// brackets, which may be an IPv6 address or contain a port (connect.c, host_end).
	addressSCP = regexp.MustCompile(`(?s)^(\[[^]]*\]|.*?@\[[^]]*\]|[^:]*):(.*)$`)
	bracketed  = regexp.MustCompile(`^(.*@)?\[(.*)\](?::([0-9]*))?$`)
	escape     = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
)

// ParseAddress parses an address in any form that git accepts (git-clone(1), "GIT URLS"; git's
// connect.c, parse_connect_url, and remote-curl.c), and schemes in capital letters. Its errors do not contain the address, which
// may have a password.
func ParseAddress(raw string) (Address, error) {
	if raw == "" {
		return Address{}, ErrNoAddress
	}
	a, err := parseAddress(raw)
	if err != nil {
		return Address{}, err
	}
	if strings.ContainsAny(raw+a.User+a.Password+a.Host+a.Path, "\n\r\x00") {
		return Address{}, errors.New("the repository's address is not one line")
	}
	switch {
	case a.Scheme != "file" && a.Host == "":
		return Address{}, fmt.Errorf("the repository's address names no host: expected %s://HOST/PATH", a.Scheme)
	case a.Path == "":
		return Address{}, fmt.Errorf("the repository's address names no repository: expected %s://HOST/PATH", a.Scheme)
	case strings.HasPrefix(a.Host, "-"), strings.HasPrefix(a.User, "-"), strings.HasPrefix(a.Path, "-"):
		return Address{}, errors.New("a user, host or path of the repository's address begins with a hyphen, which programs read as an option")
	}
	return a, nil
}

func parseAddress(raw string) (Address, error) {
	if m := addressHelper.FindString(raw); m != "" {
		return Address{}, badScheme(m)
	}
	m := addressScheme.FindStringSubmatch(raw)
	if m == nil {
		colon, slash := strings.IndexByte(raw, ':'), strings.IndexByte(raw, '/')
		if colon < 0 || slash >= 0 && slash < colon { // connect.c, url_is_local_not_ssh
			path, err := filepath.Abs(raw)
			return Address{Scheme: "file", Path: path}, err
		}
		m := addressSCP.FindStringSubmatch(raw)
		if first, _ := cutPath(m[2]); !strings.Contains(m[1], "@") && strings.LastIndexByte(first, '@') > 0 {
			return Address{}, errNoURL // user:password@host without a scheme: the password would be a part of the path
		}
		return parseSSH(m[1], m[2])
	}
	scheme, rest := strings.ToLower(m[1]), raw[len(m[0]):]
	switch scheme {
	case "http", "https":
		return parseHTTP(scheme, rest)
	case "ssh", "git+ssh", "ssh+git":
		place, path := cutPath(unescape(rest))
		return parseSSH(place, path)
	case "git":
		a, err := parseSSH(cutPath(unescape(rest)))
		if err == nil && a.User != "" {
			err = errors.New("the repository's address has a user name, which the git protocol does not have: use https or ssh")
		}
		a.Scheme = scheme
		return a, err
	case "file":
		_, path := cutPath(unescape(rest)) // git ignores the host
		return Address{Scheme: scheme, Path: path}, nil
	}
	return Address{}, badScheme(m[0])
}

// cutPath divides a text before its first slash.
func cutPath(text string) (before, path string) {
	if slash := strings.IndexByte(text, '/'); slash >= 0 {
		return text[:slash], text[slash:]
	}
	return text, ""
}

func badScheme(prefix string) error {
	return fmt.Errorf("the repository's address begins with %q: use https, http, ssh, git, file or a path", strings.ToLower(prefix))
}

// parseSSH parses a host, with a user and a port if it has them, and the path on it. The host, or all
// of that, may be in brackets.
func parseSSH(place, path string) (Address, error) {
	a := Address{Scheme: "ssh", Path: path}
	if strings.HasPrefix(path, "/~") {
		a.Path = path[1:]
	}
	port := ""
	if m := bracketed.FindStringSubmatch(place); m != nil {
		place, port = m[1]+m[2], m[3]
	}
	at := strings.LastIndexByte(place, '@')
	a.User, a.Password, _ = strings.Cut(place[:max(0, at)], ":")
	a.Host = place[at+1:]
	if port == "" && strings.Count(a.Host, ":") == 1 {
		a.Host, port, _ = strings.Cut(a.Host, ":")
	}
	err := a.setPort(port)
	return a, err
}

// setPort sets the port unless the text is empty.
func (a *Address) setPort(text string) error {
	if text == "" {
		return nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return errNoURL
	}
	a.Port = int(port)
	return nil
}

// parseHTTP parses the part of an address after http:// or https://. Like curl, it removes dot segments
// (RFC 3986, 5.2.4). Like git, it accepts any character in user and password, and percent signs that
// begin no escape (credential.c, credential_from_url_gently; url.c, url_decode_internal).
func parseHTTP(scheme, rest string) (Address, error) {
	end := strings.IndexAny(rest+"/", "/?#")
	at := strings.LastIndexByte(rest[:end], '@')
	user, password, _ := strings.Cut(rest[:max(0, at)], ":")
	place, text := rest[at+1:end], rest[end:]
	text, fragment, marked := strings.Cut(text, "#")
	if marked {
		fragment = "#" + url.PathEscape(fragment)
	}
	text, query, asked := strings.Cut(text, "?")
	if asked {
		query = "?" + query
	}
	u, err := url.Parse(scheme + "://" + place + escapeSigns(text) + query + fragment)
	if err != nil {
		return Address{}, errNoURL
	}
	a := Address{Scheme: scheme, User: unescape(user), Password: unescape(password), Host: u.Hostname()}
	a.http = u.ResolveReference(u)
	a.Path, a.Query = a.http.Path, a.http.RawQuery
	err = a.setPort(u.Port())
	return a, err
}

// unescape decodes percent escapes. Like git, it keeps malformed ones.
func unescape(text string) string {
	return escape.ReplaceAllStringFunc(text, func(e string) string {
		b, _ := strconv.ParseUint(e[1:], 16, 8)
		return string([]byte{byte(b)})
	})
}

// escapeSigns escapes the percent signs that begin no escape.
func escapeSigns(text string) string {
	parts := strings.Split(text, "%")
	for i, part := range parts[1:] {
		if !escape.MatchString("%" + part[:min(2, len(part))]) {
			parts[1+i] = "25" + part
		}
	}
	return strings.Join(parts, "%")
}

// Base returns the address over http, without user and password, to which git appends the name of a
// service. Like git, it adds a slash unless the address ends with one.
func (a Address) Base() string {
	base := a.http.String()
	if !strings.HasSuffix(base, "/") {
		base += "/"
	}
	return base
}

// Secrets returns the query of the address and its values, which may be tokens.
func (a Address) Secrets() []string {
	if a.Query == "" {
		return nil
	}
	const short = 5 // such values as in v=1 would be censored everywhere
	values := []string{a.Query}
	for pair := range strings.SplitSeq(a.Query, "&") {
		_, value, _ := strings.Cut(pair, "=")
		if len(value) <= short {
			continue
		}
		values = append(values, value)
		if plain, err := url.QueryUnescape(value); err == nil {
			values = append(values, plain)
		}
	}
	return values
}

// String returns the address without user, password and query.
func (a Address) String() string {
	if a.Scheme == "file" {
		return a.Path
	}
	shown := url.URL{Scheme: a.Scheme, Host: a.HostPort(), Path: a.Path}
	if a.http != nil {
		shown.RawPath = a.http.RawPath
	}
	if !strings.HasPrefix(shown.Path, "/") {
		shown.Path = "/" + shown.Path
	}
	return shown.String()
}

// Repository returns the path without slashes around it and without .git, as in acme/fleet.
func (a Address) Repository() string { return strings.TrimSuffix(strings.Trim(a.Path, "/"), ".git") }

// HostPort returns the host as in a URL, with its port unless that is the default one.
func (a Address) HostPort() string {
	host := a.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if a.port() == a.defaultPort() {
		return host
	}
	return a.DialAddress()
}

// DialAddress returns the host and the port to connect to.
func (a Address) DialAddress() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.port())) }

// SameOrigin reports whether requests for this address may go to another one over http, with
// credentials: it has the same scheme, host and port, or it changes from http to https on their
// default ports. Another port may be another person's server.
func (a Address) SameOrigin(to Address) bool {
	from, port := a.port(), to.port()
	upgrade := a.Scheme == "http" && to.Scheme == "https" && from == a.defaultPort() && port == to.defaultPort()
	return strings.EqualFold(a.Host, to.Host) && (a.Scheme == to.Scheme && from == port || upgrade)
}

func (a Address) port() int { return cmp.Or(a.Port, a.defaultPort()) }

func (a Address) defaultPort() int {
	return map[string]int{"http": 80, "https": 443, "ssh": 22, "git": 9418}[a.Scheme]
}
