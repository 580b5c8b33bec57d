package forecast

import (
	"math/rand/v2"
	"testing"
	"time"
)

// monday is where the profiles of tests begin.
func monday() time.Time { return time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC) }

// learnt is a profile of some days, from Monday on, with jobs as given.
func learnt(days int, jobs func(at time.Time, r *rand.Rand) int) Profile {
	r := rand.New(rand.NewPCG(1, 1))
	var p Profile
	for d := range days {
		c := Count{From: monday().AddDate(0, 0, d)}
		for i := range 24 * 60 {
			c.Jobs = append(c.Jobs, jobs(c.From.Add(time.Duration(i)*time.Minute), r))
		}
		p = p.After(c, c.From.AddDate(0, 0, 1))
	}
	return p
}

// steadily is three and a third jobs a minute.
func steadily(_ time.Time, r *rand.Rand) int {
	n := 0
	for range 30 {
		n += r.IntN(9) / 8
	}
	return n
}

// hourly is sixty jobs on the hour and ten each quarter.
func hourly(at time.Time, _ *rand.Rand) int {
	switch {
	case at.Minute() == 0:
		return 60
	case at.Minute()%15 == 0:
		return 10
	}
	return 0
}

// office is steadily, from nine to six on workdays.
func office(at time.Time, r *rand.Rand) int {
	if at.Hour() < 9 || at.Hour() >= 18 || at.Weekday() == time.Saturday || at.Weekday() == time.Sunday {
		return 0
	}
	return steadily(at, r)
}

func ordinary() Aim {
	return Aim{Wait: 10 * time.Second, Share: 0.95, IdleHours: 40, Lead: 90 * time.Second}
}

// keeps is how many agents are kept at a time, with nothing counted since the profile.
func keeps(p Profile, at time.Time, aim Aim) Forecast {
	return p.Planned(at, aim).For(at, aim, Count{}).At(at, 0)
}

// TestPulse: the agents for a pulse are kept as soon as agents that are dispatched then come
// with it, and no longer once it has come.
func TestPulse(t *testing.T) {
	p := learnt(5, hourly)
	ten := monday().AddDate(0, 0, 4).Add(24*time.Hour + 58*time.Hour) // Monday, as if the weekend were not known
	p.Until = ten.Truncate(time.Hour)
	for i := range p.Lately {
		p.Lately[i] = hourly(p.Until.Add(time.Duration(i-lately)*time.Minute), nil)
	}
	hour := ten.Truncate(time.Hour)
	for _, c := range []struct {
		before      time.Duration
		least, most int
	}{{10 * time.Minute, 0, 0}, {3 * time.Minute, 0, 0}, {75 * time.Second, 55, 65}, {5 * time.Second, 55, 65}} {
		if got := keeps(p, hour.Add(-c.before), ordinary()).Keep; got < c.least || got > c.most {
			t.Errorf("%s before a pulse of 60 jobs %d agents are kept, want %d to %d", c.before, got, c.least, c.most)
		}
	}
	after := hour.Add(5 * time.Second)
	f := p.Planned(after, ordinary()).For(after, ordinary(), Count{From: hour, Jobs: Series{60}}).At(after, 0)
	if f.Keep > 2 {
		t.Errorf("when the pulse has come %d agents are kept", f.Keep)
	}
	order := hour.Add(-75 * time.Second)
	if wanted := p.Planned(order, ordinary()).For(order, ordinary(), Count{}).Wanted(order, 55, time.Hour); wanted > 4*time.Minute {
		t.Errorf("the agents for a pulse are wanted for %s", wanted)
	}
}

// TestFirstDay: nothing is forecast before a day of the kind was seen.
func TestFirstDay(t *testing.T) {
	p := learnt(1, steadily)
	if got := keeps(p, monday().Add(34*time.Hour), ordinary()); got.Keep == 0 || got.Days != 1 {
		t.Errorf("after a workday: %+v", got)
	}
	if got := keeps(p, monday().AddDate(0, 0, 5).Add(10*time.Hour), ordinary()); got.Keep != 0 || got.Days != 0 {
		t.Errorf("on the first Saturday: %+v", got)
	}
	r := rand.New(rand.NewPCG(1, 1))
	c := Count{From: monday()}
	for range 12 * 60 {
		c.Jobs = append(c.Jobs, steadily(monday(), r))
	}
	noon := monday().Add(12 * time.Hour)
	if got := keeps(Profile{}.After(c, noon), noon, ordinary()); got.Keep != 0 {
		t.Errorf("on the first day: %+v", got)
	}
}

// TestQuietDays: where jobs stay away, as on a holiday, the buffer goes within hours, and
// after some such days the profile has forgotten them.
func TestQuietDays(t *testing.T) {
	p := learnt(12, office)
	if got := keeps(p, monday().AddDate(0, 0, 12).Add(10*time.Hour), ordinary()); got.Keep != 0 {
		t.Errorf("on a Saturday, after one without jobs: %+v", got)
	}
	holiday := monday().AddDate(0, 0, 14)
	for _, c := range []struct{ hour, least, most int }{{8, 0, 0}, {9, 3, 8}, {15, 0, 0}} {
		at := holiday.Add(time.Duration(c.hour)*time.Hour + time.Minute)
		q := p.After(Count{From: p.Until}, at)
		if got := keeps(q, at, ordinary()).Keep; got < c.least || got > c.most {
			t.Errorf("at %d on a workday without jobs %d agents are kept, want %d to %d", c.hour, got, c.least, c.most)
		}
	}
	p = p.After(Count{From: p.Until}, p.Until.AddDate(0, 0, 6))
	for range 9 {
		p = p.After(Count{From: p.Until}, p.Until.AddDate(0, 0, 6))
	}
	if n := p.Workday.sum(0, daySlots); n > 0 {
		t.Errorf("after two months without jobs the profile has %d tenths of them a day", n)
	}
}

