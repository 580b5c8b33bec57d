package main

import (
	"reflect"
	"testing"

	"muster/generator/buildkite"
)

// TestWatchedBuildkiteHasAllMethods asserts that watchedBuildkite has all methods of the
// client, because the generator uses optional ones.
func TestWatchedBuildkiteHasAllMethods(t *testing.T) {
	watched, client := reflect.TypeFor[watchedBuildkite](), reflect.TypeFor[*buildkite.Client]()
	for i := range client.NumMethod() {
		m := client.Method(i)
		if got, ok := watched.MethodByName(m.Name); !ok || got.Type.NumIn() != m.Type.NumIn() {
			t.Errorf("the program's Buildkite has no %s", m.Name)
		}
	}
	if client.NumMethod() < 4 {
		t.Errorf("the client has %d methods", client.NumMethod())
	}
}
