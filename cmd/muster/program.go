package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"muster/cmd/muster/output"
	"muster/generator"
	"muster/generator/kustomize"
	"muster/gitops/branch"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes, documented in docs/reference/cli.md.
const (
	exitOK        = 0 // done, or nothing to do
	exitChanges   = 1 // plan: there is something to do; verify: commits do not follow; nothing else uses it
	exitUsage     = 2 // wrong usage, or an invalid configuration
	exitOutside   = 3 // something outside failed: git, Buildkite, the network
	exitConflicts = 4 // run --once: every attempt ended in a conflict
)

// Main runs the program of this process with its command line, and exits.
func Main(c commands) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 2 && os.Args[1] == buildArgument {
		kustomize.Serve(os.Stdin, os.Stdout, buildMemory)
		return
	}
	p := program{
		args: os.Args[1:], environ: os.Environ(), stdin: os.Stdin, terminal: isTerminal(os.Stdin) && isTerminal(os.Stdout),
		stdout: os.Stdout, stderr: os.Stderr, clock: wallClock{}, build: thisBuild(), stopTime: stopTime,
		screen: screen{terminal: isTerminal(os.Stdout), progress: isTerminal(os.Stderr)},
	}
	if strings.ContainsRune(os.Args[0], os.PathSeparator) {
		p.invocation = shellWord(os.Args[0])
	}
	p.hangup = func() <-chan os.Signal {
		hangup := make(chan os.Signal, 1) // one that arrives during a tick is kept
		signal.Notify(hangup, syscall.SIGHUP)
		return hangup
	}
	p.boundMemory = func() {
		if os.Getenv("GOMEMLIMIT") == "" {
			debug.SetMemoryLimit(programMemory)
		}
	}
	var err error
	if p.executable, err = thisExecutable(); err != nil {
		fmt.Fprintln(os.Stderr, "muster: cannot find its own executable, which it starts to build templates (on Linux, mount /proc):", err)
		os.Exit(exitOutside)
	}
	os.Exit(p.runCommands(ctx, c))
}

// program is one invocation of muster, with all of its inputs.
type program struct {
	args           []string
	environ        []string
	stdin          io.Reader
	terminal       bool // a person reads stdout and can answer on stdin
	screen         screen
	progress       *output.Progress // nil: standard error is not a terminal
	stdout, stderr io.Writer
	invocation     string // how to call muster again from here; empty: by its name
	clock          generator.Clock
	build          build // which muster this is
	// hangup returns a channel that receives SIGHUP from then on; may be nil.
	hangup func() <-chan os.Signal
	// stopTime limits the time that the program takes to end after its context; zero: no limit.
	stopTime time.Duration
	// ctx is that of the invocation, for the programs that muster runs.
	ctx context.Context
	// boundMemory sets the memory limit of muster run; may be nil. Other commands, such as
	// history and simulate, may need more memory than this limit.
	boundMemory func()
	// executable is the program's file, which builds templates as a separate process; if empty,
	// this process builds them.
	executable string
}

