package gitserver

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
)

// SSHServer lets one key read and write local repositories over ssh, like a git host's sshd: it runs only
// git-upload-pack and git-receive-pack.
type SSHServer struct {
	// Address is the host and the port.
	Address string
	// KeyFile is the private key that may log in. KnownHostsFile is the known_hosts file for
	// clients.
	KeyFile, KnownHostsFile string

	listener net.Listener
	config   *ssh.ServerConfig
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// ServeSSH starts a server whose keys are written into dir.
func ServeSSH(dir string) (*SSHServer, error) {
	s := &SSHServer{
		KeyFile:        filepath.Join(dir, "id_ed25519"),
		KnownHostsFile: filepath.Join(dir, "known_hosts"),
		conns:          map[net.Conn]bool{},
	}
	allowed, err := newKey(s.KeyFile)
	if err != nil {
		return nil, err
	}
	_, hostKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	host, err := ssh.NewSignerFromKey(hostKey)
	if err != nil {
		return nil, err
	}
	s.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), allowed.Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	s.config.AddHostKey(host)
	s.listener, err = net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.Address = s.listener.Addr().String()
	_, port, _ := net.SplitHostPort(s.Address)
	line := fmt.Sprintf("[127.0.0.1]:%s %s", port, ssh.MarshalAuthorizedKey(host.PublicKey()))
	if err := os.WriteFile(s.KnownHostsFile, []byte(line), 0o600); err != nil {
		s.Close()
		return nil, err
	}
	s.running.Go(s.accept)
	return s, nil
}

// newKey writes a private key that OpenSSH can read and returns its public half.
func newKey(file string) (ssh.PublicKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "gitserver")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, err
	}
	return ssh.NewPublicKey(key.Public())
}

// URL returns the address of a local repository.
func (s *SSHServer) URL(r Repository) string { return "ssh://git@" + s.Address + r.Dir }

// Close ends every connection and stops the server.
func (s *SSHServer) Close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

func (s *SSHServer) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		s.running.Go(func() {
			s.serve(conn)
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
		})
	}
}

func (s *SSHServer) serve(conn net.Conn) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	var sessions sync.WaitGroup
	defer sessions.Wait()
	for offered := range channels {
		if offered.ChannelType() != "session" {
			_ = offered.Reject(ssh.UnknownChannelType, "sessions only")
			continue
		}
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		sessions.Go(func() { session(channel, requests) })
	}
}

func session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	version := ""
	for request := range requests {
		var payload struct{ Command string }
		var variable struct{ Name, Value string }
		if request.Type == "env" && ssh.Unmarshal(request.Payload, &variable) == nil && variable.Name == "GIT_PROTOCOL" {
			version = variable.Value // as sshd does with AcceptEnv GIT_PROTOCOL
			_ = request.Reply(true, nil)
			continue
		}
		if request.Type != "exec" || ssh.Unmarshal(request.Payload, &payload) != nil {
			_ = request.Reply(false, nil)
			continue
		}
		_ = request.Reply(true, nil)
		status := runService(channel, payload.Command, version)
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
		return
	}
}

func runService(channel ssh.Channel, command, version string) uint32 {
	service, path, _ := strings.Cut(command, " ")
	if service != "git-upload-pack" && service != "git-receive-pack" {
		fmt.Fprintln(channel.Stderr(), "only git is served here")
		return 1
	}
	path = strings.NewReplacer(`'\''`, "'", `'\!'`, "!").Replace(strings.TrimSuffix(strings.TrimPrefix(path, "'"), "'"))
	cmd := exec.Command("git", strings.TrimPrefix(service, "git-"), path)
	cmd.Env = append(environment(cmd), "GIT_PROTOCOL="+version)
	cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
	// The command's own pipe, not cmd.Stdin: a client keeps its end open.
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return 1
	}
	go func() {
		_, _ = io.Copy(in, channel)
		_ = in.Close()
	}()
	if cmd.Wait() != nil {
		return 128
	}
	return 0
}
