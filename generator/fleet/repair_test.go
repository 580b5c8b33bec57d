package fleet

import (
	"strings"
	"testing"
	"time"

	"muster/generator/plan"
)

// TestRaised asserts which texts a repair may write of an order that an edit raised: with the number
// of agents that were ordered, and a time of the withdrawal that is not too late.
func TestRaised(t *testing.T) {
	f := sound(t)
	o := load(t, NewLoader("overlays"), f.tree())[0]
	d := order("default-aaaaaaaa", 10)
	_, changes, err := o.Add([]plan.Dispatch{d})
	if err != nil {
		t.Fatal(err)
	}
	f.apply(changes)
	const file = "overlays/default/" + dispatchDir + "/default-aaaaaaaa.yaml"
	text := []byte(f[file])
	at := d.At.Add(5 * time.Minute)
	for name, c := range map[string]struct {
		agents, ordered int
		later           time.Duration
		withdrawn       time.Time
		want            bool
	}{
		"more agents":             {30, 10, 0, at, true},
		"a later lease":           {10, 10, time.Minute, at, true},
		"unknown when":            {30, 10, 0, time.Time{}, true},
		"by an earlier version":   {30, 0, 0, time.Time{}, true},
		"other agents ordered":    {30, 11, 0, at, false},
		"withdrawn later":         {30, 10, 0, at.Add(time.Second), false},
		"when, but not how many":  {30, 0, 0, at, false},
		"not raised":              {10, 10, 0, at, false},
		"not raised, and no time": {10, 10, 0, time.Time{}, false},
		"fewer agents":            {9, 10, 0, at, false},
	} {
		x := d
		x.Agents, x.NotAfter, x.Ordered, x.WithdrawnAt = c.agents, d.NotAfter.Add(c.later), c.ordered, c.withdrawn
		written, err := raised(text, x)
		if err != nil {
			t.Fatal(err)
		}
		if got := Raised(file, written, text, at); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
		if Raised(file, append(written, "# more\n"...), text, at) {
			t.Errorf("%s, and a comment: it is accepted", name)
		}
		read, err := Original(file, written)
		if err != nil || read.Ordered != c.ordered || !read.WithdrawnAt.Equal(c.withdrawn) {
			t.Errorf("%s: read as %+v, %v", name, read, err)
		}
	}
	for _, wrong := range []string{`ordered-agents: "0"`, `ordered-agents: "010"`, `ordered-agents: ten`, `withdrawn-at: soon`, `withdrawn-at: ""`} {
		edited := strings.Replace(string(text), "    muster.dev/template:", "    muster.dev/"+wrong+"\n    muster.dev/template:", 1)
		if _, err := ParseDispatch(file, []byte(edited)); edited == string(text) || err == nil || !strings.Contains(err.Error(), strings.Split(wrong, ":")[0]) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
