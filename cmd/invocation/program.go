// Package invocation is one run of a program: its streams, environment, exit codes and signals, and the flags of
// the fleet repository.
package invocation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"muster/cmd/output"
	"muster/generator"
	"muster/generator/kustomize"
	"muster/gitops/branch"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes, documented in docs/reference/cli.md.
const (
	ExitOK        = 0 // done, or nothing to do
	ExitChanges   = 1 // plan: there is something to do; verify: commits do not follow; live: a belief is contradicted; nothing else uses it
	ExitUsage     = 2 // wrong usage, or an invalid configuration
	ExitOutside   = 3 // something outside failed: git, Buildkite, the network
	ExitConflicts = 4 // run --once: every attempt ended in a conflict
)

// Main runs the program of this process with its command line, and exits.
func Main(c Commands) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 2 && os.Args[1] == BuildArgument {
		kustomize.Serve(os.Stdin, os.Stdout, BuildMemory)
		return
	}
	p := Program{
		Args: os.Args[1:], Environ: os.Environ(), Stdin: os.Stdin, Terminal: IsTerminal(os.Stdin) && IsTerminal(os.Stdout),
		Stdout: os.Stdout, Stderr: os.Stderr, Clock: wallClock{}, Build: ThisBuild(), StopTime: stopTime,
		Screen: screen{Terminal: IsTerminal(os.Stdout), Progress: IsTerminal(os.Stderr)},
	}
	if strings.ContainsRune(os.Args[0], os.PathSeparator) {
		p.Invocation = ShellWord(os.Args[0])
	}
	p.Hangup = func() <-chan os.Signal {
		hangup := make(chan os.Signal, 1) // one that arrives during a tick is kept
		signal.Notify(hangup, syscall.SIGHUP)
		return hangup
	}
	p.BoundMemory = func() {
		if os.Getenv("GOMEMLIMIT") == "" {
			debug.SetMemoryLimit(ProgramMemory)
		}
	}
	var err error
	if p.Executable, err = thisExecutable(); err != nil {
		fmt.Fprintln(os.Stderr, c.Name+": cannot find its own executable, which it starts to build templates (on Linux, mount /proc):", err)
		os.Exit(ExitOutside)
	}
	os.Exit(p.Run(ctx, c))
}

// Program is one invocation of a program, with all of its inputs.
type Program struct {
	Args           []string
	Environ        []string
	Stdin          io.Reader
	Terminal       bool // a person reads stdout and can answer on stdin
	Screen         screen
	Progress       *output.Progress // nil: standard error is not a terminal
	Stdout, Stderr io.Writer
	name           string // see Name
	Invocation     string // how to call the program again from here; empty: by its name
	Clock          generator.Clock
	Build          build // which version this is
	// Hangup returns a channel that receives SIGHUP from then on; may be nil.
	Hangup func() <-chan os.Signal
	// StopTime limits the time that the program takes to end after its context; zero: no limit.
	StopTime time.Duration
	// Ctx is that of the invocation, for the programs that it runs.
	Ctx context.Context
	// BoundMemory sets the memory limit of muster run; may be nil. Other commands, such as
	// history and simulate, may need more memory than this limit.
	BoundMemory func()
	// Executable is the program's file, which builds templates as a separate process; if empty,
	// this process builds them.
	Executable string
}

// execute runs the command line and returns the exit code.
func (p Program) execute(ctx context.Context, commands Commands) int {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	p.Ctx = ctx
	if p.Screen.Progress {
		p.Progress = output.NewProgress(p.Stderr, time.Now)
		defer p.Progress.Done()
		p.Stderr = p.Progress
	}
	stdout := &standardOutput{ctx: ctx, to: p.Stdout, report: fail}
	p.Stdout = &output.Printable{To: stdout}
	p.Stderr = &output.Printable{To: p.Stderr}
	root := commands.Root(p)
	root.SetArgs(p.Args)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	completionCommand(root)
	err := p.Environment(root)
	if err == nil {
		var c *cobra.Command
		c, err = root.ExecuteContextC(ctx)
		var unwritten outputError
		var own Interruption
		switch {
		case errors.As(context.Cause(ctx), &unwritten):
			err = unwritten
		case stdout.cut.Load() && !errors.As(err, &own):
			err = interrupted(commands.Unfinished[c.Name()], ctx.Err())
		case ctx.Err() != nil && err != nil && !errors.Is(err, ErrChanges):
			err = interrupted(commands.Unfinished[c.Name()], err)
		}
	}
	p.Progress.Done()
	if err != nil && !errors.Is(err, ErrChanges) {
		p.printError(strings.TrimSpace(output.Text(err)))
	}
	return ExitCode(err)
}

