package branch_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/gitops/branch"
	"muster/gitops/leaktest"
)

// TestSecretsOfAddress: what stands behind a question mark of an address is a secret, whole and
// by its values, in both forms. Short ones are not: they would be found all over a
// text. In a path it is part of a name.
func TestSecretsOfAddress(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string][]string{
		"https://example.com/fleet":                   nil,
		"https://example.com/fleet?":                  nil,
		"https://example.com/fleet?token=s3%20cret":   {"token=s3%20cret", "s3%20cret", "s3 cret"},
		"https://example.com/fleet?v=12345&t=123456":  {"v=12345&t=123456", "123456", "123456"},
		"https://example.com/fleet?flag&t=%zz1234567": {"flag&t=%zz1234567", "%zz1234567"},
		"/srv/fleet?token=s3%20cret":                  nil,
		"file:///srv/fleet?token=s3%20cret":           nil,
	} {
		a, err := branch.ParseAddress(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if diff := cmp.Diff(want, a.Secrets()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", raw, diff)
		}
	}
}

func TestSameOrigin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to string
		same     bool
	}{
		{"https://h/x", "https://h/y", true},
		{"https://h/x", "https://H:443/y", true},
		{"http://h:80/x", "http://h/y", true},
		{"https://h/x", "https://h:8443/y", false},
		{"https://h/x", "https://i/x", false},
		{"https://h/x", "https://h.example.com/x", false},
		{"https://h/x", "http://h/x", false},
		{"http://h/x", "https://h/x", true},
		{"http://h/x", "https://h:8443/x", false},
		{"http://h:8080/x", "https://h/x", false},
		{"https://h:80/x", "http://h:443/x", false},
		{"https://[::1]/x", "https://[::1]:443/x", true},
		{"https://h/x", "ssh://h/x", false},
		{"https://h/x", "/x", false},
	} {
		from, err := branch.ParseAddress(c.from)
		if err != nil {
			t.Fatal(err)
		}
		to, err := branch.ParseAddress(c.to)
		if err != nil {
			t.Fatal(err)
		}
		if from.SameOrigin(to) != c.same {
			t.Errorf("%s to %s: want %t", c.from, c.to, c.same)
		}
	}
}

// TestPasswordWithoutScheme asserts that a user and a password without a scheme are no address over ssh,
// whose path errors show.
func TestPasswordWithoutScheme(t *testing.T) {
	for _, raw := range []string{"git:" + leaktest.GitHubToken + "@github.com:acme/fleet.git", "ada:" + leaktest.AgentToken + "@git.example.com/fleet.git"} {
		if a, err := branch.ParseAddress(raw); err == nil || len(leaktest.Leaks(err.Error())) > 0 {
			t.Errorf("%v, %v, want an error without the password", a, err)
		}
	}
	for _, raw := range []string{"git@git.example.com:team@x/fleet.git", "git.example.com:@scope/fleet.git", "git.example.com:ci/a@b.git"} {
		if _, err := branch.ParseAddress(raw); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestRepositoryOfAddress(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://github.com/acme/fleet.git":    "acme/fleet",
		"https://github.com/acme/fleet.git/":   "acme/fleet",
		"https://github.com//acme/fleet":       "acme/fleet",
		"git@github.com:acme/fleet.git":        "acme/fleet",
		"ssh://git@example.com/~ada/fleet.git": "~ada/fleet",
		"https://example.com/":                 "",
		"/srv/fleet.git":                       "srv/fleet",
	} {
		a, err := branch.ParseAddress(raw)
		if got := a.Repository(); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", raw, got, err, want)
		}
	}
}
