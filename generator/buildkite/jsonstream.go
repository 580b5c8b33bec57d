package buildkite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// stream reads one JSON text (RFC 8259) value by value and keeps no more of it
// than a window of [streamWindow], or the one value that is being looked at. It
// takes exactly what [encoding/json.Valid] takes, with the same bound on depth.
//
// Each of its methods that returns no error has consumed one value. A text that
// is not JSON is a *syntaxError; an error of the reader below is passed on.
type stream struct {
	in       io.Reader
	buf      []byte
	pos, end int // what is unread is buf[pos:end]
	mark     int // where a value begins whose bytes are wanted; -1: none
	depth    int
	err      error // of in, once it has ended
}

const (
	streamWindow = 64 << 10
	// biggestValue bounds one value that is wanted, as an agent's tags are. What
	// is skipped has no bound of its own.
	biggestValue = 1 << 20
	// deepest is the depth that encoding/json allows.
	deepest = 10000
)

// syntaxError is an error about a response that does not have the expected form.
type syntaxError struct{ text string }

func (e *syntaxError) Error() string { return e.text }

func notWhole(why string) error {
	return &syntaxError{"the answer is not whole JSON: " + why}
}

func newStream(in io.Reader, window []byte) *stream {
	return &stream{in: in, buf: window, mark: -1}
}

// fill reads more; false when there is no more, and then s.err says why.
func (s *stream) fill() bool {
	if s.err != nil {
		return false
	}
	keep := s.pos
	if s.mark >= 0 {
		keep = s.mark
	}
	if keep > 0 {
		copy(s.buf, s.buf[keep:s.end])
		s.pos, s.end = s.pos-keep, s.end-keep
		if s.mark >= 0 {
			s.mark = 0
		}
	}
	if s.end == len(s.buf) {
		if len(s.buf) >= biggestValue {
			s.err = &syntaxError{fmt.Sprintf("the answer has a value of more than %d MiB", biggestValue>>20)}
			return false
		}
		s.buf = append(s.buf, make([]byte, len(s.buf))...)
	}
	for range 100 { // as bufio does
		n, err := s.in.Read(s.buf[s.end:])
		s.end += n
		s.err = err
		if n > 0 {
			return true
		}
		if err != nil {
			return false
		}
	}
	s.err = io.ErrNoProgress
	return false
}

// cut is the error of a text that ends where it must not.
func (s *stream) cut() error {
	if s.err != nil && !errors.Is(s.err, io.EOF) {
		return s.err
	}
	return notWhole("it ends too early")
}

// next returns the next byte other than white space and leaves it unread; false
// at the end.
func (s *stream) next() (byte, bool) {
	for {
		for ; s.pos < s.end; s.pos++ {
			switch c := s.buf[s.pos]; c {
			case ' ', '\t', '\r', '\n':
			default:
				return c, true
			}
		}
		if !s.fill() {
			return 0, false
		}
	}
}

// take returns the very next byte and consumes it; false at the end.
func (s *stream) take() (byte, bool) {
	if s.pos == s.end && !s.fill() {
		return 0, false
	}
	s.pos++
	return s.buf[s.pos-1], true
}

// finish is nil when nothing but white space is left.
func (s *stream) finish() error {
	if _, more := s.next(); more {
		return notWhole("there is more after its end")
	}
	if !errors.Is(s.err, io.EOF) {
		return s.err
	}
	return nil
}

// list consumes a list and calls each for every element, which each must
// consume. False: there is another value, which is consumed.
func (s *stream) list(each func() error) (bool, error) {
	if c, _ := s.next(); c != '[' {
		return false, s.skip()
	}
	return true, s.members(']', each)
}

// object consumes an object and calls each for every member with its name, which
// is good until each consumes the value, as it must. A name with an escape in it
// is given as it is written. False: there is another value, which is consumed.
func (s *stream) object(each func(name []byte) error) (bool, error) {
	if c, _ := s.next(); c != '{' {
		return false, s.skip()
	}
	return true, s.members('}', func() error {
		name, err := s.name()
		if err != nil {
			return err
		}
		return each(name)
	})
}

// name consumes the name of a member and the colon, and returns the name.
func (s *stream) name() ([]byte, error) {
	text, err := s.marked(s.skipName)
	if err != nil {
		return nil, err
	}
	return text[1:bytes.LastIndexByte(text, '"')], nil
}

