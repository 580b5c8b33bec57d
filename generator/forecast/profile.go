package forecast

import "time"

// Sizes of what is learned.
const (
	slotMinutes = 5
	daySlots    = 24 * 60 / slotMinutes
	hourMinutes = 60
	weekdays    = 7
	lately      = 15 // minutes
)

// Profile is what is learned of the arrivals of one overlay's jobs. The zero value has
// learned nothing. It is some 2 KB of text at most for an ordinary queue.
type Profile struct {
	// Until is the minute before which arrivals are counted; zero: none are.
	Until time.Time
	// Workdays and WeekendDays are how many days were seen for the most part, at most 99.
	Workdays, WeekendDays int
	// Workday and Weekend are tenths of jobs that come in each five minutes of the day, in
	// UTC: averages in which a day counts for a fifth, and the days before it ever less.
	Workday, Weekend Series
	// Weekdays are a hundredth more or less than their kind of day has, from Sunday on: 100
	// is as many, and 0 that it is not known.
	Weekdays Series
	// Minutes are tenths of jobs that came in each minute of the hour, and Spread tenths of
	// the squares of what was not expected of them; each hour before counts 1/48 less.
	Minutes, Spread Series
	// Lately are the jobs of the last 15 minutes before Until, oldest first.
	Lately Series
	// Jobs and Expected are thousandths of jobs that came lately and that were expected;
	// each minute before counts 1/60 less.
	Jobs, Expected int
	// Slot and Day are the five minutes and the day that are under way.
	Slot, Day Part
	// Idle are the minutes that agents waited for jobs on the day that is under way, all
	// together.
	Idle int
	// Plan is how much an agent has to be worth, as it was worked out for an hour.
	Plan Plan
}

// Plan says when an agent is kept. The zero value keeps none.
type Plan struct {
	// Hour is the hour in which it was made; an edit of the policy is part of the next.
	Hour time.Time
	// Worth is with how many thousandths of probability the last agent that is kept has to
	// be needed, on the whole day. Share is how many thousandths of an average day's jobs
	// find an agent then, and IdleHours the tenths of hours that agents wait for jobs today:
	// those that they did, and those to come.
	Worth, Share, IdleHours int
}

func (p Plan) equal(o Plan) bool {
	return p.Hour.Equal(o.Hour) && p.Worth == o.Worth && p.Share == o.Share && p.IdleHours == o.IdleHours
}

// Part is a stretch of time of which a part has been seen.
type Part struct {
	// Minutes are those seen, Jobs those that came in them, and Expected thousandths of
	// jobs that an average day of the kind has in them.
	Minutes, Jobs, Expected int
}

// IsZero reports whether nothing was learned.
func (p Profile) IsZero() bool { return p.Equal(Profile{}) }

// Equal reports whether two profiles say the same.
func (p Profile) Equal(o Profile) bool {
	return p.Until.Equal(o.Until) && p.Workdays == o.Workdays && p.WeekendDays == o.WeekendDays &&
		p.Workday.equal(o.Workday) && p.Weekend.equal(o.Weekend) && p.Weekdays.equal(o.Weekdays) &&
		p.Minutes.equal(o.Minutes) && p.Spread.equal(o.Spread) && p.Lately.equal(o.Lately) &&
		p.Jobs == o.Jobs && p.Expected == o.Expected && p.Slot == o.Slot && p.Day == o.Day && p.Idle == o.Idle && p.Plan.equal(o.Plan)
}

// clone is a copy of full size, that shares nothing.
func (p Profile) clone() Profile {
	p.Workday, p.Weekend = p.Workday.sized(daySlots), p.Weekend.sized(daySlots)
	p.Minutes, p.Spread = p.Minutes.sized(hourMinutes), p.Spread.sized(hourMinutes)
	p.Weekdays, p.Lately = p.Weekdays.sized(weekdays), p.Lately.sized(lately)
	return p
}

// kind is the day's: its slots, and how many of its kind were seen.
func (p *Profile) kind(at time.Time) (slots *Series, days *int) {
	if d := at.Weekday(); d == time.Saturday || d == time.Sunday {
		return &p.Weekend, &p.WeekendDays
	}
	return &p.Workday, &p.Workdays
}

// Days is how many days of the kind of at were seen for the most part.
func (p Profile) Days(at time.Time) int {
	_, days := p.kind(at.UTC())
	return *days
}

// average is how many thousandths of jobs come in a minute on an average day of its kind.
func (p *Profile) average(at time.Time) int {
	slots, days := p.kind(at)
	minute := at.Minute()
	first := minute - minute%slotMinutes
	const even = 5 // tenths of a job: where little came, all minutes are alike
	return slots.smooth(slot(at), min(*days, fullDays)) * (p.Minutes.at(minute) + even) / (p.Minutes.sum(first, first+slotMinutes) + slotMinutes*even)
}

// expected is how many thousandths of jobs come in a minute, by the time alone.
func (p *Profile) expected(at time.Time) int {
	level := p.Weekdays.at(int(at.Weekday()))
	if level == 0 {
		level = 100
	}
	return p.average(at) * level / 100
}

// slot is which five minutes of the day a time is in.
func slot(at time.Time) int { return (at.Hour()*60 + at.Minute()) / slotMinutes }

// smooth is how many thousandths of jobs come in five minutes of the day: where days had few
// then, it is the average of those around that are alike, as far as chance goes, until they
// had enough together to tell.
func (s Series) smooth(i, days int) int {
	const enough, widest = 16, 12 // jobs; five minutes to each side
	days = max(days, 1)
	sum, n := s.at(i), 1
	for left, right, d := true, true, 1; d <= widest && sum*days < 10*enough && (left || right); d++ {
		if left = left && s.alike(sum/n, i-d, days); left {
			sum, n = sum+s.at(i-d), n+1
		}
		if right = right && s.alike(sum/n, i+d, days); right {
			sum, n = sum+s.at(i+d), n+1
		}
	}
	return 100 * sum / n
}

// alike reports whether number i, tenths of what some days had on average, may differ from
// a mean by chance: by at most three times the root of what both come to.
func (s Series) alike(mean, i, days int) bool {
	if i < 0 || i >= daySlots {
		return false
	}
	off, both := (s.at(i)-mean)*days, (s.at(i)+mean)*days
	return off*off <= 9*10*(both+10)
}
