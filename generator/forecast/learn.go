package forecast

import "time"

// Count are the jobs that came in each minute from a time on. The zero value has counted
// nothing.
type Count struct {
	// From is the first minute that was counted. The time between the end of a profile and
	// it is not known, and teaches nothing.
	From time.Time `json:"from"`
	// Jobs are those of each minute; zeros at the end may be left out.
	Jobs Series `json:"jobs"`
	// Idle are the agents that waited for a job in each minute; zeros at the end may be left
	// out.
	Idle Series `json:"idle"`
}

// longestCount is how far back a count is learned from.
const longestCount = longestSeries * time.Minute

// fullDays is of how many days what is learned of one is an average, about.
const fullDays = 5

// mostDays is how many days are counted.
const mostDays = 99

// mostJobs bounds what one minute can teach.
const mostJobs = 100_000

// After is the profile with what was counted until now: whole minutes are learned. It is
// bounded whatever comes.
func (p Profile) After(c Count, now time.Time) Profile {
	end := now.UTC().Truncate(time.Minute)
	from := c.From.UTC().Truncate(time.Minute)
	if c.From.IsZero() || !from.Before(end) {
		return p
	}
	if early := end.Add(-longestCount); from.Before(early) {
		from = early
	}
	if p.Until.After(from) {
		from = p.Until.UTC()
	}
	if !from.Before(end) {
		return p
	}
	p = p.clone()
	if !p.Until.Equal(from) {
		p.skip(from)
	}
	first := c.From.UTC().Truncate(time.Minute)
	for at := from; at.Before(end); at = at.Add(time.Minute) {
		i := int(at.Sub(first) / time.Minute)
		p.Idle = min(p.Idle+min(c.Idle.at(i), mostJobs), largestNumber)
		p.learn(at, min(c.Jobs.at(i), mostJobs))
	}
	p.Until = end
	return p
}

// skip goes on at a later minute: what was between is not known.
func (p *Profile) skip(to time.Time) {
	if !p.Until.IsZero() {
		for range min(int(to.Sub(p.Until)/time.Minute), 24*60) {
			p.Jobs, p.Expected = faded(p.Jobs), faded(p.Expected)
			p.Lately = append(p.Lately[1:], 0)
		}
		if slot(p.Until) != slot(to) || to.Sub(p.Until) >= slotMinutes*time.Minute {
			p.Slot = Part{}
		}
		if p.Until.YearDay() != to.YearDay() || p.Until.Year() != to.Year() {
			p.endDay(p.Until.Add(-time.Minute))
		}
	}
	p.Until = to
}

// faded is what is left of a number a minute later.
func faded(n int) int { return n * 59 / 60 }

// learn notes the jobs of one minute.
func (p *Profile) learn(at time.Time, jobs int) {
	expected, average := p.expected(at), p.average(at)
	p.Jobs, p.Expected = faded(p.Jobs)+1000*jobs, faded(p.Expected)+expected
	p.Lately = append(p.Lately[1:], jobs)
	m := at.Minute()
	unexpected := 10 * jobs // of a kind of day that was never seen: as if all came one by one
	if p.Days(at) > 0 {
		off := int64(1000*jobs - expected)
		unexpected = int(min(off*off/100_000, largestNumber/2))
	}
	const hours = 48
	p.Minutes[m] = min(p.Minutes[m]*(hours-1)/hours+10*jobs, largestNumber)
	p.Spread[m] = min(p.Spread[m]*(hours-1)/hours+unexpected, largestNumber)
	p.Slot.add(jobs, average)
	p.Day.add(jobs, average)
	next := at.Add(time.Minute)
	if slot(next) != slot(at) {
		p.endSlot(at)
	}
	if next.Day() != at.Day() {
		p.endDay(at)
	}
}

func (s *Part) add(jobs, expected int) {
	s.Minutes, s.Jobs, s.Expected = s.Minutes+1, s.Jobs+jobs, s.Expected+expected
}

// endSlot learns the five minutes that end with a minute, if all were seen. A kind of day
// is an average of those seen at first, later a day counts for a fifth.
func (p *Profile) endSlot(at time.Time) {
	if p.Slot.Minutes == slotMinutes {
		slots, days := p.kind(at)
		n := min(*days+1, fullDays)
		was, is := (*slots)[slot(at)], 10*p.Slot.Jobs
		(*slots)[slot(at)] = (was*(n-1) + is + n/2) / n
		if is == 0 {
			(*slots)[slot(at)] = was * (n - 1) / n // down to nothing
		}
	}
	p.Slot = Part{}
}

// endDay learns the day that a minute is in, if it was seen for the most part.
func (p *Profile) endDay(at time.Time) {
	const most, fewest = 24 * 60 * 4 / 5, 5000 // minutes; thousandths of jobs
	if p.Day.Minutes >= most {
		_, days := p.kind(at)
		if *days >= 3 && p.Day.Expected >= fewest {
			level := &p.Weekdays[int(at.Weekday())]
			is := min(max(100_000*p.Day.Jobs/p.Day.Expected, 20), 300)
			if *level == 0 {
				*level = 100
			}
			*level = (2**level + is + 1) / 3
		}
		*days = min(*days+1, mostDays)
	}
	p.Day, p.Idle = Part{}, 0
}