// skipName consumes the name of a member and the colon.
func (s *stream) skipName() error {
	if c, ok := s.next(); !ok || c != '"' {
		return s.unexpected("a name")
	}
	s.pos++
	if err := s.text(); err != nil {
		return err
	}
	if c, ok := s.next(); !ok || c != ':' {
		return s.unexpected("a colon")
	}
	s.pos++
	return nil
}

// members consumes what stands between the brackets, both of them too.
func (s *stream) members(closing byte, each func() error) error {
	if s.depth >= deepest {
		return notWhole("it is nested too deep")
	}
	s.depth++
	defer func() { s.depth-- }()
	s.pos++
	if c, ok := s.next(); ok && c == closing {
		s.pos++
		return nil
	}
	for {
		if err := each(); err != nil {
			return err
		}
		switch c, ok := s.next(); {
		case !ok:
			return s.cut()
		case c == closing:
			s.pos++
			return nil
		case c != ',':
			return s.unexpected("a comma")
		}
		s.pos++
	}
}

func (s *stream) unexpected(wanted string) error {
	if s.pos == s.end {
		return s.cut()
	}
	return notWhole(fmt.Sprintf("%q where %s is expected", s.buf[s.pos], wanted))
}

// raw consumes a value and returns its bytes, which are good until the next call.
func (s *stream) raw() ([]byte, error) { return s.marked(s.skip) }

// marked returns the bytes that consume reads, from the next one other than white space on.
func (s *stream) marked(consume func() error) ([]byte, error) {
	s.next()
	s.mark = s.pos
	err := consume()
	from := s.mark
	s.mark = -1
	return s.buf[from:s.pos], err
}

// skip consumes a value.
func (s *stream) skip() error {
	c, ok := s.next()
	if !ok {
		return s.cut()
	}
	switch c {
	case '"':
		s.pos++
		return s.text()
	case '[':
		return s.members(']', s.skip)
	case '{':
		return s.members('}', func() error {
			if err := s.skipName(); err != nil {
				return err
			}
			return s.skip()
		})
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.number()
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.unexpected("a value")
}

// text consumes what follows the first quotation mark of a string.
func (s *stream) text() error {
	for {
		unread := s.buf[s.pos:s.end]
		i := 0
		for i < len(unread) && unread[i] != '"' && unread[i] != '\\' && unread[i] >= ' ' {
			i++
		}
		s.pos += i
		if i == len(unread) {
			if !s.fill() {
				return s.cut()
			}
			continue
		}
		s.pos++
		switch unread[i] {
		case '"':
			return nil
		case '\\':
			if err := s.escape(); err != nil {
				return err
			}
		default:
			return notWhole("a control character stands in a string")
		}
	}
}

// escape consumes what follows a backslash.
func (s *stream) escape() error {
	c, ok := s.take()
	if !ok {
		return s.cut()
	}
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			c, ok := s.take()
			if !ok {
				return s.cut()
			}
			if hex := c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'; !hex {
				return notWhole("a string has a broken escape")
			}
		}
		return nil
	}
	return notWhole("a string has a broken escape")
}

// number consumes a number.
func (s *stream) number() error {
	c, _ := s.take()
	if c == '-' {
		c, _ = s.take()
	}
	whole := c >= '0' && c <= '9'
	if whole && c != '0' {
		s.digits()
	}
	if whole && s.is(".") {
		whole = s.digits() > 0
	}
	if whole && s.is("eE") {
		s.is("+-")
		whole = s.digits() > 0
	}
	if !whole {
		return notWhole("a number has no digits")
	}
	return nil
}

// digits consumes digits and says how many there were.
func (s *stream) digits() int {
	n := 0
	for s.is("0123456789") {
		n++
	}
	return n
}

// is consumes the next byte when it is one of these.
func (s *stream) is(any string) bool {
	if s.pos == s.end && !s.fill() || strings.IndexByte(any, s.buf[s.pos]) < 0 {
		return false
	}
	s.pos++
	return true
}

func (s *stream) literal(word string) error {
	for i := range len(word) {
		c, ok := s.take()
		if !ok {
			return s.cut()
		}
		if c != word[i] {
			return notWhole("a word is not true, false or null")
		}
	}
	return nil
}
