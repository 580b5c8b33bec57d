package policy

import (
	"reflect"
	"testing"
	"time"

	"muster/generator/plan"
)

// TestFieldsCoverPolicy: each field of a policy is shown by exactly one entry of the table, and
// each number of an override and of a schedule belongs to exactly one.
func TestFieldsCoverPolicy(t *testing.T) {
	zero := plan.Policy{}
	for field, value := range reflect.ValueOf(zero).Fields() {
		switch field.Name {
		case "Schedules", "Overrides", "LeaseAuto": // lists; part of lease
			continue
		}
		p := plan.Policy{}
		in := reflect.ValueOf(&p).Elem().FieldByIndex(field.Index)
		switch value.Interface().(type) {
		case string:
			in.SetString("x")
		case []string:
			in.Set(reflect.ValueOf([]string{"x"}))
		case int:
			in.SetInt(7)
		case float64:
			in.SetFloat(0.5)
		case bool:
			in.SetBool(true)
		case time.Duration:
			in.SetInt(int64(time.Minute))
		case plan.Reuse:
			in.Set(reflect.ValueOf(plan.Reuse{Idle: time.Minute, Uptime: time.Hour}))
		default:
			t.Fatalf("%s is a %s: the test does not know such a field", field.Name, field.Type)
		}
		var shown []string
		for _, f := range Fields() {
			if f.Show != nil && f.Show(p) != f.Show(zero) {
				shown = append(shown, f.Name)
			}
		}
		if len(shown) != 1 {
			t.Errorf("%s is shown by %q, want one entry", field.Name, shown)
		}
	}
	numbers := func(of reflect.Value) (n int) {
		for field := range of.Fields() {
			if field.Type == reflect.TypeFor[*int]() {
				n++
			}
		}
		return n
	}
	var o plan.Override
	var s plan.Schedule
	overrides, schedules := map[**int]bool{}, map[**int]bool{}
	for _, f := range Overridable() {
		overrides[f.Override(&o)] = true
	}
	for _, f := range Scheduled() {
		schedules[f.Schedule(&s)] = true
	}
	if got, want := len(overrides), numbers(reflect.ValueOf(o)); got != want {
		t.Errorf("entries set %d numbers of an override, which has %d", got, want)
	}
	if got, want := len(schedules), numbers(reflect.ValueOf(s)); got != want {
		t.Errorf("entries set %d numbers of a schedule, which has %d", got, want)
	}
}
