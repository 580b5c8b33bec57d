package plan

import (
	"fmt"
	"reflect"
	"time"
)

// Bounds of the values that muster stores in git: what it writes is far inside of them.
const (
	maxStored           = 1_000_000_000
	firstYear, lastYear = 1970, 2499
)

// Plausible reports whether a time can be stored: it is zero, or its year is from 1970 to 2499.
func Plausible(t time.Time) bool {
	year := t.UTC().Year()
	return t.IsZero() || year >= firstYear && year <= lastYear
}

// CheckStored returns an error if a value that was read from git, such as an [Observation] or a
// [State], contains a number or a time that muster cannot have written. Everybody who may push to the
// branch can write such values.
func CheckStored(value any) error { return checkStored(reflect.ValueOf(value)) }

func checkStored(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		return checkStored(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if err := checkStored(v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			if err := checkStored(entries.Value()); err != nil {
				return err
			}
		}
		return nil
	case reflect.Struct:
		return checkFields(v)
	default:
		if v.CanInt() && (v.Int() < 0 || v.Int() > maxStored) {
			return fmt.Errorf("%d is not a number from 0 to %d", v.Int(), maxStored)
		}
		return nil
	}
}

// checkFields checks a time, or the fields of another structure.
func checkFields(v reflect.Value) error {
	if v.Type() == reflect.TypeFor[time.Time]() {
		if t, _ := v.Interface().(time.Time); !Plausible(t) {
			return fmt.Errorf("the year %d is not from %d to %d", t.UTC().Year(), firstYear, lastYear)
		}
		return nil
	}
	for i := range v.NumField() {
		if err := checkStored(v.Field(i)); err != nil {
			return fmt.Errorf("%s: %w", v.Type().Field(i).Name, err)
		}
	}
	return nil
}
