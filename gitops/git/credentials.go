package git

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// Credentials are how the client proves to the server who it is, and the
// server to the client. Files are read again for each connection, so that
// credentials that rotate need no restart. The zero value is nobody, or the
// user in the URL.
type Credentials struct {
	// Password is asked for the user name and the password or token of http
	// and https; nil means those in the URL, or none.
	Password PasswordFunc
	// Refused is told of a password of Password's that the server does not take, and
	// reports whether another may be had by now: then what was asked is asked again,
	// once. Nil: none can.
	Refused func(password string) bool
	// CAFile has further certificate authorities for https, in PEM, beside
	// those of the system.
	CAFile string
	// NetrcFile is where a user name and a password are looked for when the server wants
	// one and Password is nil, in the format of curl's netrc; empty, or no file: nowhere.
	NetrcFile string
	// Helper is asked for a user name and a password when the server wants one,
	// Password is nil and NetrcFile has none that it takes, as git asks its credential
	// helpers; nil: nobody is.
	Helper HelperFunc
	// SSHProgram reaches hosts over ssh in place of this package, with the user's own
	// settings, keys and known hosts; nil: this package does, with the fields below.
	SSHProgram SSHFunc
	// SSHKeyFile is the private key for ssh, in any form OpenSSH writes,
	// without a passphrase. Where the same name with -cert.pub is a certificate for it, as
	// OpenSSH has it, that is offered too. For ssh, it, SSHAgent or SSHProgram is required.
	SSHKeyFile string
	// SSHAgent is the socket of an ssh-agent, whose keys are tried where there is
	// no SSHKeyFile.
	SSHAgent string
	// SSHKnownHostsFile has the server's host keys, in the format of OpenSSH's
	// known_hosts; it may list several for one host, and authorities that certify
	// them. Required for ssh without SSHProgram.
	SSHKnownHostsFile string
}

// PasswordFunc returns a user name and a password or token that are valid now.
type PasswordFunc func(ctx context.Context) (username, password string, err error)

// StaticPassword returns a user name and password that never change.
func StaticPassword(username, password string) PasswordFunc {
	return func(context.Context) (string, string, error) { return username, password, nil }
}

// PasswordFile returns a password that is read from a file each time, without
// the line break at its end.
func PasswordFile(username, file string) PasswordFunc {
	return func(context.Context) (string, string, error) {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", "", fmt.Errorf("reading the password for git: %w", err)
		}
		password := strings.TrimRight(string(content), "\r\n")
		if password == "" {
			return "", "", fmt.Errorf("reading the password for git: %s is empty", file)
		}
		return username, password, nil
	}
}
