package forecast

import "time"

// Planned is the profile with the plan of the hour: the highest probability with which Share
// of an average week's jobs find an agent, and not below that with which agents wait, on
// the rest of a day like this, for what is left of today's IdleHours. So an hour of waiting
// is worth the same on every day, and few are spent on a quiet one.
func (p Profile) Planned(now time.Time, aim Aim) Profile {
	now = now.UTC()
	hour := now.Truncate(time.Hour)
	if p.Plan.Hour.Equal(hour) {
		return p
	}
	p.Plan = Plan{Hour: hour}
	if aim.Lead <= aim.Wait || p.Days(now) == 0 {
		return p
	}
	today, rest := p.day(now, aim, 0), p.day(now, aim, 60*now.Hour())
	week := today.times(daysOf(now))
	for at, day := now, time.Duration(1); day < weekdays && daysOf(at) == daysOf(now); day++ { // to the other kind
		if at = now.Add(24 * day * time.Hour); daysOf(at) != daysOf(now) && p.Days(at) > 0 {
			week = week.and(p.day(at, aim, 0).times(daysOf(at)))
		}
	}
	p.Plan.choose(rest, week, aim, p.idleHours())
	share, _ := today.with(p.Plan.Worth)
	p.Plan.Share = int(float64(share * 1000))
	return p
}

// daysOf is how many days of a week are of the kind of a time.
func daysOf(at time.Time) int {
	if d := at.Weekday(); d == time.Saturday || d == time.Sunday {
		return 2
	}
	return 5
}

// idleHours are those that agents waited for jobs today.
func (p *Profile) idleHours() float64 { return float64(p.Idle) / 60 }

// choose finds the probability that suits a week, and the rest of a day of it of whose idle
// hours some are spent.
func (p *Plan) choose(rest, week day, aim Aim, spent float64) {
	left := float64(aim.IdleHours) - spent
	low, high := 1, 1000 // too many or enough are kept, or it cannot be lower; too few
	for high-low > 1 {
		worth := (low + high) / 2
		if _, idle := rest.with(worth); idle > left {
			low = worth
		} else if share, _ := week.with(worth); share >= aim.Share {
			low = worth
		} else {
			high = worth
		}
	}
	p.Worth = low
	_, idle := rest.with(low)
	if idle > left {
		p.Worth = high
		_, idle = rest.with(high)
	}
	p.IdleHours = int(float64((spent + idle) * 10))
}

// day is an average day, minute by minute, those that are alike together.
type day struct {
	kinds []kindOfMinute
	jobs  float64 // thousandths
}

type kindOfMinute struct {
	arrivals
	minutes int
	jobs    float64 // thousandths that come in all of them
	later   float64 // share of those in the stretch that are awaited for half a minute
	// onTheWay is for how much of the stretch an agent that is dispatched for one that was
	// taken is not there yet.
	onTheWay float64
}

// day is an average day of the kind of a time, from one of its minutes on.
func (p Profile) day(at time.Time, aim Aim, from int) day {
	f := p.For(at, aim, Count{})
	f.read(from, 24*60)
	var d day
	const most = 0.6 // of the lead, which hardly any agent exceeds: how long most take
	onTheWay := min(most*aim.Lead.Seconds()/f.window.Seconds(), 1)
	index := map[[3]int]int{}
	for i := from; i < 24*60; i++ {
		s := f.from(i * 60)
		if s.jobs == 0 {
			continue
		}
		later := 20 * s.later / s.jobs
		key := [3]int{twoDigits(s.jobs), twoDigits(s.batch), later}
		n, known := index[key]
		if !known {
			n = len(d.kinds)
			index[key] = n
			d.kinds = append(d.kinds, kindOfMinute{arrivals: f.chance(s.jobs, s.batch), later: float64(later) / 40, onTheWay: onTheWay})
		}
		d.kinds[n].minutes++
		d.kinds[n].jobs += float64(f.at(i).jobs)
		d.jobs += float64(f.at(i).jobs)
	}
	return d
}

// times is that many such days.
func (d day) times(n int) day {
	all := day{jobs: d.jobs * float64(n)}
	for _, k := range d.kinds {
		k.minutes, k.jobs = k.minutes*n, k.jobs*float64(n)
		all.kinds = append(all.kinds, k)
	}
	return all
}

