package fakebuildkite

import "slices"

// group is a concurrency group: it limits how many of its jobs run at a time, in the order of their
// creation, or in the order of arrival if it is eager (docs
// pipelines/configure/workflows/controlling_concurrency.md). The plan's limit is such a group over
// the whole organisation.
type group struct {
	limit   int
	eager   bool
	members []*member
}

// member is one unfinished job of a group.
type member struct {
	group *group
	job   *job
	// arrived says that nothing else keeps the job: it only wants a slot.
	arrived bool
	slot    bool
}

// join adds a job to the group, in order of creation.
func (g *group) join(j *job) *member {
	m := &member{group: g, job: j}
	g.members = append(g.members, m)
	return m
}

// leave takes a finished job out.
func (m *member) leave() {
	m.group.members = slices.DeleteFunc(m.group.members, func(other *member) bool { return other == m })
}

// admit gives the free slots away and returns who got one.
func (g *group) admit() []*job {
	used := 0
	if g.eager {
		for _, m := range g.members {
			if m.slot {
				used++
			}
		}
	}
	var admitted []*job
	for _, m := range g.members {
		if used >= g.limit {
			break
		}
		if m.arrived && !m.slot {
			m.slot = true
			admitted = append(admitted, m.job)
			used++
		} else if !g.eager {
			used++ // holds its place in the line, running or not yet arrived
		}
	}
	return admitted
}
