package invocation

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"muster/cmd/output"

	"github.com/spf13/pflag"
)

// daysPattern matches the weeks and days of a duration, which Go does not parse, and the rest.
var daysPattern = regexp.MustCompile(`^(-?)(?:([0-9]{1,4})w)?(?:([0-9]{1,5})d)?([0-9.].*)?$`)

// longestDuration is the longest duration that is accepted.
const longestDuration = 100_000 * 24 * time.Hour

// ReadDuration parses a duration as Go does, also with weeks and days: 90m, 1h30m, 2d, 1w, 1d12h.
func ReadDuration(text string) (time.Duration, bool) {
	m := daysPattern.FindStringSubmatch(text)
	if m == nil || m[2]+m[3]+m[4] == "" {
		return 0, false
	}
	weeks, _ := strconv.Atoi(m[2])
	days, _ := strconv.Atoi(m[3])
	d, err := time.Duration(7*weeks+days)*24*time.Hour, error(nil)
	if m[4] != "" {
		var rest time.Duration
		if rest, err = time.ParseDuration(m[4]); rest > longestDuration-d {
			return 0, false
		}
		d += rest
	}
	if m[1] != "" {
		d = -d
	}
	return d, err == nil && d <= longestDuration
}

// ShortDuration returns a duration as users write it, as in 7d, 90m or 1h30m.
func ShortDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d != 0 && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// durationValue is a flag with a duration.
type durationValue time.Duration

func (v *durationValue) Set(text string) error {
	d, ok := ReadDuration(text)
	if !ok {
		return errors.New("invalid duration")
	}
	*v = durationValue(d)
	return nil
}

func (v *durationValue) String() string { return ShortDuration(time.Duration(*v)) }

func (*durationValue) Type() string { return "duration" }

// DurationVar adds a flag with a duration.
func DurationVar(f *pflag.FlagSet, d *time.Duration, name string, value time.Duration, usage string) {
	*d = value
	f.Var((*durationValue)(d), name, usage)
}

// Moment parses a past time, or a duration before now; zero for an empty text. The default zone is
// UTC. Of a clock, such as 09:40, it is the last time.
//
// The zero time is not accepted, because callers take it for an absent flag.
func Moment(flag, text string, now time.Time) (time.Time, error) {
	now = now.UTC()
	if text == "" {
		return time.Time{}, nil
	}
	at, ok := readTime(text, now)
	if d, duration := ReadDuration(text); duration && d >= 0 {
		at, ok = now.Add(-d), true
	} else if ok && isClock(text) && at.After(now) {
		at = at.AddDate(0, 0, -1)
	}
	if !ok || at.IsZero() {
		return at, output.Usage(fmt.Errorf("--%s: %q is neither a time, as in 2026-11-21T02:15Z, 2026-11-21 or 09:40, nor how long ago, as in 90m, 24h or 7d", flag, text))
	}
	if flag == "since" && !at.Before(now) {
		return at, output.Usage(fmt.Errorf("--since %s: must be in the past", text))
	}
	return at, nil
}

// Moment is the function Moment at the time of the clock. It prints the time that a text such as 7d means.
func (p Program) Moment(flag, text string) (time.Time, error) {
	at, err := Moment(flag, text, p.Clock.Now())
	if _, absolute := readTime(text, at); err == nil && text != "" && (!absolute || isClock(text)) {
		p.PrintMessage("--%s %s: %s", flag, text, at.Format(time.RFC3339))
	}
	return at, err
}

// End parses the time at which a change ends: the text of --for, which is a duration from now, or of --until,
// which is a future time. Of a clock, such as 18:00, it is the next time. The default zone is UTC.
func End(flag, text string, now time.Time) (time.Time, error) {
	now = now.UTC().Truncate(time.Second)
	last, duration := ReadDuration(text)
	at, ok := readTime(text, now)
	if ok && isClock(text) && !now.Before(at) {
		at = at.AddDate(0, 0, 1)
	}
	err := error(nil)
	switch {
	case text == "":
		err = fmt.Errorf("--%s is empty: is a variable of the shell not set?", flag)
	case flag == "for" && ok:
		err = fmt.Errorf("--for %s: is a time: use --until %[1]s", text)
	case flag == "for" && !duration:
		err = fmt.Errorf("--for: %q is not %s", text, Expected("duration"))
	case flag == "for" && last < time.Second:
		err = fmt.Errorf("--for %s: must be a second or more; without --for and --until the change is permanent", text)
	case flag == "for":
		return now.Add(last).Truncate(time.Second), nil
	case duration && last > 0:
		err = fmt.Errorf("--until %s: is a duration: use --for %[1]s", text)
	case !ok:
		err = fmt.Errorf("--until: %q is not a time, as in 2026-11-21T18:00Z, 18:00 or \"tomorrow 09:00\", in UTC", text)
	case !now.Before(at):
		err = fmt.Errorf("--until %s is in the past: it is %s", text, now.Format(time.RFC3339))
	}
	return at, output.Usage(err)
}

// isClock reports whether a text is a time without a date.
func isClock(text string) bool {
	_, err := time.Parse("15:04", text)
	return err == nil
}

// readTime parses a time. The default zone is UTC. A time without a date is that of today; yesterday, today and
// tomorrow are dates.
func readTime(text string, now time.Time) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	day, clock, both := strings.Cut(text, " ")
	offset, named := map[string]int{"yesterday": -1, "today": 0, "tomorrow": 1}[day]
	switch {
	case !named && both:
		return time.Time{}, false
	case !named:
		clock = day
	}
	at := now.Truncate(24*time.Hour).AddDate(0, 0, offset)
	if named && !both {
		return at, true
	}
	minutes, err := time.Parse("15:04", clock)
	return at.Add(time.Duration(minutes.Hour())*time.Hour + time.Duration(minutes.Minute())*time.Minute), err == nil
}
