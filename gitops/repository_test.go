package gitops_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gitops"
	"muster/gitops/branch"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
	"muster/gitops/leaktest"
)

// TestDefaults writes with a configuration that has nothing but an address.
func TestDefaults(t *testing.T) {
	t.Parallel()
	f := gitserver.NewServer(t, gitserver.Options{})
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	if _, err := f.Commit("seed", at.Add(-time.Hour), branch.Change{Path: "overlays/default/scaling.yaml", Content: []byte("x")}, branch.Change{Path: "base/job.yaml", Content: []byte("y")}); err != nil {
		t.Fatal(err)
	}
	r, err := gitops.New(gitops.Config{URL: f.URL()})
	if err != nil {
		t.Fatal(err)
	}
	head, err := r.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// What lies below the overlays and their base is here with the head.
	f.Requests()
	for _, name := range []string{"overlays/default/scaling.yaml", "base/job.yaml"} {
		file, err := head.Tree.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
	if got := f.Requests(); len(got) > 0 {
		t.Errorf("reading took %q", got)
	}
	if _, err := r.Push(t.Context(), head, []branch.Draft{{Message: "one\n", At: at, Changes: []branch.Change{{Path: "overlays/x", Content: []byte("x")}}}}); err != nil {
		t.Fatal(err)
	}
	if out, err := f.Git("log", "-1", "--format=%an <%ae> %cn <%ce>", "main"); err != nil || out != "muster <muster@localhost> muster <muster@localhost>\n" {
		t.Errorf("the author and committer are %s (%v)", out, err)
	}
}

// TestErrorsHaveRemedies: an error that a flag or a command of muster
// helps against names it.
func TestErrorsHaveRemedies(t *testing.T) {
	t.Parallel()
	f := gitserver.NewServer(t, gitserver.Options{Username: "muster", Password: leaktest.GitPassword})
	empty := gitserver.NewRepository(t)
	for name, test := range map[string]struct {
		config gitops.Config
		want   []string
	}{
		"no address":         {gitops.Config{}, []string{"address is missing", "--repo"}},
		"no ssh key":         {gitops.Config{URL: "ssh://git@example.com/x"}, []string{"private key", "--ssh-key-file"}},
		"no known hosts":     {gitops.Config{URL: "ssh://git@example.com/x", Credentials: remote.Credentials{SSHKeyFile: "key"}}, []string{"host keys", "--ssh-known-hosts-file"}},
		"overlays elsewhere": {gitops.Config{URL: "/x", ReadAhead: "../x"}, []string{"the overlays directory", "inside the repository"}},
		"overlays at root":   {gitops.Config{URL: "/x", ReadAhead: "/x"}, []string{"the overlays directory"}},
		"no password":        {gitops.Config{URL: f.URL()}, []string{filepath.Base(f.Dir), "(401)", "--git-password-file", "MUSTER_GIT_PASSWORD", "GitHub App"}},
		"empty":              {gitops.Config{URL: empty.Dir}, []string{"the repository is empty", `branch "main"`, "muster init"}},
	} {
		r, err := gitops.New(test.config)
		if err == nil {
			_, err = r.Head(t.Context())
		}
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, word := range test.want {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q is missing: %v", name, word, err)
			}
		}
	}
}
