package git_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/gitserver"
)

// signedAt lies in the past of any machine: gpg looks at the clock.
var signedAt = time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)

// signed pushes a signed commit and returns it; the same commit is made twice
// and must then be the same.
func signed(t *testing.T, sign git.Signer, same bool) (gitserver.Repository, string) {
	t.Helper()
	var ids []string
	var repository gitserver.Repository
	for range 2 {
		repository = gitserver.NewRepository(t)
		seed(t, repository, files()...)
		r := open(t, git.Config{URL: repository.Dir, Sign: sign, AuthorEmail: "robot@example.com"})
		head, err := r.Push(t.Context(), headOf(t, r), []branch.Draft{
			{Message: "signed\n\nbody\n", At: signedAt.In(time.FixedZone("x", 3600)), Changes: []branch.Change{
				write("deploy/b", "b"), write("deploy/a", "a"), remove("README.md"),
			}},
		})
		must(t, err)
		ids = append(ids, head.Commit)
	}
	if same && ids[0] != ids[1] {
		t.Errorf("the same commit is %s and %s", ids[0], ids[1])
	}
	fsck(t, repository)
	return repository, ids[1]
}

// verify runs git verify-commit and returns what it says.
func verify(t *testing.T, r gitserver.Repository, commit string, env []string, config ...string) (string, error) {
	t.Helper()
	var args []string
	for _, c := range config {
		args = append(args, "-c", c)
	}
	cmd := exec.Command("git", append(args, "verify-commit", "--verbose", commit)...)
	cmd.Dir, cmd.Env = r.Dir, append(cmd.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestSSHSignatures(t *testing.T) {
	t.Parallel()
	for kind, same := range map[string]bool{"ed25519": true, "rsa": true, "ecdsa": false} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			key, allowed := filepath.Join(dir, "key"), filepath.Join(dir, "allowed")
			sshKeygen(t, "-t", kind, "-N", "", "-f", key)
			writeText(t, allowed, "robot@example.com "+readText(t, key+".pub"))
			r, commit := signed(t, git.SSHSigner(key), same)
			out, err := verify(t, r, commit, nil, "gpg.format=ssh", "gpg.ssh.allowedSignersFile="+allowed)
			if err != nil || !strings.Contains(out, `Good "git" signature for robot@example.com`) {
				t.Errorf("verify-commit: %v\n%s", err, out)
			}
			writeText(t, allowed, "")
			if out, err := verify(t, r, commit, nil, "gpg.format=ssh", "gpg.ssh.allowedSignersFile="+allowed); err == nil {
				t.Errorf("a key that is not allowed verifies:\n%s", out)
			}
		})
	}
}

func TestGPGSignatures(t *testing.T) {
	t.Parallel()
	for _, passphrase := range []string{"", "open sesame"} {
		t.Run("passphrase="+passphrase, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			// Older than the commit, or it could not have signed it.
			config := &packet.Config{Time: func() time.Time { return signedAt.Add(-24 * time.Hour) }, Algorithm: packet.PubKeyAlgoEdDSA}
			key, err := openpgp.NewEntity("robot", "", "robot@example.com", config)
			must(t, err)
			public := armored(t, openpgp.PublicKeyType, key.Serialize)
			passFile := ""
			if passphrase != "" {
				must(t, key.EncryptPrivateKeys([]byte(passphrase), nil))
				passFile = filepath.Join(dir, "passphrase")
				must(t, os.WriteFile(passFile, []byte(passphrase+"\n"), 0o600))
			}
			private := armored(t, openpgp.PrivateKeyType, func(w io.Writer) error { return key.SerializePrivateWithoutSigning(w, nil) })
			keyFile := filepath.Join(dir, "key.asc")
			must(t, os.WriteFile(keyFile, private, 0o600))
			r, commit := signed(t, git.GPGSigner(keyFile, passFile), true)

			home, err := os.MkdirTemp("", "gpg") // gpg's sockets want short names
			must(t, err)
			t.Cleanup(func() { os.RemoveAll(home) })
			env := []string{"GNUPGHOME=" + home}
			if out, err := verify(t, r, commit, env); err == nil {
				t.Errorf("an unknown key verifies:\n%s", out)
			}
			load := exec.Command("gpg", "--batch", "--no-autostart", "--import")
			load.Env, load.Stdin = append(load.Environ(), env...), bytes.NewReader(public)
			if out, err := load.CombinedOutput(); err != nil {
				t.Fatalf("importing the key (gnupg is needed): %v\n%s", err, out)
			}
			out, err := verify(t, r, commit, env)
			if err != nil || !strings.Contains(out, `Good signature from "robot <robot@example.com>"`) {
				t.Errorf("verify-commit: %v\n%s", err, out)
			}
		})
	}
}

func armored(t *testing.T, kind string, serialize func(w io.Writer) error) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := armor.Encode(&out, kind, nil)
	if err == nil {
		err = serialize(w)
	}
	if err == nil {
		err = w.Close()
	}
	must(t, err)
	return append(out.Bytes(), '\n')
}

func TestSigningFailsBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	writeText(t, file, "no key")
	for _, sign := range []git.Signer{
		git.SSHSigner(file), git.SSHSigner("/none"), git.GPGSigner(file, ""), git.GPGSigner("/none", ""),
	} {
		r := gitserver.NewRepository(t)
		head := seed(t, r, files()...)
		repository := open(t, git.Config{URL: r.Dir, Sign: sign})
		read := headOf(t, repository)
		wantError(t, push(t, repository, &read, "a"), "key")
		wantHead(t, r, head)
	}
}
