package hosts

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"muster/gitops/git"
)

// signer is a key that signs, and its public half.
type signer struct {
	sign   git.Signer
	public string
}

// newSigner makes a key of alice's, which gpg knows below a directory.
func newSigner(t *testing.T, dir string) signer {
	t.Helper()
	home, key := filepath.Join(dir, "gnupg"), filepath.Join(dir, "key.asc")
	must(t, os.Mkdir(home, 0o700))
	gpg := func(args ...string) string {
		args = append([]string{"--homedir", home, "--batch", "--quiet", "--armor"}, args...)
		return output(t, exec.Command("gpg", args...)) + "\n"
	}
	t.Cleanup(func() { _ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() })
	gpg("--passphrase", "", "--quick-generate-key", "alice <alice@example.com>", "ed25519", "sign", "never")
	put(t, key, gpg("--export-secret-keys"))
	return signer{sign: git.GPGSigner(key, ""), public: gpg("--export")}
}
