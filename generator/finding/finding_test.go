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

func TestField(t *testing.T) {
	for want, keys := range map[string][]string{
		"": nil, "spec.max": {"spec", "max"}, "metadata.labels[a.b/c]": {"metadata", "labels", "a.b/c"}, "a[0].b": {"a", "[0]", "b"},
	} {
		if got := Field(keys); got != want {
			t.Errorf("the field of %q is %q, want %q", keys, got, want)
		}
	}
}

func TestOr(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"}} {
		if got := Or(names); got != want {
			t.Errorf("%q are %q, want %q", names, got, want)
		}
	}
}
