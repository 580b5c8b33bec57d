package remote

import (
	"context"
	"fmt"
	"net"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

// openDaemon requests a service by the git protocol, which has neither encryption nor credentials
// (gitprotocol-pack(5), "Git Transport").
func (c *Connection) openDaemon(ctx context.Context, service, version string) (*stream, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", c.Address.DialAddress())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	request := fmt.Sprintf("%s %s\x00host=%s\x00", service, c.Address.Path, c.Address.HostPort())
	if version != "" {
		request += "\x00" + version + "\x00"
	}
	if err := pktline.NewEncoder(conn).EncodeString(request); err != nil {
		stop()
		conn.Close()
		return nil, err
	}
	end := func() { stop(); conn.Close() }
	return &stream{ctx: ctx, in: halfClosing{conn}, out: conn, stderr: &Tail{}, abort: end, wait: func() error { end(); return nil }}, nil
}

// halfClosing is a connection whose Close ends only its writing half, as that of a pipe.
type halfClosing struct{ net.Conn }

// Close implements [io.Closer].
func (h halfClosing) Close() error {
	if tcp, ok := h.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return h.Conn.Close()
}
