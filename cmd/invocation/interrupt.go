package invocation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// stopTime is the longest time between a signal and the end of the process. It is longer than all
// that a command does after a signal, and shorter than the 30 seconds after which Kubernetes kills.
const stopTime = 25 * time.Second

// notStopped is the message of a process that ends after stopTime: something does not return, such
// as a write to a pipe that nobody reads, or a file that is a pipe.
const notStopped = "interrupted, but something does not return, such as a write to a full pipe or the read of a pipe that nobody writes: what was not pushed is lost"

// Run runs the command line and returns the exit code. After the context has ended, it returns at
// the latest when stopTime has passed, if the program limits it.
func (p Program) Run(ctx context.Context, commands Commands) int {
	p.name = commands.Name
	code := make(chan int, 1)
	go func() { code <- p.execute(ctx, commands) }()
	select {
	case c := <-code:
		return c
	case <-ctx.Done():
	}
	if p.StopTime == 0 {
		return <-code
	}
	select {
	case c := <-code:
		return c
	case <-time.After(p.StopTime):
	}
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		p.printError(notStopped)
	}()
	select {
	case <-printed:
	case <-time.After(time.Second): // standard error is what does not return
	}
	return ExitOutside
}

// Interruption is an error that says itself what a signal left undone.
type Interruption struct{ Err error }

func (i Interruption) Error() string { return i.Err.Error() }

// interrupted returns the error of a command that a signal ended: what was not done (unfinished), the remedy, and
// what the command was doing.
func interrupted(unfinished string, err error) error {
	doing := strings.ReplaceAll(err.Error(), ": "+context.Canceled.Error(), "")
	var own Interruption
	if errors.As(err, &own) {
		return errors.New(doing)
	}
	text := "interrupted: " + cmp.Or(unfinished, "the output is incomplete") + "; run it again"
	if doing == context.Canceled.Error() {
		return errors.New(text)
	}
	return fmt.Errorf("%s (%s)", text, doing)
}

// await returns the results of do, or the error of the context if that ends first. do waits for
// something outside without a deadline, such as a pipe, and its own results are then lost.
func await[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type results struct {
		value T
		err   error
	}
	done := make(chan results, 1)
	go func() {
		value, err := do()
		done <- results{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// ReadLine returns a line of standard input, which may lack its end, or the error of the context.
func (p Program) ReadLine(ctx context.Context) (line string, whole bool, err error) {
	line, err = await(ctx, func() (string, error) { // no byte of the next line is read
		var text []byte
		for next := make([]byte, 1); !bytes.HasSuffix(text, []byte("\n")); {
			n, err := p.Stdin.Read(next)
			if text = append(text, next[:n]...); err != nil {
				return string(text), err
			}
		}
		return string(text), nil
	})
	return strings.TrimSpace(line), err == nil, ctx.Err()
}

// ReadFile returns the content of a file, which may be a pipe, or the error of the invocation's context.
func (p Program) ReadFile(name string) ([]byte, error) {
	return await(p.Ctx, func() ([]byte, error) { return os.ReadFile(name) })
}

// WriteFile writes a file, which may be a pipe. It returns the error of the invocation's context if that
// ends first.
func (p Program) WriteFile(name string, content []byte) error {
	_, err := await(p.Ctx, func() (struct{}, error) { return struct{}{}, os.WriteFile(name, content, 0o666) })
	return err
}

// outputError is an error of standard output.
type outputError struct{ error }

func (e outputError) Error() string { return "writing to standard output: " + e.error.Error() }

// standardOutput writes to standard output. A write that nobody reads returns when the context ends.
// The first error of a write is reported, so that it ends the command.
type standardOutput struct {
	ctx    context.Context
	to     io.Writer
	report func(error)
	cut    atomic.Bool // a write failed
}

func (o *standardOutput) Write(text []byte) (int, error) {
	if err := o.ctx.Err(); err != nil { // an earlier write may not have returned
		o.cut.Store(true)
		return 0, err
	}
	text = bytes.Clone(text) // which the caller may change once this method has returned
	n, err := await(o.ctx, func() (int, error) { return o.to.Write(text) })
	switch {
	case err == nil:
	case o.ctx.Err() != nil:
		o.cut.Store(true)
	default:
		o.report(outputError{err})
	}
	return n, err
}
