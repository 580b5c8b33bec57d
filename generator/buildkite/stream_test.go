package buildkite

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// walk consumes one value through list and object, and returns it with all
// white space between values left out.
func walk(s *stream) (string, error) {
	c, _ := s.next()
	var b strings.Builder
	b.WriteByte(c)
	comma := ""
	switch c {
	case '[':
		_, err := s.list(func() error {
			text, err := walk(s)
			b.WriteString(comma + text)
			comma = ","
			return err
		})
		return b.String() + "]", err
	case '{':
		_, err := s.object(func(name []byte) error {
			b.WriteString(comma + `"` + string(name) + `":`)
			comma = ","
			text, err := walk(s)
			b.WriteString(text)
			return err
		})
		return b.String() + "}", err
	}
	raw, err := s.raw()
	return string(raw), err
}

// checkStream compares the stream with encoding/json, for one text and one way
// of reading it.
func checkStream(t interface{ Errorf(string, ...any) }, text string, wrap func(io.Reader) io.Reader) {
	valid := json.Valid([]byte(text))
	s := newTestStream(wrap(strings.NewReader(text)))
	err := s.skip()
	if err == nil {
		err = s.finish()
	}
	if valid != (err == nil) {
		t.Errorf("%q is valid: %t, and skipping it says %v", text, valid, err)
	}
	s = newTestStream(wrap(strings.NewReader(text)))
	walked, err := walk(s)
	if err == nil {
		err = s.finish()
	}
	if valid != (err == nil) {
		t.Errorf("%q is valid: %t, and walking it says %v", text, valid, err)
	}
	if !valid {
		return
	}
	got, err := decoded(walked)
	want, wanted := decoded(text)
	if err != nil || wanted != nil {
		t.Errorf("%q was walked as %q: %v, %v", text, walked, err, wanted)
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("%q was walked as %q", text, walked)
	}
}

// decoded reads a text, with numbers of any size.
func decoded(text string) (any, error) {
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	err := d.Decode(&v)
	return v, err
}

func whole(r io.Reader) io.Reader { return r }

func newTestStream(r io.Reader) *stream { return newStream(r, make([]byte, streamWindow)) }

var streamSeeds = []string{
	``, ` `, `null`, `nul`, `nulL`, `true`, `false `, `tru`, `0`, `-0`, `01`, `-`, `1.`, `1.5`, `.5`, `1e5`, `1E+5`, `1e`, `1e-`, `-1.25e-7`, `+1`,
	`""`, `"a\"b"`, `"\u00e9"`, `"\u00g9"`, `"\x"`, "\"\x01\"", "\"\xff\"", `"abc`, `"\`, `"\u12`, `[]`, `[ ]`, `[,]`, `[1,]`, `[1 2]`, `[1,2] `, `[1]]`, `[1`,
	`{}`, `{"a":1}`, `{"a" : [1 , {"b":null}] , "c":"d"}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1,}`, `{"a":1 "b":2}`, `{1:2}`, `[1]x`, `{"a\n":1}`, `{"\u0061":1}`,
	strings.Repeat("4", 309), // more than a float64 holds
	"\ufeff[]", `[tru]`, `[1.e5]`, "\t\r\n[\n]\n", "[\v]",
}

func TestStream(t *testing.T) {
	for _, text := range streamSeeds {
		checkStream(t, text, whole)
		checkStream(t, text, iotest.OneByteReader)
		checkStream(t, text, iotest.DataErrReader)
	}
	for _, depth := range []int{9999, 10000, 10001} {
		checkStream(t, strings.Repeat("[", depth)+strings.Repeat("]", depth), whole)
	}
}

// TestStreamWindow: values that lie across the window's edge, names among them,
// and one that is larger than the window.
func TestStreamWindow(t *testing.T) {
	for around := streamWindow - 12; around < streamWindow+2; around++ {
		checkStream(t, `{"`+strings.Repeat("x", around-8)+`" : {"name" : "value", "n":12.5e1, "e":"\u00e9"}}`, whole)
		checkStream(t, `["`+strings.Repeat("x", around-8)+`",{"name" : "value", "l":[true, null]}]`, whole)
	}
	if raw, err := newTestStream(strings.NewReader(`"` + strings.Repeat("x", 3*streamWindow) + `"`)).raw(); err != nil || len(raw) != 3*streamWindow+2 {
		t.Errorf("got %d bytes: %v", len(raw), err)
	}
	_, err := newTestStream(strings.NewReader(`"` + strings.Repeat("x", biggestValue) + `"`)).raw()
	if err == nil || !strings.Contains(err.Error(), "a value of more than 1 MiB") {
		t.Errorf("a value that is too large: %v", err)
	}
	if err := newTestStream(strings.NewReader(`"` + strings.Repeat("x", 2*biggestValue) + `"`)).skip(); err != nil {
		t.Errorf("a large value that is skipped: %v", err)
	}
	broken := io.MultiReader(strings.NewReader(`[{"a":"b`), iotest.ErrReader(io.ErrUnexpectedEOF))
	if _, err := walk(newTestStream(broken)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an answer that breaks off: %v", err)
	}
}

func TestStreamProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{`{`, `}`, `[`, `]`, `,`, `:`, ` `, `"a"`, `"`, `\`, `1`, `-`, `.`, `e`, `true`, `null`, `"\u0041"`, "\n"})).Draw(t, "parts")
		checkStream(t, strings.Join(parts, ""), whole)
	})
}

func FuzzStream(f *testing.F) {
	for _, seed := range streamSeeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkStream(t, text, whole)
		checkStream(t, text, iotest.OneByteReader)
	})
}
