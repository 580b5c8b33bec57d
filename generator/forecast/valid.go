package forecast

import "time"

// Valid reports whether a profile, as it was read, is one that could have been learned:
// what is worked out of it then stays within its bounds.
func (p Profile) Valid() bool {
	for _, s := range []struct {
		numbers Series
		most    int
	}{
		{p.Workday, daySlots}, {p.Weekend, daySlots}, {p.Weekdays, weekdays}, {p.Minutes, hourMinutes}, {p.Spread, hourMinutes}, {p.Lately, lately},
	} {
		if len(s.numbers) > s.most || !s.numbers.within(largestNumber) {
			return false
		}
	}
	if !p.Workday.within(10*slotMinutes*mostJobs) || !p.Weekend.within(10*slotMinutes*mostJobs) || !p.Lately.within(mostJobs) {
		return false
	}
	const largest = 60 * largestNumber
	whole := Series{p.Workdays, p.WeekendDays, p.Slot.Minutes, p.Slot.Jobs, p.Day.Minutes, p.Day.Jobs, p.Idle, p.Plan.Share, p.Plan.IdleHours}
	return whole.within(largestNumber) && Series{p.Jobs, p.Expected, p.Slot.Expected, p.Day.Expected}.within(largest) &&
		p.Workdays <= mostDays && p.WeekendDays <= mostDays && p.Slot.Minutes <= slotMinutes && p.Day.Minutes <= 24*60 && p.Weekdays.within(300) &&
		p.Plan.Worth >= 0 && p.Plan.Worth <= 1000 && p.Until.Equal(p.Until.Truncate(time.Minute)) && p.Plan.Hour.Equal(p.Plan.Hour.Truncate(time.Hour)) &&
		(!p.Until.IsZero() || p.Equal(Profile{Plan: p.Plan}))
}

// within reports whether all numbers are from zero to a largest one.
func (s Series) within(largest int) bool {
	for _, n := range s {
		if n < 0 || n > largest {
			return false
		}
	}
	return true
}
