package leaktest

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
)

// Log returns a log that calls fail for each record with a credential, and passes every record on to
// next, which may be nil. It does not search for control characters and mentions.
func Log(fail func(text string), next *slog.Logger) *slog.Logger {
	next = cmp.Or(next, slog.New(slog.DiscardHandler))
	return slog.New(handler{fail, next.Handler(), nil})
}

type handler struct {
	fail  func(text string)
	next  slog.Handler
	attrs []slog.Attr
}

// Enabled implements [slog.Handler].
func (handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	var text bytes.Buffer
	if err := slog.NewJSONHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug - 1}).WithAttrs(h.attrs).Handle(ctx, r); err != nil {
		return err
	}
	for _, leak := range Leaks(text.String()) {
		h.fail("the log has " + leak + ": " + text.String())
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.fail, h.next.WithAttrs(attrs), append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup implements [slog.Handler]. It ignores the group.
func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.fail, h.next.WithGroup(name), h.attrs}
}