// and is both together.
func (d day) and(other day) day {
	return day{kinds: append(d.kinds, other.kinds...), jobs: d.jobs + other.jobs}
}

// with is the share of the day's jobs that find an agent, and the hours that agents wait
// for jobs, if an agent has to be needed with so many thousandths of probability.
func (d day) with(worth int) (share, idleHours float64) {
	served, idle := 0.0, 0.0
	for _, k := range d.kinds {
		n := k.keep(worth)
		found := k.serve(n)
		if k.mean > 0 {
			served += float64(found / k.mean * k.jobs)
		}
		waits := float64(n) - float64(found*float64(k.onTheWay*(1-k.later)))
		idle += float64(waits * float64(k.minutes))
	}
	if d.jobs == 0 {
		return 1, 0
	}
	return served / d.jobs, idle / 60
}

// At is how many agents to keep at a time of the day that the plan is for. Busy is how many
// agents that stay have a job: as many as jobs came lately become free again while
// others could come, and are not kept twice.
func (f *Forecaster) At(at time.Time, busy int) Forecast {
	at = at.UTC()
	from := at.Truncate(slotMinutes * time.Minute)
	r := Forecast{From: from, To: from.Add(slotMinutes * time.Minute), Days: f.profile.Days(at), Window: f.window.String()}
	if f.spent && r.Days > 0 {
		r.Spent, r.IdleHours = true, f.profile.idleHours()
		return r
	}
	if f.profile.Plan.Worth == 0 {
		return r
	}
	second := int(at.Sub(f.midnight) / time.Second)
	f.read(second/60-around, second/60+around+1)
	s := f.from(second)
	jobs := (s.jobs - s.pulse + f.stillToCome(second, s)) * f.trend() / 1000
	plan := f.profile.Plan
	r.Jobs, r.Worth, r.Share, r.IdleHours = float64(jobs/10)/100, float64(plan.Worth)/1000, float64(plan.Share)/1000, float64(plan.IdleHours)/10
	r.Free = min(busy, f.profile.Jobs*int(f.window/time.Second)/3600/1000)
	r.Keep = max(f.chance(jobs, s.batch).keep(f.profile.Plan.Worth)-r.Free, 0)
	return r
}

// Wanted is for how long after a time so many agents are kept, by the time alone, in
// whole minutes; at most longest.
func (f *Forecaster) Wanted(at time.Time, agents int, longest time.Duration) time.Duration {
	second := int(at.UTC().Sub(f.midnight) / time.Second)
	f.read(second/60, second/60+int(longest/time.Minute)+around)
	for d := time.Minute; d < longest; d += time.Minute {
		s := f.from(second + int(d/time.Second))
		if f.chance(s.jobs*f.trend()/1000, s.batch).keep(f.profile.Plan.Worth) < agents {
			return d
		}
	}
	return longest
}

// stillToCome is how many thousandths of the pulses of a stretch are to be expected, by what
// has come lately: a pulse that is late is still to come, and one that has come does not
// come again.
func (f *Forecaster) stillToCome(second int, s stretch) int {
	if s.pulse == 0 {
		return 0
	}
	const late = 4 // times as many as usual are expected at most
	minute := second / 60
	past, come, next := 0, 1000*f.coming-f.at(minute).base, 0
	for i := range lately {
		m := f.at(minute - lately + i)
		past += m.jobs - m.base
		come += 1000*f.profile.Lately.at(i) - m.base
		m = f.at(minute + i)
		next += m.jobs - m.base
	}
	if next == 0 {
		return 0
	}
	left := min(max(past+next-max(come, 0), 0), late*next)
	return s.pulse * (1000 * left / next) / 1000
}

// trend is, in thousandths, how many jobs came lately for each that was expected: nothing
// once hardly any come, and two at most.
func (f *Forecaster) trend() int {
	const few = 5000 // thousandths of jobs that say little
	n := int(1000 * int64(f.profile.Jobs+few) / int64(f.profile.Expected+few))
	if n < 100 {
		return 0
	}
	return min(n, 2000)
}
