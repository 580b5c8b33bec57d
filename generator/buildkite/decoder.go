package buildkite

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// lenient accepts what encoding/json accepts. Of a field that is there twice, the last value wins.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// biggestValue limits one string or number of a response, which the decoder has in memory as a
// whole, and the white space between two of them.
const biggestValue = 4 << 20

// syntaxError is an error about a response that does not have the expected form.
type syntaxError struct {
	text string
	cut  bool // the response ends too early, as if the connection was cut
}

func (e *syntaxError) Error() string { return e.text }

func notWhole(why string) error {
	return &syntaxError{text: "the response is not complete JSON: " + why}
}

// decoder reads a response as JSON.
type decoder = jsontext.Decoder

// newDecoder returns a decoder that reads a response as it arrives.
func newDecoder(body io.Reader) *decoder {
	r := &bodyReader{body: body}
	r.decoder = jsontext.NewDecoder(r, lenient)
	return r.decoder
}

// bodyReader is the reader of a decoder. It limits values to biggestValue.
type bodyReader struct {
	body    io.Reader
	decoder *decoder
	read    int64
	begun   bool  // a byte other than white space was read
	other   error // it does not begin JSON; nil if it does
}

// titleWithin is the number of bytes within which the title of a web page is found.
const titleWithin = 16 << 10

// pageTitle matches the title of a web page.
var pageTitle = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// notJSON returns what a response is that is not JSON, such as the page of a login or a proxy.
func notJSON(text []byte) string {
	if !bytes.HasPrefix(text, []byte("<")) {
		return "the response is not JSON: check the address, and whether it requires a login"
	}
	page := "a web page"
	if m := pageTitle.FindSubmatch(text[:min(len(text), titleWithin)]); m != nil {
		page += " (" + strings.Join(strings.Fields(html.UnescapeString(string(m[1]))), " ") + ")"
	}
	return "the response is " + page + ", not JSON: check the address, and whether it requires a login"
}

// bodyError is an error of the reader below a decoder. [decodeError] unwraps it.
type bodyError struct{ error }

// Read implements [io.Reader].
func (r *bodyReader) Read(p []byte) (int, error) {
	if r.other != nil {
		return 0, r.other
	}
	left := biggestValue - (r.read - r.decoder.InputOffset())
	if left < 0 {
		return 0, bodyError{&syntaxError{text: fmt.Sprintf("the answer has a value of more than %d MiB", biggestValue>>20)}}
	}
	n, err := r.body.Read(p[:min(int64(len(p)), left+1)])
	r.read += int64(n)
	if begin := bytes.TrimLeft(p[:n], " \t\r\n"); !r.begun && len(begin) > 0 {
		r.begun = true
		if !bytes.ContainsAny(begin[:1], `[{"-0123456789tfn`) {
			rest, _ := io.ReadAll(io.LimitReader(r.body, titleWithin))
			r.other = bodyError{&syntaxError{text: notJSON(append(bytes.Clone(begin), rest...))}}
			return 0, r.other
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = bodyError{err}
	}
	return n, err
}

// decodeError returns a syntax error as a *syntaxError, and an error of the body as the body
// returned it. It returns other errors unchanged.
func decodeError(err error) error {
	var body bodyError
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &body):
		return body.error
	case errors.Is(err, io.EOF), errors.As(err, &syntax) && errors.Is(syntax.Err, io.ErrUnexpectedEOF):
		return &syntaxError{text: "the response is not complete JSON: it ends too early", cut: true}
	case syntax != nil:
		return notWhole(syntax.Err.Error())
	}
	return err
}

// list reads a list and calls each for every element, which each must read. It skips any other
// value and returns false.
func list(d *decoder, each func() error) (bool, error) {
	if d.PeekKind() != '[' {
		return false, d.SkipValue()
	}
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() != ']' {
		err = each()
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	return true, err
}

// object reads an object. Field returns what reads the field of a name; nil skips it. It skips
// any other value and returns false.
func object(d *decoder, field func(name []byte) json.UnmarshalerFrom) (bool, error) {
	if d.PeekKind() != '{' {
		return false, d.SkipValue()
	}
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() != '}' {
		var name jsontext.Value
		if name, err = d.ReadValue(); err != nil {
			return true, err
		}
		if into := field(name[1 : len(name)-1]); into != nil {
			err = into.UnmarshalJSONFrom(d)
		} else {
			err = d.SkipValue()
		}
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	return true, err
}

// finish returns an error unless the response has ended.
func finish(d *decoder) error {
	switch _, err := d.ReadToken(); {
	case err == nil:
		return notWhole("there is data after its end")
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}
