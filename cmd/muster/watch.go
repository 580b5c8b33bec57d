package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"muster/cmd/muster/terminal"
)

// watch are the flags of commands that can look again and again.
type watch struct {
	on       bool
	interval time.Duration
}

func (w *watch) addTo(c *cobra.Command) {
	c.Flags().BoolVarP(&w.on, "watch", "w", false, "refresh continuously: redraw a terminal, elsewhere print changes")
	c.Flags().DurationVar(&w.interval, "watch-interval", 15*time.Second, "with --watch, time between polls")
}

// run shows once what look prints, or with --watch until the context ends. What
// look returns ends the command, but for a watch that has begun: it is reported,
// and the next look may go well.
func (w watch) run(ctx context.Context, p program, out terminal.Output, look func(context.Context, terminal.Output) error) error {
	if !w.on {
		return look(ctx, out)
	}
	if w.interval < time.Second {
		return usage(errors.New("--watch-interval is below one second"))
	}
	var last []byte
	for {
		var shown bytes.Buffer
		err := look(ctx, terminal.Output{Text: &printable{to: &shown}, Raw: &shown, Colour: out.Colour})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, errChanges) && last == nil:
			return err
		case err != nil && !errors.Is(err, errChanges):
			fmt.Fprintln(p.stderr, "muster: "+err.Error())
		case p.screen.terminal:
			if err := p.redraw(out, w.interval, shown.Bytes()); err != nil {
				return err
			}
		case last == nil || !bytes.Equal(last, shown.Bytes()):
			if _, err := out.Raw.Write(shown.Bytes()); err != nil {
				return err
			}
		}
		if err == nil || errors.Is(err, errChanges) {
			last = shown.Bytes()
		}
		if p.clock.Sleep(ctx, w.interval) != nil {
			return nil
		}
	}
}

// redraw shows a screen with the time of the look on its first line.
func (p program) redraw(out terminal.Output, interval time.Duration, shown []byte) error {
	if err := out.Clear(); err != nil {
		return err
	}
	head := fmt.Sprintf("%s  every %s, Ctrl-C ends it\n\n", p.clock.Now().UTC().Format(time.RFC3339), interval)
	if _, err := io.WriteString(out.Text, head); err != nil {
		return err
	}
	_, err := out.Raw.Write(shown)
	return err
}
