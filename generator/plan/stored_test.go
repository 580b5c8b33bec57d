package plan

import (
	"math"
	"reflect"
	"testing"
	"time"
)

// fill sets every exported field below v: numbers to 1, times to at, and one element in every list.
// It calls leaf for each number and time.
func fill(v reflect.Value, at time.Time, leaf func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), at, leaf)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), at, leaf)
	case reflect.Map:
		element := reflect.New(v.Type().Elem()).Elem()
		fill(element, at, leaf)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), element)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(at))
			leaf(v)
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), at, leaf)
			}
		}
	default:
		if v.CanInt() {
			v.SetInt(1)
			leaf(v)
		}
	}
}

// TestCheckStored asserts that every number and time of what is stored in git has bounds.
func TestCheckStored(t *testing.T) {
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	instead := map[reflect.Type][]any{
		reflect.TypeFor[int]():       {-1, 1_000_000_001, math.MaxInt64, math.MinInt64},
		reflect.TypeFor[time.Time](): {time.Unix(-1, 0), time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Unix(math.MaxInt64/2, 0), time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
	for _, value := range []any{&Observation{}, &State{}} {
		v := reflect.ValueOf(value).Elem()
		fill(v, at, func(reflect.Value) {})
		if err := CheckStored(v.Interface()); err != nil {
			t.Errorf("%T: %v", value, err)
		}
		var kinds []reflect.Type
		fill(v, at, func(leaf reflect.Value) { kinds = append(kinds, leaf.Type()) })
		for i, kind := range kinds {
			for _, bad := range instead[kind] {
				n := -1
				fill(v, at, func(leaf reflect.Value) {
					if n++; n == i {
						leaf.Set(reflect.ValueOf(bad))
					}
				})
				if CheckStored(v.Interface()) == nil {
					t.Errorf("%T: %v is accepted in %+v", value, bad, v.Interface())
				}
			}
		}
		if len(kinds) < 10 {
			t.Errorf("%T has %d numbers and times", value, len(kinds))
		}
	}
	if err := CheckStored(Observation{}); err != nil {
		t.Errorf("absent times: %v", err)
	}
}
