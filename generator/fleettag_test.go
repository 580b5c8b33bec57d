package generator_test

import (
	"testing"

	"muster/generator"
)

// TestFleetTag: one repository has one tag however it is reached, and another
// repository, or another directory of it, has another.
func TestFleetTag(t *testing.T) {
	want := generator.FleetTag("https://git.example.com/ci/fleet.git", "overlays")
	for _, same := range []string{
		"git@git.example.com:ci/fleet.git", "ssh://git@git.example.com:2222/ci/fleet", "https://token@git.example.com/ci/fleet", "https://git.example.com:8443/CI/fleet.git",
	} {
		if got := generator.FleetTag(same, "overlays/"); got != want {
			t.Errorf("%s: %s, want %s", same, got, want)
		}
	}
	for _, other := range [][2]string{
		{"https://git.example.com/ci/fleet2.git", "overlays"}, {"https://git.example.org/ci/fleet.git", "overlays"}, {"https://git.example.com/ci/fleet.git", "linux"}, {"/srv/git/fleet.git", "overlays"},
	} {
		if got := generator.FleetTag(other[0], other[1]); got == want || len(got) != 8 {
			t.Errorf("%s: %s is the same or no tag", other, got)
		}
	}
}