// TestBounds: the plan keeps to both bounds: no more than the share of the jobs asks for,
// and no more hours than may be spent.
func TestBounds(t *testing.T) {
	p := learnt(5, steadily)
	at := monday().AddDate(0, 0, 7).Add(10 * time.Hour)
	before := 0
	for _, hours := range []int{1, 2, 5, 10, 20, 40, 80, 160, 1000} {
		aim := ordinary()
		aim.IdleHours = hours
		f := keeps(p, at, aim)
		if f.IdleHours > float64(hours) {
			t.Errorf("%d hours may be spent, and %.1f are", hours, f.IdleHours)
		}
		if f.Keep < before {
			t.Errorf("with %d hours %d agents are kept, with fewer %d", hours, f.Keep, before)
		}
		before = f.Keep
	}
	for _, share := range []float64{0.1, 0.5, 0.8, 0.95, 0.99} {
		aim := Aim{Wait: 10 * time.Second, Share: share, IdleHours: 10_000, Lead: 90 * time.Second}
		q := p.Planned(at, aim)
		if got := float64(q.Plan.Share) / 1000; got < share-0.001 {
			t.Errorf("%.2f of the jobs are to find an agent, and %.3f do", share, got)
		}
		q.Plan.Worth++
		if got, _ := p.day(at, aim, 0).with(q.Plan.Worth); got >= share {
			t.Errorf("a share of %.2f is reached with agents that are worth more", share)
		}
	}
	long := ordinary()
	long.Wait = 2 * time.Minute
	if got := keeps(p, at, long).Keep; got != 0 {
		t.Errorf("where jobs may wait for a boot, %d agents are kept", got)
	}
}

// TestFreed: agents that stay and become free are not kept twice.
func TestFreed(t *testing.T) {
	p := learnt(5, steadily)
	at := monday().AddDate(0, 0, 5)
	aim := ordinary()
	q := p.Planned(at.Add(-time.Hour), aim)
	none, all := q.For(at.Add(-time.Minute), aim, Count{}).At(at.Add(-time.Minute), 0), q.For(at.Add(-time.Minute), aim, Count{}).At(at.Add(-time.Minute), 50)
	if none.Keep < 3 || all.Free < 2 || all.Keep != max(0, none.Keep-all.Free) {
		t.Errorf("without agents that stay %+v, with 50 of them %+v", none, all)
	}
}

// TestSpent: a day's idle hours are its own. Once agents have waited for that long, nothing
// is kept until midnight, in UTC; and while they wait longer than was expected, less is
// kept on the rest of the day.
func TestSpent(t *testing.T) {
	aim := Aim{Wait: 10 * time.Second, Share: 0.99, IdleHours: 20, Lead: 90 * time.Second}
	midnight := monday().AddDate(0, 0, 7)
	after := func(hours, idle int) (Profile, time.Time) {
		p := learnt(5, steadily)
		at := midnight.Add(time.Duration(hours) * time.Hour)
		c := Count{From: midnight}
		r := rand.New(rand.NewPCG(2, 2))
		for i := range hours * 60 {
			c.Jobs = append(c.Jobs, steadily(midnight.Add(time.Duration(i)*time.Minute), r))
			c.Idle = append(c.Idle, idle)
		}
		return p.After(c, at), at
	}
	p, at := after(12, 0)
	saved := keeps(p, at, aim).Keep
	p, at = after(12, 1)
	some := keeps(p, at, aim)
	if p.Idle != 12*60 || some.Keep == 0 || some.Keep >= saved {
		t.Errorf("after %d minutes of waiting %d agents are kept, and %d after none", p.Idle, some.Keep, saved)
	}
	if some.IdleHours < 12 || some.IdleHours > 20 {
		t.Errorf("agents are to wait %v hours today, of which 12 are over, and 20 are the most", some.IdleHours)
	}
	p, at = after(12, 2)
	if f := keeps(p, at, aim); f.Keep != 0 || !f.Spent || f.IdleHours != 24 {
		t.Errorf("%d agents are kept when 24 of 20 hours are spent", f.Keep)
	}
	p, at = after(24, 2)
	if f := keeps(p, at, aim); p.Idle != 0 || f.Keep == 0 {
		t.Errorf("the next day begins with %d minutes of waiting and keeps %d agents", p.Idle, f.Keep)
	}
}

// TestFewJobs: where few jobs come, no five minutes of the day tell apart from those around,
// and are not learned as if they did; a pulse is not spread over those around.
func TestFewJobs(t *testing.T) {
	rare := func(_ time.Time, r *rand.Rand) int { return r.IntN(10) / 9 } // one in ten minutes
	p := learnt(5, rare)
	const come = 500 // thousandths in five minutes
	off := func(n int) int {
		if n < come/2 || n > come*2 {
			return 1
		}
		return 0
	}
	learned, seen := 0, 0
	for i := range daySlots {
		learned, seen = learned+off(p.Workday.smooth(i, 5)), seen+off(100*p.Workday.at(i))
	}
	if 10*learned > seen {
		t.Errorf("%d five minutes of the day are learned as twice or half as busy as they are, by chance %d were", learned, seen)
	}
	pulses := learnt(5, hourly)
	for minute, want := range map[int]int{59: 60000, 7: 0} {
		at := monday().AddDate(0, 0, 7).Add(10*time.Hour + time.Duration(minute+1)*time.Minute)
		if got := pulses.expected(at); got < want*9/10 || got > max(want*11/10, 500) {
			t.Errorf("%d thousandths of jobs are expected at %s, want some %d: a pulse is not spread over the minutes around", got, at.Format("15:04"), want)
		}
	}
}
