// Package hosts runs git hosts that muster's team did not write, and muster against
// them. See README.md.
package hosts

import (
	"os"
	"path/filepath"
)

// The Gitea that is built.
const (
	GiteaModule  = "code.gitea.io/gitea"
	GiteaVersion = "1.26.0"
	// GiteaSum is the module's, as sum.golang.org has it.
	GiteaSum = "h1:fJP9dqLbzKrKWUVnCVTfVersZdVDuyJQLEDzCAOmKKA="
)

// Gitea is the directory where the program is kept with the files that it reads: in the
// user's cache, by its version.
func Gitea() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "muster-hosts", "gitea-v"+GiteaVersion), err
}
