package buildkite

import "io"

// DecodeBuilds reads a page of builds and their jobs, field by field, and keeps
// nothing of it: what decoding costs.
func DecodeBuilds(r io.Reader) error {
	s := newStream(r, make([]byte, streamWindow))
	var job jobRecord
	_, err := s.list(func() error {
		_, err := s.object(func(name []byte) error {
			if string(name) != "jobs" {
				return s.skip()
			}
			_, err := s.list(func() error { return job.read(s) })
			return err
		})
		return err
	})
	if err != nil {
		return err
	}
	return s.finish()
}
