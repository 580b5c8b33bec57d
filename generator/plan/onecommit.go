package plan

import (
	"cmp"
	"slices"
)

// Some git hosts take no commit of many files, and one act is one commit: what one cannot
// have is decided again after it. See [Supply.MostJobs].

// mostAtOnce is how many agents one commit orders at most; zero: any number.
func (s *share) mostAtOnce() int {
	if s.supply.MostJobs == 0 {
		return 0
	}
	// Those for jobs, and those for min and buffer are Jobs of their own, of which the last
	// of each may have fewer agents than JobAgents.
	const unfilled = 1
	return max(1, s.supply.MostJobs-unfilled) * JobAgents
}

// inOneCommit are those of the retirements that one commit takes. What was ordered
// together is judged as one, and goes together where it fits; the oldest order first.
func (s *share) inOneCommit(all []Retirement) []Retirement {
	files := func(all []Retirement) int {
		n := len(all)
		for _, r := range all {
			if r.Reason == Withdrawn { // it is written elsewhere
				n++
			}
		}
		return n
	}
	left := s.supply.MostJobs
	if left == 0 || files(all) <= left {
		return all
	}
	at := func(r Retirement) int64 { return s.dispatch(r.ID).At.Unix() }
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Retirement) int { return cmp.Compare(at(a), at(b)) })
	var some []Retirement
	for len(all) > 0 {
		end := 1
		for end < len(all) && at(all[end]) == at(all[0]) {
			end++
		}
		if files(all[:end]) > left && len(some) > 0 {
			break
		}
		for end > 1 && files(all[:end]) > left { // an order of more than one commit takes
			end--
		}
		some, left, all = append(some, all[:end]...), left-files(all[:end]), all[end:]
	}
	slices.SortFunc(some, func(a, b Retirement) int { return cmp.Compare(a.ID, b.ID) })
	return some
}
