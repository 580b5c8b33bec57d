package buildkite

import (
	"io"

	"github.com/go-json-experiment/json"
)

// WithBiggest limits responses to a number of bytes.
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
	d, b := newDecoder(r), newBuildReader(&session{})
	each := func() error { return b.job.UnmarshalJSONFrom(d) }
	return wholeList(d, func() error {
		_, err := object(d, func(name []byte) json.UnmarshalerFrom {
			if string(name) == "jobs" {
				return readerFunc(func() error { _, err := list(d, each); return err })
			}
			return nil
		})
		return err
	})
}

type readerFunc func() error

func (f readerFunc) UnmarshalJSONFrom(*decoder) error { return f() }