// execute runs the command line and returns the exit code.
func (p program) execute(ctx context.Context, commands commands) int {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	p.ctx = ctx
	if p.screen.progress {
		p.progress = output.NewProgress(p.stderr, time.Now)
		defer p.progress.Done()
		p.stderr = p.progress
	}
	stdout := &standardOutput{ctx: ctx, to: p.stdout, report: fail}
	p.stdout = &output.Printable{To: stdout}
	p.stderr = &output.Printable{To: p.stderr}
	root := commands.root(p)
	root.SetArgs(p.args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	completionCommand(root)
	err := p.environment(root)
	if err == nil {
		var c *cobra.Command
		c, err = root.ExecuteContextC(ctx)
		var unwritten outputError
		var own interruption
		switch {
		case errors.As(context.Cause(ctx), &unwritten):
			err = unwritten
		case stdout.cut.Load() && !errors.As(err, &own):
			err = interrupted(commands.unfinished[c.Name()], ctx.Err())
		case ctx.Err() != nil && err != nil && !errors.Is(err, errChanges):
			err = interrupted(commands.unfinished[c.Name()], err)
		}
	}
	p.progress.Done()
	if err != nil && !errors.Is(err, errChanges) {
		p.printError(strings.TrimSpace(err.Error()))
	}
	return exitCode(err)
}

// endedText is the log message of an error that ends run.
const endedText = "the process ends with an error"

// printError prints the error that ends muster: as a log record if the log is JSON, otherwise
// as text.
func (p program) printError(text string) {
	if p.logsJSON() {
		slog.New(jsonLog(p.stderr, slog.LevelError)).Error(endedText, "err", strings.ReplaceAll(text, lineStart, "\n"))
		return
	}
	p.printMessage("%s", text)
}

// printMessage prints a line on standard error.
func (p program) printMessage(format string, args ...any) {
	fmt.Fprintf(p.stderr, "muster: "+format+"\n", args...)
}

// logsJSON reports whether this is run with a log in JSON. The command line may be invalid.
func (p program) logsJSON() bool {
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.ParseErrorsAllowlist.UnknownFlags = true
	format := f.String("log-format", p.variable(prefix+"LOG_FORMAT"), "")
	_ = f.Parse(p.args)
	return f.Arg(0) == "run" && *format == "json"
}

// commands are the commands of a program.
type commands struct {
	// root returns the root command of an invocation.
	root func(program) *cobra.Command
	// unfinished maps the name of a command to a description of its incomplete work if a signal ends it.
	unfinished map[string]string
}

// newRoot adds what all programs have to a root command and its commands.
func newRoot(root *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	root.SilenceErrors, root.SilenceUsage, root.SuggestionsMinimumDistance = true, true, 2
	root.Args = unknownCommand
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return output.Usage(refusePipes(cmd.Flags())) }
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	root.AddCommand(commands...)
	for _, c := range root.Commands() {
		check := c.Args
		if check == nil {
			check = cobra.ArbitraryArgs
		}
		c.Args = func(cmd *cobra.Command, args []string) error { return output.Usage(check(cmd, args)) }
	}
	return root
}

// errChanges selects exitChanges.
var errChanges = errors.New("there are changes")

func exitCode(err error) int {
	var mistake output.UsageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errChanges):
		return exitChanges
	case errors.As(err, &mistake), errors.Is(err, fs.ErrNotExist):
		return exitUsage
	case errors.Is(err, generator.ErrConflicts), errors.Is(err, branch.ErrMoved):
		return exitConflicts
	}
	return exitOutside
}

// isTerminal reports whether a file is a character device other than the null device.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// wallClock is the machine's clock.
type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func (wallClock) Sleep(ctx context.Context, d time.Duration) error {
	return sleepUntilSignal(nil)(ctx, d)
}

// sleepUntilSignal returns a function that sleeps for d, until a signal, or until the context ends.
func sleepUntilSignal(signals <-chan os.Signal) func(ctx context.Context, d time.Duration) error {
	return func(ctx context.Context, d time.Duration) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-signals:
		case <-timer.C:
		}
		return nil
	}
}

// mapSlice returns the results of a function for the elements of a slice.
func mapSlice[T, U any](all []T, result func(T) U) []U {
	var results []U
	for _, x := range all {
		results = append(results, result(x))
	}
	return results
}

// screen describes where muster's output goes. The zero value is not a terminal.
type screen struct {
	// terminal and progress report whether standard output and standard error are terminals.
	terminal, progress bool
}

// output returns the output of commands, with colours if NO_COLOR (no-color.org) and the
// terminal allow them.
func (p program) output() output.Output {
	var raw io.Writer = p.stdout
	if clean, ok := p.stdout.(*output.Printable); ok {
		raw = clean.To
	}
	return output.Output{
		Text: p.stdout, Raw: raw,
		Colour: p.screen.terminal && p.variable("NO_COLOR") == "" && p.variable("TERM") != "dumb",
	}
}

// doneOnTerminal removes the progress line if standard output is a terminal.
func (p program) doneOnTerminal() {
	if p.screen.terminal {
		p.progress.Done()
	}
}

// shellWord quotes a word for a shell, if necessary.
func shellWord(text string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("/._-+:@%", c)
	}
	if text != "" && strings.IndexFunc(text, func(c rune) bool { return !plain(c) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
