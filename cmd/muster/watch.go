package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"

	"github.com/spf13/cobra"
)

// pollInterval is the time between polls of --watch and --follow.
const pollInterval = 15 * time.Second

// watch is the flag --watch of commands that can repeat.
type watch bool

func (w *watch) addTo(c *cobra.Command) {
	c.Flags().BoolVarP((*bool)(w), "watch", "w", false, "refresh continuously: redraw a terminal, otherwise print changes")
}

// run calls show once, or with --watch until the context ends. An error of the first call ends
// the command; with --watch, later errors are printed, and the next call may succeed.
func (w watch) run(ctx context.Context, p program, out output.Output, show func(context.Context, output.Output) error) error {
	if !w {
		return show(ctx, out)
	}
	var last []byte
	for {
		var shown bytes.Buffer
		err := show(ctx, output.Output{Text: &output.Printable{To: &shown}, Raw: &shown, Colour: out.Colour})
		if errors.Is(err, invocation.ErrChanges) {
			err = nil
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && last == nil:
			return err
		case err != nil:
			p.PrintMessage("%v", err)
		case p.Screen.Terminal:
			if err := p.redraw(out, shown.Bytes()); err != nil {
				return err
			}
		case last == nil || !bytes.Equal(last, shown.Bytes()):
			if _, err := out.Raw.Write(shown.Bytes()); err != nil {
				return err
			}
		}
		if err == nil {
			last = shown.Bytes()
		}
		if p.Clock.Sleep(ctx, pollInterval) != nil {
			return nil
		}
	}
}

// redraw clears the screen and prints the time and the text.
func (p program) redraw(out output.Output, shown []byte) error {
	if err := out.Clear(); err != nil {
		return err
	}
	head := fmt.Sprintf("%s  every %s, Ctrl-C ends it\n\n", p.Clock.Now().UTC().Format(time.RFC3339), pollInterval)
	if _, err := io.WriteString(out.Text, head); err != nil {
		return err
	}
	_, err := out.Raw.Write(shown)
	return err
}
