package git_test

import (
	"path/filepath"
	"testing"

	"muster/gitops/git"
	"muster/gitops/gitserver"
)

// strictHosts are servers that refuse what git's own lets pass.
func strictHosts() map[string]gitserver.Strict {
	return map[string]gitserver.Strict{
		"Azure DevOps": gitserver.AzureDevOps(),
		"CodeCommit":   gitserver.CodeCommit(),
		"Dulwich":      gitserver.Dulwich(),
	}
}

// serveStrict serves a repository as such a host does.
func serveStrict(t *testing.T, r gitserver.Repository, s gitserver.Strict) git.Config {
	t.Helper()
	server, err := gitserver.Serve(filepath.Dir(r.Dir), gitserver.Options{Wrap: s.Wrap})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return git.Config{URL: server.URL + "/" + filepath.Base(r.Dir)}
}
