package buildkite

import "io"

// WithBiggest bounds answers to so many bytes.
func WithBiggest(c Config, bytes int64) Config {
	c.biggest = bytes
	return c
}

// Biggest is how many bytes of an answer the client reads.
func Biggest(c *Client) int64 { return c.http.Transport.(*transport).biggest }

// BiggestAnswer is the bound of a client that is given none.
const BiggestAnswer = biggestAnswer

// DecodeBuilds reads a page of builds and their jobs, field by field, and keeps
// nothing of it: what decoding costs.
func DecodeBuilds(r io.Reader) error {
	s := newStream(r, make([]byte, streamWindow))
	object := new(jobRecord).object(false)
	_, err := s.list(func() error {
		_, err := s.object(func(name []byte) error {
			if string(name) != "jobs" {
				return s.skip()
			}
			_, err := s.list(func() error { return object.read(s) })
			return err
		})
		return err
	})
	if err != nil {
		return err
	}
	return s.finish()
}
