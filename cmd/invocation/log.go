package invocation

import (
	"fmt"
	"io"
	"log/slog"

	"muster/cmd/output"

	"github.com/spf13/cobra"
)

// LineStart separates the lines of an error.
const LineStart = "\nmuster: "

// AddLog adds the flags of the log.
func (s *Repository) AddLog(c *cobra.Command) {
	c.Flags().StringVar(&s.logFormat, "log-format", "text", "text or json")
	c.Flags().StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
}

// Logger returns the logger, which writes to standard error.
func (s *Repository) Logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		return nil, output.Usage(fmt.Errorf("--log-level %q: use debug, info, warn or error", s.logLevel))
	}
	switch s.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(s.Program.Stderr, &slog.HandlerOptions{Level: level})), nil
	case "json":
		return slog.New(jsonLog(s.Program.Stderr, level)), nil
	}
	return nil, output.Usage(fmt.Errorf("--log-format %q: use text or json", s.logFormat))
}

// jsonLog returns a handler for JSON, with durations in seconds.
func jsonLog(w io.Writer, level slog.Level) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.Float64Value(a.Value.Duration().Seconds())
		}
		return a
	}})
}
