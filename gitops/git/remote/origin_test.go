package remote

import (
	"testing"

	"github.com/go-git/go-git/v5/plumbing/transport"
)

func TestSameOrigin(t *testing.T) {
	for _, c := range []struct {
		from, to string
		same     bool
	}{
		{"https://h/x", "https://h/y", true},
		{"https://h/x", "https://h:443/y", true},
		{"http://h:80/x", "http://h/y", true},
		{"https://h/x", "https://h:8443/y", false},
		{"https://h/x", "https://i/x", false},
		{"https://h/x", "http://h/x", false},
		{"http://h/x", "https://h/x", true},
		{"http://h/x", "https://h:8443/x", false},
		{"http://h:8080/x", "https://h/x", false},
		{"https://h:80/x", "http://h:443/x", false},
	} {
		from, err := transport.NewEndpoint(c.from)
		if err != nil {
			t.Fatal(err)
		}
		to, err := transport.NewEndpoint(c.to)
		if err != nil {
			t.Fatal(err)
		}
		if sameOrigin(from, to) != c.same {
			t.Errorf("%s to %s: want %t", c.from, c.to, c.same)
		}
	}
}
