package finding

import "testing"

func TestNearest(t *testing.T) {
	fields := []string{"queue", "cluster", "min", "max", "maxPerHour", "lease", "priority"}
	for word, want := range map[string]string{
		"maxx": "max", "Max": "max", "mx": "max", "mxa": "max", "queu": "queue", "que": "queue", "maxperhour": "maxPerHour",
		"leese": "lease", "clusterName": "cluster", "nonsense": "", "x": "", "": "", "ttl": "", "maximum": "max",
	} {
		if got := Nearest(word, fields); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
	if got := Nearest("REPOSITORY", []string{"REPO", "OVERLAYS", "REMOTE"}); got != "REPO" {
		t.Errorf("nearest to REPOSITORY is %q", got)
	}
}
