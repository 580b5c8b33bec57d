package git

import (
	"bytes"
	"crypto/rand"
	"crypto/sha512"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"golang.org/x/crypto/ssh"
)

// Signer returns the armored signature of a raw commit. at is the commit's
// time. The same commit and time should give the same signature: otherwise a
// retried push makes another commit.
type Signer func(commit []byte, at time.Time) (signature string, err error)

// GPGSigner signs commits with the OpenPGP key in keyFile, as
// gpg --armor --export-secret-keys writes it. passphraseFile has the key's
// passphrase; empty means that the key has none. Both files are read for each commit.
func GPGSigner(keyFile, passphraseFile string) Signer {
	return func(commit []byte, at time.Time) (string, error) {
		key, err := readGPGKey(keyFile, passphraseFile)
		if err != nil {
			return "", err
		}
		// The commit's time and no salt: the same commit has one signature.
		salt := false
		config := &packet.Config{Time: func() time.Time { return at }, NonDeterministicSignaturesViaNotation: &salt}
		var armored bytes.Buffer
		if err := openpgp.ArmoredDetachSign(&armored, key, bytes.NewReader(commit), config); err != nil {
			return "", fmt.Errorf("signing with the OpenPGP key %s: %w", keyFile, err)
		}
		return armored.String(), nil
	}
}

func readGPGKey(keyFile, passphraseFile string) (*openpgp.Entity, error) {
	armored, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the OpenPGP key: %w", err)
	}
	keys, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(armored))
	if err != nil {
		return nil, fmt.Errorf("reading the OpenPGP key %s: it is not an armored key: %w", keyFile, err)
	}
	if len(keys) != 1 || keys[0].PrivateKey == nil {
		return nil, fmt.Errorf("reading the OpenPGP key %s: it must have exactly one private key, as gpg --armor --export-secret-keys writes it", keyFile)
	}
	key := keys[0]
	if !key.PrivateKey.Encrypted {
		return key, nil
	}
	if passphraseFile == "" {
		return nil, fmt.Errorf("reading the OpenPGP key %s: it has a passphrase, but no passphrase file is given", keyFile)
	}
	passphrase, err := os.ReadFile(passphraseFile)
	if err != nil {
		return nil, fmt.Errorf("reading the passphrase of the OpenPGP key: %w", err)
	}
	if err := key.DecryptPrivateKeys(bytes.TrimRight(passphrase, "\r\n")); err != nil {
		return nil, fmt.Errorf("reading the OpenPGP key %s: the passphrase is wrong", keyFile)
	}
	return key, nil
}

// SSHSigner signs commits with the private key in keyFile, in a format of OpenSSH, without a
// passphrase. The file is read for each commit. A key of type ecdsa makes another signature, and so
// another commit, each time; ed25519 and rsa do not.
func SSHSigner(keyFile string) Signer {
	return func(commit []byte, _ time.Time) (string, error) {
		key, err := os.ReadFile(keyFile)
		if err != nil {
			return "", fmt.Errorf("reading the ssh key to sign with: %w", err)
		}
		signer, err := ssh.ParsePrivateKey(key)
		if err != nil {
			return "", fmt.Errorf("reading the ssh key %s to sign with: it is not a private key, or it has a passphrase", keyFile)
		}
		signature, err := signSSH(signer, commit)
		if err != nil {
			return "", fmt.Errorf("signing with the ssh key %s: %w", keyFile, err)
		}
		return signature, nil
	}
}

// signSSH returns a signature like ssh-keygen -Y sign -n git (OpenSSH, PROTOCOL.sshsig).
func signSSH(signer ssh.Signer, message []byte) (string, error) {
	const magic, namespace, hashName = "SSHSIG", "git", "sha512"
	hash := sha512.Sum512(message)
	signed := ssh.Marshal(struct{ Namespace, Reserved, Hash, Sum string }{namespace, "", hashName, string(hash[:])})
	algorithm := signer.PublicKey().Type()
	if algorithm == ssh.KeyAlgoRSA {
		algorithm = ssh.KeyAlgoRSASHA512 // ssh-rsa itself is SHA-1, which is refused
	}
	able, ok := signer.(ssh.AlgorithmSigner)
	if !ok {
		return "", errors.New("this kind of key cannot sign")
	}
	signature, err := able.SignWithAlgorithm(rand.Reader, append([]byte(magic), signed...), algorithm)
	if err != nil {
		return "", err
	}
	blob := append([]byte(magic), ssh.Marshal(struct {
		Version                                uint32
		Key, Namespace, Reserved, Hash, Signed string
	}{1, string(signer.PublicKey().Marshal()), namespace, "", hashName, string(ssh.Marshal(signature))})...)
	// OpenSSH breaks lines at 70 columns and PEM at 64: it reads both.
	return string(pem.EncodeToMemory(&pem.Block{Type: "SSH SIGNATURE", Bytes: blob})), nil
}
