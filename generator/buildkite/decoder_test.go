package buildkite

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"
)

// readPage reads a page of builds.
func readPage(r io.Reader) error {
	client := &Client{cfg: Config{Log: slog.New(slog.DiscardHandler)}}
	d, reader := newDecoder(r), newBuildReader(&session{client: client, poll: &poll{}})
	return decodeError(wholeList(d, func() error {
		_, _, _, err := reader.read(d)
		return err
	}))
}

// TestDecoderAcceptsJSON: what encoding/json accepts is accepted, and nothing else.
func TestDecoderAcceptsJSON(t *testing.T) {
	for _, text := range []string{
		`[]`, ` [ ] `, `[,]`, `[1,]`, `[1 2]`, `[1,2] `, `[1]]`, `[1`, `[]x`, `[}`, `[tru]`, `[1.e5]`, `[-]`, `[01]`, `[-1.25e-7]`, "\t\r\n[\n]\n", "[\v]", "\ufeff[]",
		`["a\"b"]`, `["\u00e9"]`, `["\u00g9"]`, `["\x"]`, "[\"\x01\"]", "[\"\xff\"]", `["abc`, `["\`, `[` + strings.Repeat("4", 309) + `]`,
		`[{"id":"a","id":"b"}]`, `[{"id"}]`, `[{"id":}]`, `[{id:1}]`, `[{"id":1,}]`, `[{"id":1 "state":2}]`, `[{1:2}]`, `[{"\u0069d":1}]`, `[{"jobs":[{"id":1},2,{"agent":[]}]}]`,
		`[{"jobs":[{]}]`, `[{"jobs":[{"agent":{"meta_data":[}}]}]`, `[{"state":tru}]`, `[{"created_at":"]`, `[{"jobs":[{"retried":1x}]}]`,
		strings.Repeat("[", 10000) + strings.Repeat("]", 10000), strings.Repeat("[", 10001) + strings.Repeat("]", 10001),
	} {
		for _, wrap := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.DataErrReader} {
			err := readPage(wrap(strings.NewReader(text)))
			var syntax *syntaxError
			if valid := json.Valid([]byte(text)); valid != (err == nil) || !valid && !errors.As(err, &syntax) {
				t.Errorf("%.80q is valid: %t, and reading it returns %v", text, valid, err)
			}
		}
	}
}

func TestDecoderErrors(t *testing.T) {
	large := strings.Repeat("x", biggestValue+100_000)
	for text, want := range map[string]string{
		`[{"id":"a`:                `the response is not complete JSON: it ends too early`,
		``:                         `the answer is empty, where a list was asked for`,
		`[]1`:                      `the response is not complete JSON: there is data after its end`,
		`[{"id":x}]`:               `the response is not complete JSON: invalid character 'x' at start of value`,
		`{}`:                       `the answer is not a list`,
		`[{"id":"` + large + `"}]`: `the answer has a value of more than 4 MiB`,
	} {
		if err := readPage(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%.80q: got %v, want %s", text, err, want)
		}
	}
	reset := errors.New("connection reset")
	if err := readPage(io.MultiReader(strings.NewReader(`[{"id":"a`), iotest.ErrReader(reset))); err != reset {
		t.Errorf("an answer that breaks off: %v", err)
	}
	if err := readPage(strings.NewReader(`[{"x":"` + large[:biggestValue-100_000] + `","id":"a"}]`)); err != nil {
		t.Errorf("a large value: %v", err)
	}
}
