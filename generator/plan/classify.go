package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// class is a group of jobs that are alike to every agent.
type class struct {
	cluster                             string
	rules                               []string
	pending, upcoming, limited, blocked int
	oldest                              time.Time
	example                             string
	overlays                            []string
}

// classify groups jobs by cluster and rules, and the groups by their queue's
// key. The groups' order depends on their content alone.
func classify(jobs []Job) map[string][]*class {
	byText := map[string]*class{}
	var text []byte
	for i := range jobs {
		j := &jobs[i]
		text = append(text[:0], j.Cluster...)
		for _, rule := range j.Rules {
			text = append(append(text, 0), rule...)
		}
		c := byText[string(text)]
		if c == nil {
			c = &class{cluster: j.Cluster, rules: slices.Compact(slices.Sorted(slices.Values(j.Rules)))}
			byText[string(text)] = c
		}
		c.add(j)
	}
	queues := map[string][]*class{}
	for _, c := range byText {
		key, _ := tagValue(c.rules, TagQueue)
		queues[key] = append(queues[key], c)
	}
	for key, classes := range queues {
		queues[key] = merge(classes)
	}
	return queues
}

func (c *class) add(j *Job) {
	switch j.State {
	case JobPending:
		c.pending++
		if c.oldest.IsZero() || !j.Since.IsZero() && j.Since.Before(c.oldest) {
			c.oldest = j.Since
		}
		if c.example == "" || j.URL != "" && j.URL < c.example {
			c.example = j.URL
		}
	case JobUpcoming:
		c.upcoming++
	case JobLimited:
		c.limited++
	case JobBlocked:
		c.blocked++
	}
}

// merge orders classes, and joins those whose rules were only listed differently.
func merge(classes []*class) []*class {
	slices.SortFunc(classes, func(a, b *class) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), slices.Compare(a.rules, b.rules))
	})
	var merged []*class
	for _, c := range classes {
		if n := len(merged); n > 0 && merged[n-1].cluster == c.cluster && slices.Equal(merged[n-1].rules, c.rules) {
			last := merged[n-1]
			last.pending += c.pending
			last.upcoming += c.upcoming
			last.limited += c.limited
			last.blocked += c.blocked
			if last.oldest.IsZero() || !c.oldest.IsZero() && c.oldest.Before(last.oldest) {
				last.oldest = c.oldest
			}
			if last.example == "" || c.example != "" && c.example < last.example {
				last.example = c.example
			}
			continue
		}
		merged = append(merged, c)
	}
	return merged
}

// nearest returns the rules that the overlay which satisfies the most of them
// still misses.
func nearest(tags [][]string, rules []string) []string {
	var best []string
	for i := range tags {
		var missing []string
		for _, rule := range rules {
			if !carries(tags[i], rule) {
				missing = append(missing, rule)
			}
		}
		if best == nil || len(missing) < len(best) {
			best = missing
		}
	}
	return best
}

// fewest keeps the largest groups of unmatched jobs, and cuts what is long: they
// are there to be read, and anybody who may write a pipeline may write rules.
func fewest(groups []Unmatched) []Unmatched {
	const most, longest = 5, 120
	slices.SortStableFunc(groups, func(a, b Unmatched) int { return cmp.Compare(b.Jobs, a.Jobs) })
	groups = groups[:min(most, len(groups))]
	for i, g := range groups {
		for _, words := range []*[]string{&groups[i].Rules, &groups[i].Missing} {
			short := slices.Clone((*words)[:min(2*most, len(*words))])
			for k, w := range short {
				if len(w) > longest {
					short[k] = strings.ToValidUTF8(w[:longest], "") + "…"
				}
			}
			*words = short
		}
		if len(g.Example) > 2*longest {
			groups[i].Example = ""
		}
	}
	return groups
}

// demands joins classes that the same overlays can serve.
func demands(classes []*class, taken []int) []Demand {
	var all []Demand
	for j, c := range classes {
		i := slices.IndexFunc(all, func(d Demand) bool { return slices.Equal(d.Overlays, c.overlays) })
		if i < 0 {
			i = len(all)
			all = append(all, Demand{Overlays: c.overlays})
		}
		d := &all[i]
		d.Pending += c.pending
		d.Idle += taken[j]
		d.Upcoming += c.upcoming
		d.Limited += c.limited
		d.Blocked += c.blocked
		if at := c.oldest.UTC().Truncate(time.Second); !c.oldest.IsZero() && (d.Oldest == nil || at.Before(*d.Oldest)) {
			d.Oldest = &at
		}
	}
	slices.SortFunc(all, func(a, b Demand) int { return slices.Compare(a.Overlays, b.Overlays) })
	return all
}
