package kustomize

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// message is a message between the two processes, one line of JSON: first the directory to build,
// then requests for files and their responses, and last the result of the build.
type message struct {
	// Build is the directory to build.
	Build string `json:",omitempty"`
	// Ask is the name of the method to call on the file Path.
	Ask  string `json:",omitempty"`
	Path string `json:",omitempty"`
	// Yes, Dir, Name, Data and Err are the response.
	Yes  bool   `json:",omitempty"`
	Dir  string `json:",omitempty"`
	Name string `json:",omitempty"`
	Data []byte `json:",omitempty"`
	Err  string `json:",omitempty"`
	// Done ends the build, which failed if Err is set.
	Done    bool     `json:",omitempty"`
	Objects []Object `json:",omitempty"`
}

// maxMessage bounds a message, in bytes: more than any that is valid.
const maxMessage = 4 * maxOutput

// line is one end of the line between the two processes.
type line struct {
	in  *bufio.Reader
	out io.Writer
}

func newLine(in io.Reader, out io.Writer) *line {
	const most = 64 << 10 // that of a pipe: most messages are read at once
	return &line{bufio.NewReaderSize(in, most), out}
}

func (l *line) send(m message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = l.out.Write(append(text, '\n'))
	return err
}

func (l *line) receive() (message, error) {
	var m message
	var text []byte
	for {
		part, err := l.in.ReadSlice('\n')
		text = append(text, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return m, err
		}
		if len(text) > maxMessage {
			return m, fmt.Errorf("a message of more than %d bytes", maxMessage)
		}
	}
	return m, json.Unmarshal(text, &m)
}

func (m message) failed() error {
	if m.Err == "" {
		return nil
	}
	return errors.New(m.Err)
}
