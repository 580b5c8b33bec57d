package advice

import (
	"slices"
	"testing"

	"muster/generator/policy"
)

// TestValues: every policy that may be proposed can be written, and is read back as it
// was played.
func TestValues(t *testing.T) {
	text := []byte("apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec:\n  queue: default\n  max: 500\n  buffer: 3\n  reuse: {idle: 90s, uptime: 1h}\n")
	today, err := policy.Parse("scaling.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	q := Question{Policy: today}
	bases := slices.Concat(q.bases()...)
	all := append(bases, slices.Concat(q.kept(bases)...)...)
	if len(all) < 50 {
		t.Fatalf("there are %d", len(all))
	}
	for _, o := range all {
		after, err := policy.Apply("scaling.yaml", text, policy.Edit{Set: o.Values()})
		if err != nil {
			t.Fatalf("%v: %v", o.Changes, err)
		}
		read, err := policy.Parse("scaling.yaml", after)
		if err != nil || read.Reuse != o.Policy.Reuse || read.Buffer != o.Policy.Buffer || read.Lookahead != o.Policy.Lookahead || read.WarmIdleTimeout != o.Policy.WarmIdleTimeout {
			t.Errorf("%v: %v\n%s", o.Changes, err, after)
		}
	}
}
