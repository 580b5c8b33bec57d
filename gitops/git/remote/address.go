package remote

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
)

// address is where the repository is, without anything secret in it.
type address struct {
	Endpoint *transport.Endpoint
	// username and password stood in the URL; both may be empty.
	username, Password string
}

// ParseAddress understands what git understands. Its errors never repeat the
// address, which may contain a password.
func ParseAddress(raw string) (address, error) {
	if raw == "" {
		return address{}, ErrNoAddress
	}
	if strings.ContainsAny(raw, "\n\r\x00") {
		return address{}, errors.New("the repository's address is not one line")
	}
	endpoint, err := transport.NewEndpoint(raw)
	if err != nil {
		// The cause quotes what it cannot parse, which is often half a password.
		return address{}, errors.New("the repository's address is not a URL that git knows: expected https://HOST/PATH, ssh://USER@HOST/PATH or a path, without a password")
	}
	a := address{Endpoint: endpoint, username: endpoint.User, Password: endpoint.Password}
	endpoint.Protocol = strings.ToLower(endpoint.Protocol)
	switch endpoint.Protocol {
	case "http", "https", "ssh":
		if endpoint.Host == "" {
			return address{}, fmt.Errorf("the repository's address names no host: expected %s://HOST/PATH", endpoint.Protocol)
		}
		if strings.Trim(endpoint.Path, "/") == "" {
			return address{}, fmt.Errorf("the repository's address names no repository: expected %s://HOST/PATH", endpoint.Protocol)
		}
	case "file":
	case "git+ssh", "ssh+git":
		endpoint.Protocol = "ssh"
	default:
		return address{}, fmt.Errorf("the repository's address begins with %q: use https, http, ssh, file or a path", endpoint.Protocol+"://")
	}
	endpoint.User, endpoint.Password = "", ""
	return a, nil
}

// String is the address as it may be shown.
func (a address) String() string {
	if a.Endpoint.Protocol == "file" {
		return a.Endpoint.Path
	}
	text, _, _ := strings.Cut(a.Endpoint.String(), "?")
	return text
}

// Query are the values of what stands behind a question mark in the address,
// where some hosts take a token.
func (a address) Query() []string {
	_, query, _ := strings.Cut(a.Endpoint.Path, "?")
	if query == "" || a.Endpoint.Protocol == "file" {
		return nil
	}
	const short = 5 // as in v=1, which would be found all over a text
	values := []string{query}
	for pair := range strings.SplitSeq(query, "&") {
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

// host is the host's name or address, without the brackets of IPv6.
func (a address) host() string { return strings.Trim(a.Endpoint.Host, "[]") }

// Enabling says what makes a server offer partial clone: of a repository on this
// machine, the commands to run.
func (a address) Enabling() string {
	const filter, named = "uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"
	if a.Endpoint.Protocol != "file" {
		return filter + " and " + named
	}
	set := "git -C " + quoteShell(a.Endpoint.Path) + " config "
	return set + filter + " true && " + set + named + " true"
}
