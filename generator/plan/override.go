package plan

import "time"

// Override changes a policy until a moment, as a person on call wants it for two
// hours. It needs nobody to take it back.
type Override struct {
	// Until is when it ends; at that moment it is no longer in force.
	Until time.Time
	// Min, Max, Buffer and MaxPerHour replace the policy's, and what a schedule makes
	// of them; nil keeps it.
	Min, Max, Buffer, MaxPerHour *int
	// Paused pauses the overlay; false changes nothing.
	Paused bool
}

// override returns the policy with the overrides that are in force at t, the later in
// the list on top of the earlier.
func (p Policy) override(t time.Time) Policy {
	for _, o := range p.Overrides {
		if !t.Before(o.Until) {
			continue
		}
		replace(&p.Min, o.Min)
		replace(&p.Max, o.Max)
		replace(&p.Buffer, o.Buffer)
		replace(&p.MaxPerHour, o.MaxPerHour)
		p.Paused = p.Paused || o.Paused
	}
	p.Min = min(p.Min, p.Max) // a max that is lowered for an hour need not say min too
	return p
}

// OverriddenUntil is when the first of the overrides that are in force at t ends, in
// UTC; nil: none is.
func (p Policy) OverriddenUntil(t time.Time) *time.Time {
	var first *time.Time
	for _, o := range p.Overrides {
		if end := o.Until.UTC(); t.Before(end) && (first == nil || end.Before(*first)) {
			first = &end
		}
	}
	return first
}
