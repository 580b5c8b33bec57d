package git_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
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
	"golang.org/x/crypto/ssh"

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
		head, err := r.Push(t.Context(), headOf(t, r), []branch.Draft{{Message: "signed\n\nbody\n", At: signedAt, Changes: one("a")[0].Changes}})
		if err != nil {
			t.Fatal(err)
		}
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
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		key  crypto.Signer
		same bool
	}{"ed25519": {ed, true}, "rsa": {rsaKey, true}, "ecdsa": {ec, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			block, err := ssh.MarshalPrivateKey(test.key, "")
			if err != nil {
				t.Fatal(err)
			}
			public, err := ssh.NewPublicKey(test.key.Public())
			if err != nil {
				t.Fatal(err)
			}
			keyFile, allowed := filepath.Join(dir, "key"), filepath.Join(dir, "allowed")
			for file, content := range map[string][]byte{
				keyFile: pem.EncodeToMemory(block),
				allowed: fmt.Appendf(nil, "robot@example.com %s", ssh.MarshalAuthorizedKey(public)),
			} {
				if err := os.WriteFile(file, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r, commit := signed(t, git.SSHSigner(keyFile), test.same)
			out, err := verify(t, r, commit, nil, "gpg.format=ssh", "gpg.ssh.allowedSignersFile="+allowed)
			if err != nil || !strings.Contains(out, `Good "git" signature for robot@example.com`) {
				t.Errorf("verify-commit: %v\n%s", err, out)
			}
			if err := os.WriteFile(allowed, nil, 0o600); err != nil {
				t.Fatal(err)
			}
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
			if err != nil {
				t.Fatal(err)
			}
			public := armored(t, openpgp.PublicKeyType, key.Serialize)
			passFile := ""
			if passphrase != "" {
				if err := key.EncryptPrivateKeys([]byte(passphrase), nil); err != nil {
					t.Fatal(err)
				}
				passFile = filepath.Join(dir, "passphrase")
				if err := os.WriteFile(passFile, []byte(passphrase+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			private := armored(t, openpgp.PrivateKeyType, func(w io.Writer) error { return key.SerializePrivateWithoutSigning(w, nil) })
			keyFile := filepath.Join(dir, "key.asc")
			if err := os.WriteFile(keyFile, private, 0o600); err != nil {
				t.Fatal(err)
			}
			r, commit := signed(t, git.GPGSigner(keyFile, passFile), true)

			home, err := os.MkdirTemp("", "gpg") // gpg's sockets want short names
			if err != nil {
				t.Fatal(err)
			}
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
	if err != nil {
		t.Fatal(err)
	}
	return append(out.Bytes(), '\n')
}

func TestSigningFailsBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, sign := range []git.Signer{
		git.SSHSigner(file), git.SSHSigner("/none"), git.GPGSigner(file, ""), git.GPGSigner("/none", ""),
	} {
		r := gitserver.NewRepository(t)
		head := seed(t, r, files()...)
		repository := open(t, git.Config{URL: r.Dir, Sign: sign})
		if _, err := repository.Push(t.Context(), headOf(t, repository), one("a")); err == nil || !strings.Contains(err.Error(), "key") {
			t.Errorf("Push: %v", err)
		}
		if now, _ := r.Head(); now != head {
			t.Error("the branch moved")
		}
	}
}
