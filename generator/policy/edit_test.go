package policy

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"muster/generator/plan"
)

func starterPolicy(t *testing.T) string {
	text, err := os.ReadFile("../../overlays/default/scaling.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestEditPolicy: what is edited is one line of the difference, and comments stay.
func TestEditPolicy(t *testing.T) {
	end := time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)
	starter := starterPolicy(t)
	minimal := header + "spec:\n  queue: q # the one\n  max: \"10\"\n"
	minimal = strings.Replace(minimal, `"10"`, "10", 1)
	const flow = `overrides: [{until: "2026-11-21T18:00:00Z", max: 4}]`
	commentedOverride := minimal + "  overrides: # by hand\n    # the release\n    - until: 2026-11-21T18:00:00Z # evening\n      max: 3\n  # after\n  min: 1\n"
	overridden := minimal + "  # before\n  overrides:\n    - until: 2026-11-21T18:00:00Z\n      max: 3\n  # after\n  min: 1\n"
	for _, c := range []struct {
		name, text string
		edit       Edit
		was, is    []string // lines
	}{
		{"a value", starter, Edit{Set: map[string]string{"max": "4000"}}, []string{"  max: 10                   # maximum number of agents"}, []string{"  max: 4000                 # maximum number of agents"}},
		{"one behind #", starter, Edit{Set: map[string]string{"paused": "true"}}, []string{"  # paused: false           # true: muster orders no agents"}, []string{"  paused: true              # true: muster orders no agents"}},
		{"one that is not there", minimal, Edit{Set: map[string]string{"buffer": "2"}}, nil, []string{"  buffer: 2"}},
		{"overrides behind #", starter, Edit{Override: true, Overrides: []plan.Override{{Until: end, Max: new(40), Paused: true}}},
			nil,
			[]string{"  overrides:", `    - {until: "2026-11-21T18:00:00Z", max: 40, paused: true}`}},
		{"an override beside another one with comments", commentedOverride, Edit{Override: true, Overrides: []plan.Override{{Until: end, Max: new(3)}, {Until: end, Paused: true}}},
			nil, []string{`    - {until: "2026-11-21T18:00:00Z", paused: true}`}},
		{"the end of an override with comments", commentedOverride, Edit{Override: true},
			[]string{"  overrides: # by hand", "    # the release", "    - until: 2026-11-21T18:00:00Z # evening", "      max: 3"}, []string{"  # by hand"}},
		{"the end of an override in flow style, with a comment", minimal + "  " + flow + " # by hand\n", Edit{Override: true}, []string{"  " + flow + " # by hand"}, []string{"  # by hand"}},
		{"overrides that are not there", minimal, Edit{Override: true, Overrides: []plan.Override{{Until: end, MaxPerHour: new(0)}}}, nil,
			[]string{"  overrides:", `    - {until: "2026-11-21T18:00:00Z", maxPerHour: 0}`}},
		{"other overrides", overridden, Edit{Override: true, Overrides: []plan.Override{{Until: end, Buffer: new(1)}}},
			[]string{"    - until: 2026-11-21T18:00:00Z", "      max: 3"}, []string{`    - {until: "2026-11-21T18:00:00Z", buffer: 1}`}},
		{"no overrides", overridden, Edit{Override: true}, []string{"  overrides:", "    - until: 2026-11-21T18:00:00Z", "      max: 3"}, nil},
		{"no overrides where there are none", minimal, Edit{Override: true}, nil, nil},
		{"reuse behind #", starter, Edit{Set: map[string]string{"reuse": "idle:1m,uptime:30m"}},
			[]string{"  # reuse: {}               # lets agents run several jobs, as in {idle: 1m, uptime: 30m}: see muster's docs/explanation/agent-job.md first"},
			[]string{"  reuse: {idle: 1m, uptime: 30m} # lets agents run several jobs, as in {idle: 1m, uptime: 30m}: see muster's docs/explanation/agent-job.md first"}},
		{"reuse that is not there", minimal, Edit{Set: map[string]string{"reuse": "uptime:2h,idle:90s"}}, nil, []string{"  reuse: {idle: 90s, uptime: 2h}"}},
		{"reuse with idle: auto", minimal, Edit{Set: map[string]string{"reuse": "idle:auto,uptime:30m"}}, nil, []string{"  reuse: {idle: auto, uptime: 30m}"}},
		{"no reuse where there is none", minimal, Edit{Set: map[string]string{"reuse": "none"}}, nil, nil},
		{"another reuse", minimal + "  reuse: {uptime: 30m,  idle: 1m}   # why\n", Edit{Set: map[string]string{"reuse": "idle:5m,uptime:1h"}},
			[]string{"  reuse: {uptime: 30m,  idle: 1m}   # why"}, []string{"  reuse: {idle: 5m, uptime: 1h}     # why"}},
		{"no reuse any more", minimal + "  reuse: {idle: 1m, uptime: 30m}\n  min: 1\n", Edit{Set: map[string]string{"reuse": "none"}},
			[]string{"  reuse: {idle: 1m, uptime: 30m}"}, []string{"  reuse: {}"}},
		{"reuse as a block", minimal + "  reuse: # why\n    idle: 1m\n    uptime: 30m # long\n  # after\n  min: 1\n", Edit{Set: map[string]string{"reuse": "none"}},
			[]string{"  reuse: # why", "    idle: 1m", "    uptime: 30m # long"}, []string{"  reuse: {} # why"}},
		{"several", minimal, Edit{Set: map[string]string{"max": "20", "lease": "auto"}},
			[]string{"  max: 10"}, []string{"  max: 20", "  lease: auto"}},
		{"flow overrides, and CRLF", strings.ReplaceAll(minimal+"  "+flow+"\n", "\n", "\r\n"),
			Edit{Override: true}, []string{"  " + flow + "\r"}, nil},
		{"without a last line end", strings.TrimSuffix(minimal, "\n"), Edit{Set: map[string]string{"min": "1"}}, nil, []string{"  min: 1"}},
	} {
		got, err := Apply("scaling.yaml", []byte(c.text), c.edit)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		was, is := lineDifference(c.text, string(got))
		if diff := cmp.Diff([2][]string{c.was, c.is}, [2][]string{was, is}, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
	}
}

// lineDifference are the lines that are only in one of two texts.
func lineDifference(a, b string) (was, is []string) {
	count := map[string]int{}
	for l := range strings.Lines(b) {
		count[strings.TrimRight(l, "\n")]++
	}
	for l := range strings.Lines(a) {
		if l = strings.TrimRight(l, "\n"); count[l] > 0 {
			count[l]--
		} else {
			was = append(was, l)
		}
	}
	for l := range strings.Lines(b) {
		if l = strings.TrimRight(l, "\n"); count[l] > 0 {
			count[l]--
			is = append(is, l)
		}
	}
	return was, is
}

// TestEditPolicyRefuses: what cannot be set this way, or is not valid, is said.
func TestEditPolicyRefuses(t *testing.T) {
	starter := starterPolicy(t)
	flow := header + "spec: {queue: q, max: 1}\n"
	for _, c := range []struct {
		text string
		set  map[string]string
		want string
	}{
		{starter, map[string]string{"max": "lots"}, `scaling.yaml:13: spec.max: "lots" is not a whole number; write one from 0 to 100000`},
		{starter, map[string]string{"min": "11"}, `scaling.yaml:12: spec.min: 11 is above max, which is 10; raise max or lower min`},
		{starter, map[string]string{"max": "4\n  min: 2"}, `scaling.yaml: spec.max: "4\n  min: 2" is not a valid value`},
		{starter, map[string]string{"reuse": "idle:1m"}, `scaling.yaml: spec.reuse: "idle:1m" is not a valid value: write idle:1m,uptime:30m, or none`},
		{starter, map[string]string{"reuse": "idle:1m,idle:2m"}, `scaling.yaml: spec.reuse: "idle:1m,idle:2m" is not*`},
		{starter, map[string]string{"reuse": "idle:1m,uptime:30m}"}, `scaling.yaml: spec.reuse: "idle:1m,uptime:30m}" is not*`},
		{starter, map[string]string{"reuse": "1m"}, `scaling.yaml: spec.reuse: "1m" is not a valid value: write idle:1m,uptime:30m, or none`},
		{starter, map[string]string{"reuse": "idle:1h,uptime:30m"}, "scaling.yaml:20: spec.reuse.idle: 1h is not below uptime, which is 30m*"},
		{header + "spec:\n  queue: q\n  max: 1\n  reuse: {idle: 1m,\n    uptime: 30m}\n", map[string]string{"reuse": "none"}, "scaling.yaml:6: spec.reuse: is not written as a block, a field a line: edit it by hand"},
		{header + "spec:\n  queue: q\n  max: 1\n  reuse:\n            {idle: 1m, uptime: 30m}\n", map[string]string{"reuse": "none"}, "scaling.yaml:6: spec.reuse: is not written as a block, a field a line: edit it by hand"},
		{starter, map[string]string{"queue": "other"}, "queue: cannot be set this way; the settings are min, max, *"},
		{starter, map[string]string{"maximum": "1"}, "maximum: cannot be set this way; did you mean max?"},
		{flow, map[string]string{"max": "2"}, "scaling.yaml: spec: is not written as a block, a field a line: edit it by hand"},
		{"spec: [", map[string]string{"max": "2"}, "scaling.yaml*"},
	} {
		_, err := Apply("scaling.yaml", []byte(c.text), Edit{Set: c.set})
		prefix, open := strings.CutSuffix(c.want, "*")
		if err == nil || err.Error() != c.want && !(open && strings.HasPrefix(err.Error(), prefix)) {
			t.Errorf("%v: %v\nwant %s", c.set, err, c.want)
		}
	}
}
