package history

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/generator/plan"
	"muster/generator/policy"
)

// Changes lists the settings in which two policies differ, in the order in which the
// documentation has them, then each schedule's and each override's.
func Changes(before, after plan.Policy) []Change {
	all := settingChanges(before, after)
	all = append(all, listChanges(schedules(before), schedules(after), func(name string) string { return "schedule " + strconv.Quote(name) })...)
	return append(all, listChanges(overrides(before), overrides(after), func(until string) string { return "override until " + until })...)
}

func settingChanges(before, after plan.Policy) []Change {
	var all []Change
	was, is := settings(before), settings(after)
	for i, s := range is {
		if s.value != was[i].value {
			all = append(all, Change{Setting: s.name, Before: was[i].value, After: s.value})
		}
	}
	return all
}

// listChanges compares what two lists have by name.
func listChanges(from, to map[string][]setting, label func(name string) string) []Change {
	var all []Change
	names := slices.Sorted(maps.Keys(from))
	for name := range to {
		if _, both := from[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		a, hadOne := from[name]
		b, hasOne := to[name]
		if !hadOne || !hasOne {
			all = append(all, Change{Setting: label(name), Before: joined(a), After: joined(b)})
			continue
		}
		for i := range b {
			if a[i].value != b[i].value {
				all = append(all, Change{Setting: label(name) + " " + b[i].name, Before: a[i].value, After: b[i].value})
			}
		}
	}
	return all
}

// setting is one setting of a policy, as a person would write it; empty is none.
type setting struct{ name, value string }

func settings(p plan.Policy) []setting {
	var all []setting
	for _, f := range policy.Fields() {
		if f.Show != nil {
			all = append(all, setting{f.Name, f.Show(p)})
		}
	}
	return all
}

// schedules are the settings of each schedule, by its name. Of several of one name
// each further one is counted.
func schedules(p plan.Policy) map[string][]setting {
	all := map[string][]setting{}
	for _, s := range p.Schedules {
		name := s.Name
		for n := 2; all[name] != nil; n++ {
			name = fmt.Sprintf("%s (%d)", s.Name, n)
		}
		var days []string
		for i, on := range s.Days {
			if on {
				days = append(days, time.Weekday(i).String()[:3])
			}
		}
		zone := ""
		if s.Zone != nil {
			zone = s.Zone.String()
		}
		all[name] = []setting{{"days", strings.Join(days, " ")}, {"from", clock(s.From)}, {"to", clock(s.To)}, {"timeZone", zone}}
		for _, f := range policy.Scheduled() {
			all[name] = append(all[name], setting{f.Name, optional(*f.Schedule(&s))})
		}
	}
	return all
}

// overrides are the settings of each override, by when it ends. Of several that end
// together each further one is counted.
func overrides(p plan.Policy) map[string][]setting {
	all := map[string][]setting{}
	for _, o := range p.Overrides {
		until := o.Until.UTC().Format(time.RFC3339)
		name := until
		for n := 2; all[name] != nil; n++ {
			name = fmt.Sprintf("%s (%d)", until, n)
		}
		paused := ""
		if o.Paused {
			paused = "true"
		}
		for _, f := range policy.Overridable() {
			all[name] = append(all[name], setting{f.Name, optional(*f.Override(&o))})
		}
		all[name] = append(all[name], setting{"paused", paused})
	}
	return all
}

func clock(minutes int) string { return fmt.Sprintf("%02d:%02d", minutes/60, minutes%60) }

func optional(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

// joined returns a summary of a whole schedule or override; empty if it has no settings.
func joined(all []setting) string {
	var words []string
	for _, s := range all {
		switch {
		case s.value == "":
		case s.name == "days", s.name == "timeZone":
			words = append(words, s.value)
		case s.name == "to":
			words[len(words)-1] += "-" + s.value
		case s.name == "from":
			words = append(words, s.value)
		default:
			words = append(words, s.name+" "+s.value)
		}
	}
	return strings.Join(words, " ")
}
