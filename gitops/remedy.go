package gitops

import (
	"errors"
	"fmt"

	"muster/gitops/branch"
	"muster/gitops/git/remote"
)

// WithRemedy adds to an error of git how to fix it with muster. It returns other errors unchanged.
func WithRemedy(err error) error {
	for _, known := range []struct {
		cause  error
		remedy string
	}{
		{branch.ErrNoAddress, "give --repo a URL or a path"},
		{remote.ErrNoPassword, "give --git-password-file, set MUSTER_GIT_PASSWORD, give a GitHub App, or set up a credential helper of git's"},
		{remote.ErrNoSSHKey, "give --ssh-key-file, or start an ssh-agent"},
		{remote.ErrNoKnownHosts, "give --ssh-known-hosts-file"},
		{remote.ErrUnknownHost, "leave out --ssh-key-file and --ssh-known-hosts-file where ssh is installed, or give the host's own name"},
		{remote.ErrEmpty, "muster init writes the files for it"},
	} {
		if errors.Is(err, known.cause) {
			return fmt.Errorf("%w: %s", err, known.remedy)
		}
	}
	return err
}
