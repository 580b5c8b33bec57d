package history

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/policy"
)

// sentence returns the changes as one text.
func sentence(changes []ledger.Change) string {
	words := make([]string, len(changes))
	for i, c := range changes {
		words[i] = c.String()
	}
	return strings.Join(words, ", ")
}

// Changes returns the settings in which two policies differ, in the order of the documentation, then
// those of schedules and overrides.
func Changes(before, after plan.Policy) []ledger.Change {
	return slices.Concat(
		settingChanges("", settings(before), settings(after)),
		listChanges("schedule %q", schedules(before), schedules(after)),
		listChanges("override until %s", overrides(before), overrides(after)),
	)
}

// settingChanges compares two lists of the same settings, and puts a label before their names.
func settingChanges(label string, was, is []setting) []ledger.Change {
	var all []ledger.Change
	for i, s := range is {
		if s.value != was[i].value {
			all = append(all, ledger.Change{Setting: label + s.name, Before: was[i].value, After: s.value})
		}
	}
	return all
}

// listChanges compares two lists by name. format formats a name.
func listChanges(format string, from, to lists) []ledger.Change {
	var all []ledger.Change
	names := slices.Sorted(maps.Keys(from))
	names = slices.AppendSeq(names, maps.Keys(to))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		a, b, label := from[name], to[name], fmt.Sprintf(format, name)
		if a != nil && b != nil {
			all = append(all, settingChanges(label+" ", a, b)...)
		} else {
			all = append(all, ledger.Change{Setting: label, Before: joined(a), After: joined(b)})
		}
	}
	return all
}

// lists contains the settings of schedules or overrides, by name.
type lists map[string][]setting

// add adds the settings of one schedule or override. A number follows a repeated name.
func (l lists) add(name string, all []setting) {
	unique := name
	for n := 2; l[unique] != nil; n++ {
		unique = fmt.Sprintf("%s (%d)", name, n)
	}
	l[unique] = all
}

// setting is one setting of a policy in the syntax of the policy; empty if unset.
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

// schedules returns the settings of each schedule, by its name.
func schedules(p plan.Policy) lists {
	all := lists{}
	for _, s := range p.Schedules {
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
		list := []setting{{"days", strings.Join(days, " ")}, {"from", clock(s.From)}, {"to", clock(s.To)}, {"timeZone", zone}}
		for _, f := range policy.Scheduled() {
			list = append(list, setting{f.Name, optional(*f.Schedule(&s))})
		}
		all.add(s.Name, list)
	}
	return all
}

// overrides returns the settings of each override, by its end.
func overrides(p plan.Policy) lists {
	all := lists{}
	for _, o := range p.Overrides {
		var list []setting
		for _, f := range policy.Overridable() {
			list = append(list, setting{f.Name, optional(*f.Override(&o))})
		}
		paused := ""
		if o.Paused {
			paused = "true"
		}
		all.add(o.Until.UTC().Format(time.RFC3339), append(list, setting{"paused", paused}))
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
		case s.name == "to":
			words[len(words)-1] += "-" + s.value
		case s.name == "days", s.name == "from", s.name == "timeZone":
			words = append(words, s.value)
		default:
			words = append(words, s.name+" "+s.value)
		}
	}
	return strings.Join(words, " ")
}
