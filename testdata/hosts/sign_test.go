package hosts

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"

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
	entity, err := openpgp.NewEntity("alice", "", "alice@example.com", nil)
	must(t, err)
	write := func(kind string, serialize func(*bytes.Buffer) error) string {
		var plain, text bytes.Buffer
		must(t, serialize(&plain))
		w, err := armor.Encode(&text, kind, nil)
		must(t, err)
		_, err = w.Write(plain.Bytes())
		must(t, err)
		must(t, w.Close())
		return text.String() + "\n"
	}
	key, public := filepath.Join(dir, "key.asc"), filepath.Join(dir, "public.asc")
	put(t, key, write(openpgp.PrivateKeyType, func(b *bytes.Buffer) error { return entity.SerializePrivate(b, nil) }))
	s := signer{sign: git.GPGSigner(key, ""), public: write(openpgp.PublicKeyType, func(b *bytes.Buffer) error { return entity.Serialize(b) })}
	put(t, public, s.public)
	home := filepath.Join(dir, "gnupg")
	must(t, os.Mkdir(home, 0o700))
	cmd := exec.Command("gpg", "--homedir", home, "--batch", "--quiet", "--import", public)
	output(t, cmd)
	t.Cleanup(func() { _ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() })
	_, err = s.sign([]byte("x"), time.Now())
	must(t, err)
	return s
}
