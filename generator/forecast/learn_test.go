package forecast

import (
	"math/rand/v2"
	"testing"
	"time"

	"muster/gitops/unraced"
)

// TestLearnedInParts: what is learned is the same, however it is cut into commits: a
// restart with the state in git goes on as if there had been none.
func TestLearnedInParts(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := Count{From: monday()}
		for range 3 * 24 * 60 {
			n := 0
			if r.IntN(4) == 0 {
				n = r.IntN(50)
			}
			c.Jobs = append(c.Jobs, n)
		}
		end := monday().AddDate(0, 0, 3)
		whole, parts := Profile{}.After(c, end), Profile{}
		for at := monday(); at.Before(end); {
			at = at.Add(time.Duration(r.Int64N(int64(3 * time.Hour))))
			if at.After(end) {
				at = end
			}
			from := c.From
			if r.IntN(2) == 0 && !parts.Until.IsZero() { // what is in git already need not be counted
				from = parts.Until
			}
			parts = parts.After(Count{From: from, Jobs: c.Jobs[int(from.Sub(c.From)/time.Minute):]}, at)
		}
		if !whole.Equal(parts) {
			t.Errorf("seed %d: at once %+v\nin parts %+v", seed, whole, parts)
		}
	}
}

// TestLearnedBounded: whatever comes, a profile stays valid, small, and what it is as text.
func TestLearnedBounded(t *testing.T) {
	unraced.Only(t)
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 2))
		var p Profile
		at := monday()
		for range 40 {
			c := Count{From: at.Add(time.Duration(r.Int64N(int64(30 * time.Hour))))}
			for range r.IntN(2000) {
				c.Jobs = append(c.Jobs, r.IntN(1<<r.IntN(31)))
			}
			at = c.From.Add(time.Duration(r.Int64N(int64(50 * time.Hour))))
			p = p.After(c, at)
			if !p.Valid() {
				t.Fatalf("seed %d: invalid: %+v", seed, p)
			}
			if got := p.After(Count{}, at.Add(time.Hour)); !got.Equal(p) {
				t.Fatalf("seed %d: learned from nothing", seed)
			}
			f := keeps(p, at, ordinary())
			if f.Keep < 0 {
				t.Fatalf("seed %d: %+v", seed, f)
			}
		}
		for _, s := range []Series{p.Workday, p.Weekend, p.Minutes, p.Spread, p.Lately} {
			var again Series
			if err := again.UnmarshalText([]byte(s.String())); err != nil || !again.equal(s) {
				t.Errorf("%q is read as %q, %v", s, again, err)
			}
		}
	}
}

// TestLearnedSize: the profile of an ordinary queue is some two KB of text, three where jobs come all day, every day.
func TestLearnedSize(t *testing.T) {
	const most = 3000
	for name, jobs := range map[string]func(time.Time, *rand.Rand) int{"steadily": steadily, "hourly": hourly, "office": office} {
		p := learnt(21, jobs)
		n := 0
		for _, s := range []Series{p.Workday, p.Weekend, p.Weekdays, p.Minutes, p.Spread, p.Lately} {
			n += len(s.String())
		}
		if n > most {
			t.Errorf("%s: the profile has %d bytes", name, n)
		}
	}
}

// TestNothingOfGaps: what nobody counted teaches nothing.
func TestNothingOfGaps(t *testing.T) {
	p := learnt(5, steadily)
	q := p.After(Count{From: monday().AddDate(0, 0, 7)}, monday().AddDate(0, 0, 7).Add(time.Minute))
	if !q.Workday.equal(p.Workday) || !q.Weekend.equal(p.Weekend) || q.Workdays != 5 || q.WeekendDays != 0 {
		t.Errorf("a weekend without a look has changed %+v to %+v", p, q)
	}
	if q.Jobs > p.Jobs/2 {
		t.Errorf("of the jobs of the last hour %d of %d thousandths are left after two days", q.Jobs, p.Jobs)
	}
}

// TestSeriesRefused: what is no series is an error, and nothing that is read is large.
func TestSeriesRefused(t *testing.T) {
	for _, text := range []string{"x", "1*", "*1", "-1", "1*0", "1*-2", "1*10081", "9999999999", "1**2", "1.5"} {
		var s Series
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %v", text, s)
		}
	}
}
