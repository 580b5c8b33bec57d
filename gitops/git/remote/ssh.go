package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// openSSH runs a service over ssh.
func (c *Connection) openSSH(ctx context.Context, service, version string) (*stream, error) {
	if c.Credentials.SSHProgram != nil {
		return c.openSSHProgram(ctx, service, version)
	}
	client, stop, err := c.dialSSH(ctx)
	if err != nil {
		return nil, err
	}
	end := func() { stop(); client.Close() }
	session, err := client.NewSession()
	if err != nil {
		end()
		return nil, err
	}
	s := &stream{ctx: ctx, stderr: &Tail{}, abort: func() { client.Close() }}
	session.Stderr = s.stderr
	s.wait = sync.OnceValue(func() error {
		defer end()
		return session.Wait()
	})
	if s.in, err = session.StdinPipe(); err == nil {
		s.out, err = session.StdoutPipe()
	}
	if err == nil && version != "" {
		// A server that does not accept the variable answers in version 0.
		_ = session.Setenv(versionVariable, version)
	}
	if err == nil {
		err = session.Start(service + " " + quoteShell(c.Address.Path))
	}
	if err != nil {
		end()
		return nil, err
	}
	return s, nil
}

// dialSSH logs in, with the key and the known hosts as the files contain them now. The connection
// ends with ctx, until stop is called.
func (c *Connection) dialSSH(ctx context.Context) (client *ssh.Client, stop func() bool, err error) {
	auth, done, err := c.sshAuth(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	hosts, err := knownhosts.NewDB(c.Credentials.SSHKnownHostsFile)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the known hosts: %w", err)
	}
	config := &ssh.ClientConfig{
		User:            cmp.Or(c.Address.User, "git"),
		Auth:            []ssh.AuthMethod{auth},
		HostKeyCallback: hosts.HostKeyCallback(),
		// Only the kinds of key that the file has for this host: a server offers one of
		// several, and another kind would look unknown.
		HostKeyAlgorithms: hosts.HostKeyAlgorithms(c.Address.DialAddress()),
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", c.Address.DialAddress())
	if err != nil {
		var unknown *net.DNSError
		if errors.As(err, &unknown) {
			return nil, nil, fmt.Errorf("%w: %w", err, ErrUnknownHost)
		}
		return nil, nil, err
	}
	stop = context.AfterFunc(ctx, func() { conn.Close() })
	link, channels, requests, err := ssh.NewClientConn(conn, c.Address.DialAddress(), config)
	if err != nil {
		stop()
		conn.Close()
		if ctx.Err() != nil {
			return nil, nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return nil, nil, explainSSH(err, c.Address.DialAddress())
	}
	return ssh.NewClient(link, channels, requests), stop, nil
}

// sshAuth returns the key of the file, or those of the agent. done is called after the login.
func (c *Connection) sshAuth(ctx context.Context) (method ssh.AuthMethod, done func(), err error) {
	if c.Credentials.SSHKeyFile == "" {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "unix", c.Credentials.SSHAgent)
		if err != nil {
			return nil, nil, fmt.Errorf("requesting keys from the ssh-agent: %w", err)
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		return ssh.PublicKeysCallback(agent.NewClient(conn).Signers), func() { stop(); conn.Close() }, nil
	}
	signer, err := readSSHKey(c.Credentials.SSHKeyFile)
	if err != nil {
		return nil, nil, err
	}
	return ssh.PublicKeys(signers(signer, c.Credentials.SSHKeyFile)...), func() {}, nil
}

// signers returns the key, preceded by its certificate if the key file has one next to it, like
// OpenSSH (ssh(1), -i).
func signers(key ssh.Signer, file string) []ssh.Signer {
	text, _ := os.ReadFile(file + "-cert.pub")
	public, _, _, _, _ := ssh.ParseAuthorizedKey(text)
	if certificate, ok := public.(*ssh.Certificate); ok {
		if certified, err := ssh.NewCertSigner(certificate, key); err == nil { // it is for this key
			return []ssh.Signer{certified, key}
		}
	}
	return []ssh.Signer{key}
}

func readSSHKey(file string) (ssh.Signer, error) {
	key, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the ssh key: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		var locked *ssh.PassphraseMissingError
		if errors.As(err, &locked) {
			return nil, fmt.Errorf("reading the ssh key %s: it has a passphrase; use a deploy key without one", file)
		}
		return nil, fmt.Errorf("reading the ssh key %s: it is not a private key in a format of OpenSSH", file)
	}
	return signer, nil
}

// explainSSH adds a remedy to the error of a login.
func explainSSH(err error, host string) error {
	switch {
	case knownhosts.IsHostKeyChanged(err):
		return fmt.Errorf("the host key of %s is not the one in the known hosts file: if the server changed it, replace its line there: %w", host, err)
	case knownhosts.IsHostUnknown(err):
		return fmt.Errorf("the host key of %s is unknown: add the output of ssh-keyscan, once checked, to the known hosts file: %w", host, err)
	case strings.Contains(err.Error(), "no authorities for hostname"):
		return fmt.Errorf("no authority in the known hosts file has certified the host key of %s: add the line @cert-authority HOST KEY with that of its authority, or the output of ssh-keyscan, once checked: %w", host, err)
	case strings.Contains(err.Error(), "no common algorithm for host key"):
		return fmt.Errorf("the known hosts file has keys of %s, but none of a type that the host has: add the output of ssh-keyscan, once checked: %w", host, err)
	case strings.Contains(err.Error(), "unable to authenticate"):
		return fmt.Errorf("the server does not accept the ssh key: add its public half to the repository as a key that may write: %w", err)
	}
	return err
}

// quoteShell quotes text as one word for the shell that sshd starts, like git does.
func quoteShell(text string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(text) + "'"
}

// SSHFunc returns the command that runs OpenSSH's ssh with these arguments (git(1),
// GIT_SSH_COMMAND). The caller decides about its environment and prompts.
type SSHFunc func(ctx context.Context, args ...string) *exec.Cmd

// openSSHProgram runs a service through the ssh program.
func (c *Connection) openSSHProgram(ctx context.Context, service, version string) (*stream, error) {
	target := c.Address.Host
	if c.Address.User != "" {
		target = c.Address.User + "@" + target
	}
	var args []string
	if version != "" {
		args = append(args, "-o", "SendEnv="+versionVariable)
	}
	if port := c.Address.Port; port != 0 {
		args = append(args, "-p", strconv.Itoa(port))
	}
	running, cancel := context.WithCancel(ctx)
	cmd := c.Credentials.SSHProgram(running, append(args, target, service+" "+quoteShell(c.Address.Path))...)
	cmd.Env = append(cmd.Environ(), versionVariable+"="+version)
	cmd.WaitDelay = leftBehind
	s := &stream{ctx: ctx, stderr: &Tail{}, abort: cancel, program: "ssh"}
	return s.run(cmd)
}

// leftBehind limits the wait for processes that ssh leaves running, such as a shared connection
// (ssh_config(5), ControlPersist).
const leftBehind = time.Second

// openSSHConnects matches the messages of OpenSSH's ssh about connections (openssh, misc.c and sshconnect.c).
var openSSHConnects = regexp.MustCompile(`ssh: (?:Could not resolve hostname (\S+): |connect to host \S+ port \d+: (.*))`)

// openSSHProblem returns the error of the network in a message of OpenSSH's ssh; nil if the message is another.
func openSSHProblem(message string) error {
	m := openSSHConnects.FindStringSubmatch(message)
	switch {
	case m == nil:
		return nil
	case m[1] != "":
		return &net.DNSError{Err: message, Name: m[1], IsNotFound: !strings.Contains(message, "Temporary failure")}
	}
	for words, cause := range map[string]error{
		"refused": syscall.ECONNREFUSED, "timed out": syscall.ETIMEDOUT,
		"No route": syscall.EHOSTUNREACH, "unreachable": syscall.ENETUNREACH, "reset": syscall.ECONNRESET,
	} {
		if strings.Contains(m[2], words) {
			return &net.OpError{Op: "dial", Net: "tcp", Err: cause}
		}
	}
	return nil
}

// openSSHRemedy returns the remedy for a message of OpenSSH's ssh about a login, after a colon; empty if it has none.
func openSSHRemedy(message string) string {
	switch {
	case strings.Contains(message, "Host key verification failed"):
		return ": connect once with ssh, and compare the key with those that the host publishes"
	case strings.Contains(message, "Permission denied (publickey"):
		return ": add the public half of the ssh key to the repository, as a key that may write"
	}
	return ""
}
