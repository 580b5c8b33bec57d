package policy

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // time zones must not depend on what the image holds
	"unicode"
	"unicode/utf8"

	"muster/generator/finding"
	"muster/generator/plan"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// scheduleFields lists the fields of a schedule in the order that
// documentation uses.
func scheduleFields() []string {
	return slices.Concat([]string{"name", "days", "from", "to", "timeZone"}, Names(Scheduled()))
}

// dayNames are the days as a policy writes them; full names are taken too.
var dayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func (r *policyReader) schedules(n *yaml.Node) {
	r.entries(n, entries{
		field: "schedules", one: "a schedule", fields: scheduleFields(),
		form: "write each schedule as - name: ...",
		max:  maxSchedules, fewer: "days with the same hours need one",
	}, r.schedule)
}

// schedule reads one schedule, and keeps it if it is valid.
func (r *policyReader) schedule(item *yaml.Node, at string, sound func() bool) {
	s := plan.Schedule{
		Name: r.scheduleName(item, at),
		Days: r.days(item, at),
		From: r.minute(item, at, "from"),
		To:   r.minute(item, at, "to"),
		Zone: r.zone(item, at),
	}
	if !r.counts(item, at, Scheduled(), func(f Field) **int { return f.Schedule(&s) }) {
		r.bad(item, "spec."+at, "changes nothing", "give it "+finding.Or(Names(Scheduled())))
	}
	if !sound() {
		return
	}
	if s.From == s.To {
		r.bad(finding.Lookup(item, "to"), "spec."+at+".to", "is the same as from: the window is empty", "write from: 00:00 and to: 24:00 for whole days")
		return
	}
	r.policy.Schedules = append(r.policy.Schedules, s)
	r.lines = append(r.lines, item)
}

// checkSchedules checks the policy with each schedule, after all of it was read.
func (r *policyReader) checkSchedules() {
	for i, s := range r.policy.Schedules {
		if low, high := *cmp.Or(s.Min, &r.policy.Min), *cmp.Or(s.Max, &r.policy.Max); low > high {
			r.bad(r.lines[i], "spec.schedules", fmt.Sprintf("while %s is in force, min %d is above max %d", finding.Quote(s.Name), low, high), "give the schedule a max or a min that fits")
		}
	}
}

func (r *policyReader) scheduleName(item *yaml.Node, at string) string {
	n := finding.Lookup(item, "name")
	switch {
	case n == nil:
		r.bad(item, "spec."+at+".name", "is missing", "commits call the schedule by it")
	case n.Kind != yaml.ScalarNode || n.Tag != "!!str" || strings.TrimSpace(n.Value) == "" || utf8.RuneCountInString(n.Value) > longestLabel ||
		strings.ContainsFunc(n.Value, func(c rune) bool { return !unicode.IsPrint(c) }):
		r.bad(n, "spec."+at+".name", shown(n)+" is not a name", "write a few words on one line")
	case slices.ContainsFunc(r.policy.Schedules, func(s plan.Schedule) bool { return s.Name == n.Value }):
		r.bad(n, "spec."+at+".name", shown(n)+" is the name of another schedule", "give each its own")
	default:
		return n.Value
	}
	return ""
}

// days reads the days on which a window begins; all days if the field is missing.
func (r *policyReader) days(item *yaml.Node, at string) (days [7]bool) {
	n := finding.Lookup(item, "days")
	if n == nil {
		return [7]bool{true, true, true, true, true, true, true}
	}
	remedy := "write days as in [mon, tue, wed, thu, fri]"
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		r.bad(n, "spec."+at+".days", shown(n)+" is not a list of days", remedy)
		return days
	}
	for _, d := range n.Content {
		i := slices.IndexFunc(dayNames, func(name string) bool {
			return strings.EqualFold(d.Value, name) || strings.EqualFold(d.Value, time.Weekday(slices.Index(dayNames, name)).String())
		})
		if d.Kind != yaml.ScalarNode || i < 0 {
			r.bad(d, "spec."+at+".days", shown(d)+" is not a day of the week", nearestDay(d.Value, remedy))
			continue
		}
		days[i] = true
	}
	return days
}

// nearestDay returns the remedy for a value that is not a day of the week, such as "Mo" or
// "wednesd".
func nearestDay(day, otherwise string) string {
	for _, name := range dayNames {
		full := strings.ToLower(time.Weekday(slices.Index(dayNames, name)).String())
		if said := strings.ToLower(day); len(said) > 1 && (strings.HasPrefix(full, said) || finding.Distance(said, full) <= 2) {
			return "write " + name
		}
	}
	return otherwise
}

// timeRule is the form of a time of day.
var timeRule = regexp.MustCompile(`^[0-9]{1,2}:[0-9]{2}$`)

// minute reads a time of day as minutes since midnight.
func (r *policyReader) minute(item *yaml.Node, at, name string) int {
	n := finding.Lookup(item, name)
	if n == nil {
		r.bad(item, "spec."+at+"."+name, "is missing", "write a time of day as in 08:00")
		return 0
	}
	hours, minutes, _ := strings.Cut(n.Value, ":")
	h, err := strconv.Atoi(hours)
	m, err2 := strconv.Atoi(minutes)
	if n.Kind != yaml.ScalarNode || !timeRule.MatchString(n.Value) || err != nil || err2 != nil ||
		m > 59 || h*60+m > 24*60 || name == "from" && h == 24 {
		r.bad(n, "spec."+at+"."+name, shown(n)+" is not a time of day", "write one from 00:00 to 23:59, or to: 24:00")
		return 0
	}
	return h*60 + m
}

func (r *policyReader) zone(item *yaml.Node, at string) *time.Location {
	n := finding.Lookup(item, "timeZone")
	remedy := "write a name of the IANA time zone database, as in Europe/Berlin or UTC"
	if n == nil {
		r.bad(item, "spec."+at+".timeZone", "is missing", remedy)
		return nil
	}
	zone, err := r.zones.load(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || n.Value == "" || n.Value == "Local" {
		r.bad(n, "spec."+at+".timeZone", shown(n)+" is not a known time zone", remedy)
		return nil
	}
	return zone
}
