package remote

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
)

// address is the address of a repository without secrets.
type address struct {
	Endpoint *transport.Endpoint
	// username and Password are those of the URL; both may be empty.
	username, Password string
}

// ParseAddress parses an address in any form that git accepts. Its errors do not contain the address,
// which may have a password.
func ParseAddress(raw string) (address, error) {
	if raw == "" {
		return address{}, ErrNoAddress
	}
	if strings.ContainsAny(raw, "\n\r\x00") {
		return address{}, errors.New("the repository's address is not one line")
	}
	endpoint, err := transport.NewEndpoint(raw)
	if err != nil {
		// The cause quotes a part of the address, often half a password.
		return address{}, errors.New("the repository's address is not a URL that git accepts: expected https://HOST/PATH, ssh://USER@HOST/PATH or a path, without a password")
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

// String returns the address without its query.
func (a address) String() string {
	if a.Endpoint.Protocol == "file" {
		return a.Endpoint.Path
	}
	text, _, _ := strings.Cut(a.Endpoint.String(), "?")
	return text
}

// Query returns the query of the address and its values, which may be tokens.
func (a address) Query() []string {
	_, query, _ := strings.Cut(a.Endpoint.Path, "?")
	if query == "" || a.Endpoint.Protocol == "file" {
		return nil
	}
	const short = 5 // such values as in v=1 would be censored everywhere
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

// host returns the host's name or address, without the brackets of IPv6.
func (a address) host() string { return strings.Trim(a.Endpoint.Host, "[]") }

// Enabling returns the settings that make a server offer partial clone, or for a local repository
// the commands.
func (a address) Enabling() string {
	const filter, named = "uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"
	if a.Endpoint.Protocol != "file" {
		return filter + " and " + named
	}
	set := "git -C " + quoteShell(a.Endpoint.Path) + " config "
	return set + filter + " true && " + set + named + " true"
}
