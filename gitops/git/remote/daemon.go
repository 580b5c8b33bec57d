package remote

import (
	"cmp"
	"context"
	"net"
	"strconv"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

const daemonPort = 9418

// openDaemon connects to a git daemon, which asks nobody who they are.
func (c *Connection) openDaemon(ctx context.Context, service, version string) (*stream, error) {
	conn, err := c.dial(ctx, daemonPort)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	s := &stream{ctx: ctx, in: halfClose{conn}, out: conn, said: &Tail{}, abort: func() { conn.Close() }}
	s.wait = func() error { stop(); return conn.Close() }
	request := packp.GitProtoRequest{RequestCommand: service, Pathname: c.Address.Endpoint.Path, Host: c.Address.Endpoint.Host}
	if version != "" {
		request.ExtraParams = []string{version}
	}
	if err := request.Encode(conn); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// halfClose keeps a connection open for reading when writing is over: git's
// protocol says itself where it ends.
type halfClose struct{ net.Conn }

func (halfClose) Close() error { return nil }

// dial connects to the server, at the port of its address or else at the usual
// one of the protocol.
func (c *Connection) dial(ctx context.Context, usual int) (net.Conn, error) {
	port := cmp.Or(c.Address.Endpoint.Port, usual)
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(c.Address.host(), strconv.Itoa(port)))
}
