package main

import (
	"bytes"
	"testing"

	"muster/cmd/output"
)

func TestPrintable(t *testing.T) {
	const text = "tab\tline\nGröße 👩‍👧 \x1b[31m\u009b31m\u202e\u2066\ufeff\u2028\r\x7f\xff\U000e0041 @here @@x @@ git@host a.@b\n"
	const want = "tab\tline\nGröße 👩‍👧 \\u001b[31m\\u009b31m\\u202e\\u2066\\ufeff\\u2028\\u000d\\u007f\ufffd\\udb40\\udc41 \\u0040here @\\u0040x @@ git@host a.@b\n"
	for size := range 8 {
		var out bytes.Buffer
		p := &output.Printable{To: &out}
		for rest := []byte(text); len(rest) > 0; {
			n := min(size+1, len(rest))
			if written, err := p.Write(rest[:n]); err != nil || written != n {
				t.Fatal(written, err)
			}
			rest = rest[n:]
		}
		if out.String() != want {
			t.Errorf("in pieces of %d: %q, want %q", size+1, out.String(), want)
		}
	}
}
