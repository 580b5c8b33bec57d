package ledger

import (
	"time"

	"muster/generator/plan"
)

// storedStage is a [plan.Stage].
type storedStage struct {
	Name    string     `json:"name"`
	Due     *time.Time `json:"due,omitempty"`
	Jobs    int        `json:"jobs,omitempty"`
	Ordered int        `json:"ordered,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
}

// storeDemand makes the stored form of a group of jobs.
func storeDemand(d plan.Demand) storedDemand {
	s := storedDemand{
		Overlays: d.Overlays, Pending: d.Pending, OtherQueues: d.OtherQueues, Oldest: d.Oldest,
		Upcoming: d.Upcoming, Fresh: d.Fresh, Newest: d.Newest, Partial: d.Partial,
		Later: d.Later, Within: d.Within, Earliest: d.Earliest, Limited: d.Limited, Blocked: d.Blocked,
	}
	for _, x := range d.Stages {
		s.Stages = append(s.Stages, storedStage{Name: x.Name, Due: x.Due, Jobs: x.Jobs, Ordered: x.Ordered, Since: x.Since})
	}
	return s
}

// demand is the reverse of storeDemand.
func (s storedDemand) demand() plan.Demand {
	d := plan.Demand{
		Overlays: s.Overlays, Pending: s.Pending, OtherQueues: s.OtherQueues, Oldest: s.Oldest,
		Upcoming: s.Upcoming, Fresh: s.Fresh, Newest: s.Newest, Partial: s.Partial,
		Later: s.Later, Within: s.Within, Earliest: s.Earliest, Limited: s.Limited, Blocked: s.Blocked,
	}
	for _, x := range s.Stages {
		d.Stages = append(d.Stages, plan.Stage{Name: x.Name, Due: x.Due, Jobs: x.Jobs, Ordered: x.Ordered, Since: x.Since})
	}
	return d
}