// EndedText is the log message of an error that ends run.
const EndedText = "the process ends with an error"

// printError prints the error that ends the program: as a log record if the log is JSON, otherwise
// as text.
func (p Program) printError(text string) {
	if p.logsJSON() {
		slog.New(jsonLog(p.Stderr, slog.LevelError)).Error(EndedText, "err", strings.ReplaceAll(text, LineStart, "\n"))
		return
	}
	p.PrintMessage("%s", text)
}

// Name returns the name of the program; muster by default.
func (p Program) Name() string { return cmp.Or(p.name, "muster") }

// PrintMessage prints a line on standard error.
func (p Program) PrintMessage(format string, args ...any) {
	fmt.Fprintf(p.Stderr, p.Name()+": "+format+"\n", args...)
}

// logsJSON reports whether this is run with a log in JSON. The command line may be invalid.
func (p Program) logsJSON() bool {
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.ParseErrorsAllowlist.UnknownFlags = true
	format := f.String("log-format", p.Variable(Prefix+"LOG_FORMAT"), "")
	_ = f.Parse(p.Args)
	return f.Arg(0) == "run" && *format == "json"
}

// Commands are the commands of a program.
type Commands struct {
	// Name is that of the program.
	Name string
	// Root returns the root command of an invocation.
	Root func(Program) *cobra.Command
	// Unfinished maps the name of a command to a description of its incomplete work if a signal ends it.
	Unfinished map[string]string
}

// NewRoot adds commands to a root command, and what all programs have.
func NewRoot(root *cobra.Command, groups ...CommandGroup) *cobra.Command {
	root.SilenceErrors, root.SilenceUsage, root.SuggestionsMinimumDistance = true, true, 2
	root.Args = unknownCommand
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return output.Usage(refusePipes(cmd.Flags())) }
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.Heading, Title: g.Heading})
		for _, c := range g.Commands {
			c.GroupID = g.Heading
			root.AddCommand(c)
		}
	}
	root.SetCompletionCommandGroupID(groups[len(groups)-1].Heading)
	addHelp(root)
	for _, c := range root.Commands() {
		check := c.Args
		if check == nil {
			check = cobra.ArbitraryArgs
		}
		c.Args = func(cmd *cobra.Command, args []string) error { return output.Usage(check(cmd, args)) }
	}
	return root
}

// ErrChanges selects ExitChanges.
var ErrChanges = errors.New("there are changes")

// ExitCode returns the exit code of an error of a command.
func ExitCode(err error) int {
	var mistake output.UsageError
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrChanges):
		return ExitChanges
	case errors.As(err, &mistake), errors.Is(err, fs.ErrNotExist):
		return ExitUsage
	case errors.Is(err, generator.ErrConflicts), errors.Is(err, branch.ErrMoved):
		return ExitConflicts
	}
	return ExitOutside
}

// IsTerminal reports whether a file is a character device other than the null device.
func IsTerminal(f *os.File) bool {
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
	return SleepUntilSignal(nil)(ctx, d)
}

// SleepUntilSignal returns a function that sleeps for d, until a signal, or until the context ends.
func SleepUntilSignal(signals <-chan os.Signal) func(ctx context.Context, d time.Duration) error {
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

// Map returns the results of a function for the elements of a slice.
func Map[T, U any](all []T, result func(T) U) []U {
	var results []U
	for _, x := range all {
		results = append(results, result(x))
	}
	return results
}

// screen describes where the output goes. The zero value is not a terminal.
type screen struct {
	// Terminal and Progress report whether standard output and standard error are terminals.
	Terminal, Progress bool
}

// Output returns the output of commands, with colours if NO_COLOR (no-color.org) and the
// terminal allow them.
func (p Program) Output() output.Output {
	var raw io.Writer = p.Stdout
	if clean, ok := p.Stdout.(*output.Printable); ok {
		raw = clean.To
	}
	return output.Output{
		Text: p.Stdout, Raw: raw,
		Colour: p.Screen.Terminal && p.Variable("NO_COLOR") == "" && p.Variable("TERM") != "dumb",
	}
}

// DoneOnTerminal removes the progress line if standard output is a terminal.
func (p Program) DoneOnTerminal() {
	if p.Screen.Terminal {
		p.Progress.Done()
	}
}

// ShellWord quotes a word for a shell, if necessary.
func ShellWord(text string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("/._-+:@%", c)
	}
	if text != "" && strings.IndexFunc(text, func(c rune) bool { return !plain(c) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
