package invocation

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// TestEnd asserts how --for and --until are read, and what is refused.
func TestEnd(t *testing.T) {
	now := time.Date(2026, 11, 21, 14, 15, 0, 5, time.FixedZone("", 3600))
	for _, test := range []struct{ flag, text, want string }{
		{"for", "2d", "2026-11-23T13:15:00Z"},
		{"for", "1w1d12h", "2026-11-30T01:15:00Z"},
		{"for", "90m", "2026-11-21T14:45:00Z"},
		{"for", "1s", "2026-11-21T13:15:01Z"},
		{"until", "18:00", "2026-11-21T18:00:00Z"},
		{"until", "13:15", "2026-11-22T13:15:00Z"},
		{"until", "09:00", "2026-11-22T09:00:00Z"},
		{"until", "tomorrow", "2026-11-22T00:00:00Z"},
		{"until", "tomorrow 09:00", "2026-11-22T09:00:00Z"},
		{"until", "today 18:00", "2026-11-21T18:00:00Z"},
		{"until", "2026-11-22", "2026-11-22T00:00:00Z"},
		{"until", "2026-11-22T00:00:00+01:00", "2026-11-21T23:00:00Z"},

		{"for", "", "--for is empty"},
		{"for", "0s", "--for 0s: must be a second or more"},
		{"for", "0d", "--for 0d: must be a second or more"},
		{"for", "-2d", "--for -2d: must be a second or more"},
		{"for", "2", `--for: "2" is not a duration, as in 15s, 90m or 2d`},
		{"for", "2 days", `--for: "2 days" is not a duration`},
		{"for", "99999999d", `--for: "99999999d" is not a duration`},
		{"for", "18:00", "--for 18:00: is a time: use --until 18:00"},
		{"until", "2h", "--until 2h: is a duration: use --for 2h"},
		{"until", "now", `--until: "now" is not a time`},
		{"until", "25:00", `--until: "25:00" is not a time`},
		{"until", "today", "--until today is in the past: it is 2026-11-21T13:15:00Z"},
		{"until", "yesterday 18:00", "--until yesterday 18:00 is in the past"},
		{"until", "2026-11-21T14:15:00+01:00", "is in the past"},
	} {
		at, err := End(test.flag, test.text, now)
		got := at.UTC().Format(time.RFC3339)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("--%s %q: %s, want %s", test.flag, test.text, got, test.want)
		}
	}
}

// TestDurationVar asserts that flags take days, and that their help shows their defaults.
func TestDurationVar(t *testing.T) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	var d time.Duration
	DurationVar(f, &d, "interval", 15*time.Second, "time")
	if usage := f.FlagUsages(); d != 15*time.Second || !strings.Contains(usage, "--interval duration   time (default 15s)") {
		t.Errorf("%s, %q", d, usage)
	}
	for text, want := range map[string]time.Duration{"2d": 48 * time.Hour, "1d6h": 30 * time.Hour, "-1s": -time.Second, "0": 0, ".5h": 30 * time.Minute} {
		if err := f.Parse([]string{"--interval=" + text}); err != nil || d != want {
			t.Errorf("%s is %s, %v; want %s", text, d, err, want)
		}
	}
	for _, text := range []string{"", "-", "d", "1", "1d-1h", "--1h", "9999999h", "99999d9999h", "18:00"} {
		if err := f.Parse([]string{"--interval=" + text}); err == nil {
			t.Errorf("%q is %s", text, d)
		}
	}
}
