package policy

import (
	"strings"
	"testing"
	"time"

	"muster/generator/plan"

	"github.com/google/go-cmp/cmp"
)

// week is a policy with schedules, the first of which begins on line 6.
func week(schedules ...string) string {
	text := header + "spec:\n  queue: default\n  max: 50\n  schedules:\n"
	for _, s := range schedules {
		text += "  - {" + s + "}\n"
	}
	return text
}

const office = "name: office, days: [mon, Tuesday, WED], from: 08:00, to: '18:30', timeZone: Europe/Berlin, min: 5, buffer: 2"

func TestSchedule(t *testing.T) {
	p, err := Parse("scaling.yaml", []byte(week(office, "name: nights, from: 22:00, to: 24:00, timeZone: UTC, max: 7")))
	if err != nil {
		t.Fatal(err)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	want := []plan.Schedule{
		{Name: "office", Days: [7]bool{1: true, 2: true, 3: true}, From: 480, To: 1110, Zone: berlin, Min: new(5), Buffer: new(2)},
		{Name: "nights", Days: [7]bool{true, true, true, true, true, true, true}, From: 1320, To: 1440, Zone: time.UTC, Max: new(7)},
	}
	zones := cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })
	if diff := cmp.Diff(want, p.Schedules, zones); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestScheduleErrors(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"timeZone: Europe/Berlin", "timeZone: Europe/Atlantis", `:7: spec.schedules[0].timeZone: "Europe/Atlantis" is not a known time zone; write a name of the IANA time zone database, as in Europe/Berlin or UTC`},
		{"timeZone: Europe/Berlin", "timeZone: Local", `:7: spec.schedules[0].timeZone: "Local" is not a known time zone; write a name of the IANA time zone database, as in Europe/Berlin or UTC`},
		{"timeZone: Europe/Berlin, ", "", `:7: spec.schedules[0].timeZone: is missing; write a name of the IANA time zone database, as in Europe/Berlin or UTC`},
		{"to: '18:30'", "to: 08:00", `:7: spec.schedules[0].to: is the same as from: the window is empty; write from: 00:00 and to: 24:00 for whole days`},
		{"to: '18:30'", "to: 25:00", `:7: spec.schedules[0].to: "25:00" is not a time of day; write one from 00:00 to 23:59, or to: 24:00`},
		{"from: 08:00", "from: 24:00", `:7: spec.schedules[0].from: "24:00" is not a time of day; write one from 00:00 to 23:59, or to: 24:00`},
		{"from: 08:00", "from: 8", `:7: spec.schedules[0].from: 8 is not a time of day; write one from 00:00 to 23:59, or to: 24:00`},
		{"from: 08:00, ", "", `:7: spec.schedules[0].from: is missing; write a time of day as in 08:00`},
		{"[mon, Tuesday, WED]", "[mon, Freitag]", `:7: spec.schedules[0].days: "Freitag" is not a day of the week; write days as in [mon, tue, wed, thu, fri]`},
		{"[mon, Tuesday, WED]", "[Mo]", `:7: spec.schedules[0].days: "Mo" is not a day of the week; write mon`},
		{"[mon, Tuesday, WED]", "[wednsday]", `:7: spec.schedules[0].days: "wednsday" is not a day of the week; write wed`},
		{"[mon, Tuesday, WED], from: 08:00, to: '18:30', timeZone: Europe/Berlin", "[mond], from: 08:00, to: '18:30', timeZone: Berlin",
			`:7: spec.schedules[0].days: "mond" is not a day of the week; write mon` + "\n" +
				`:7: spec.schedules[0].timeZone: "Berlin" is not a known time zone; write a name of the IANA time zone database, as in Europe/Berlin or UTC`},
		{"[mon, Tuesday, WED]", "mon", `:7: spec.schedules[0].days: "mon" is not a list of days; write days as in [mon, tue, wed, thu, fri]`},
		{"[mon, Tuesday, WED]", "[]", `:7: spec.schedules[0].days: a list is not a list of days; write days as in [mon, tue, wed, thu, fri]`},
		{"name: office, ", "", `:7: spec.schedules[0].name: is missing; commits call the schedule by it`},
		{"name: office", `name: "a\nb"`, `:7: spec.schedules[0].name: "a\nb" is not a name; write a few words on one line`},
		{"min: 5, buffer: 2", "color: red, min: 5", `:7: spec.schedules[0].color: is not a field of a schedule; its fields are name, days, from, to, timeZone, min, max, buffer`},
		{", min: 5, buffer: 2", "", `:7: spec.schedules[0]: changes nothing; give it min, max or buffer`},
		{"min: 5", "min: -5", `:7: spec.schedules[0].min: -5 is too small; write one from 0 to 100000`},
		{"min: 5", "min: 51", `:7: spec.schedules: while "office" is in force, min 51 is above max 50; give the schedule a max or a min that fits`},
		{"{" + office + "}", "office", `:7: spec.schedules[0]: "office" is not a mapping; its fields are name, days, from, to, timeZone, min, max, buffer`},
	} {
		text := week(office)
		broken := strings.Replace(text, c.from, c.to, 1)
		if broken == text {
			t.Errorf("%q is not in the policy", c.from)
		}
		wantFindings(t, broken, c.want)
	}
	const twice = `:8: spec.schedules[1].name: "office" is the name of another schedule; give each its own`
	wantFindings(t, week(office, office), twice)
}
