package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/generator/plan"

	"github.com/google/go-cmp/cmp"
)

const header = "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\n"

// wantFindings asserts what is wrong with a policy: a line for each finding, without its file.
func wantFindings(t *testing.T, text, want string) {
	t.Helper()
	const file = "overlays/default/scaling.yaml"
	want = file + strings.ReplaceAll(want, "\n", "\n"+file)
	_, err := Parse(file, []byte(text))
	if got := fmt.Sprint(err); got != want {
		t.Errorf("of\n%.1000s got\n  %s\nwant\n  %s", text, got, want)
	}
}

func TestPolicyDefaults(t *testing.T) {
	got, err := Parse("scaling.yaml", []byte(header+"spec: {queue: default, max: 50}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := plan.Policy{
		Queue: "default", Max: 50,
		Lease: 15 * time.Minute, IdleTimeout: 5 * time.Minute, WarmIdleTimeout: time.Hour,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A lease that goes by boots is 15 minutes until they are known.
func TestPolicyLeaseAuto(t *testing.T) {
	for _, text := range []string{"auto", `"auto"`} {
		got, err := Parse("scaling.yaml", []byte(header+"spec: {queue: default, max: 50, lease: "+text+"}\n"))
		if err != nil || !got.LeaseAuto || got.Lease != 15*time.Minute {
			t.Errorf("%s: auto %t, lease %s: %v", text, got.LeaseAuto, got.Lease, err)
		}
	}
}

// The idle time that is derived from gaps is 15 seconds until they are known.
func TestPolicyIdleAuto(t *testing.T) {
	for _, idle := range []string{"auto", `"auto"`} {
		got, err := Parse("scaling.yaml", []byte(header+"spec: {queue: default, max: 50, reuse: {idle: "+idle+", uptime: 30m}}\n"))
		want := plan.Reuse{Idle: 15 * time.Second, Uptime: 30 * time.Minute, Auto: true}
		if err != nil || got.Reuse != want || showReuse(got) != "idle auto uptime 30m" {
			t.Errorf("%s: %+v, shown as %q: %v", idle, got.Reuse, showReuse(got), err)
		}
	}
}

func TestPolicyInFull(t *testing.T) {
	got, err := Parse("scaling.yaml", []byte(header+`metadata: {name: for people only}
spec:
  queue: Linux_amd64-1
  cluster: "My cluster"
  tags: {size: large, os: linux, "team:ci": "1"}
  min: 3
  max: 100000
  buffer: 2
  lookahead: 0.25
  lease: 20m
  idleTimeout: 90s
  warmIdleTimeout: 1h30m
  reuse: {idle: 1m, uptime: 30m}
  priority: 7
  paused: true
`))
	if err != nil {
		t.Fatal(err)
	}
	want := plan.Policy{
		Queue: "Linux_amd64-1", Cluster: "My cluster", Tags: []string{"os=linux", "size=large", "team:ci=1"},
		Min: 3, Max: 100_000, Buffer: 2, Lookahead: 0.25,
		Lease: 20 * time.Minute, IdleTimeout: 90 * time.Second, WarmIdleTimeout: 90 * time.Minute,
		Reuse:    plan.Reuse{Idle: time.Minute, Uptime: 30 * time.Minute},
		Priority: 7, Paused: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestPolicySpec breaks one field of spec at a time. The lines are the third
// and following of the file; queue and max are there unless the case has them.
func TestPolicySpec(t *testing.T) {
	const keys = "a key has 1 to 100 letters (a to z, A to Z), digits, hyphens and underscores"
	const fields = "the fields of spec are queue, cluster, tags, min, max, buffer, lookahead, lease, idleTimeout, warmIdleTimeout, reuse, priority, maxPerHour, paused, schedules, overrides"
	for _, c := range []struct{ lines, want string }{
		{`maxx: 5`, `:4: spec.maxx: is not a field of a policy; did you mean max?`}, {`nonsense: 5`, `:4: spec.nonsense: is not a field of a policy; ` + fields},
		{`"a\nb": 5`, `:4: spec.a b: is not a field of a policy; ` + fields},
		{`Min: 5`, `:4: spec.Min: is not a field of a policy; did you mean min?`},
		{"min: 1\nmin: 2", `:5: has "min" twice; keep one`},
		{`queue: ../../etc`, `:4: spec.queue: "../../etc" is not the key of a Buildkite queue; ` + keys},
		{`queue: Prod Größe`, `:4: spec.queue: "Prod Größe" is not the key of a Buildkite queue; ` + keys},
		{`queue: ""`, `:4: spec.queue: "" is not the key of a Buildkite queue; ` + keys},
		{`queue: ` + strings.Repeat("q", 101), `:4: spec.queue: "` + strings.Repeat("q", 60) + `…" is not the key of a Buildkite queue; ` + keys},
		{`queue: [a, b]`, `:4: spec.queue: a list is not the key of a Buildkite queue; ` + keys},
		{`queue: 12`, `:4: spec.queue: 12 is not a string; write it in quotes`},
		{`queue:`, `:4: spec.queue: has no value; write one`},
		{`cluster: 7`, `:4: spec.cluster: 7 is not a string; write it in quotes`},
		{`min: 51`, `:4: spec.min: 51 is above max, which is 50; raise max or lower min`},
		{`min: -1`, `:4: spec.min: -1 is too small; write one from 0 to 100000`},
		{`max: -1`, `:4: spec.max: -1 is too small; write one from 0 to 100000`},
		{`max: 100001`, `:4: spec.max: 100001 is too large; write one from 0 to 100000`},
		{`max: "5"`, `:4: spec.max: "5" is not a whole number; write one from 0 to 100000, without quotes`},
		{`max: 5.5`, `:4: spec.max: 5.5 is not a whole number; write one from 0 to 100000`},
		{`max: 0x10`, `:4: spec.max: 0x10 is not a whole number; write one from 0 to 100000`},
		{`max: 99999999999999999999`, `:4: spec.max: 99999999999999999999 is not a whole number; write one from 0 to 100000`},
		{`max: {}`, `:4: spec.max: a mapping is not a whole number; write one from 0 to 100000`},
		{`buffer: -2`, `:4: spec.buffer: -2 is too small; write one from 0 to 100000`},
		{`priority: -2`, `:4: spec.priority: -2 is too small; write one from 0 to 100000`},
		{`lookahead: 1.5`, `:4: spec.lookahead: 1.5 is not a share from 0 to 1; write 0 to start agents for runnable jobs only, 1 for every waiting job too`},
		{`lookahead: -0.1`, `:4: spec.lookahead: -0.1 is not a share from 0 to 1; write 0 to start agents for runnable jobs only, 1 for every waiting job too`},
		{`lookahead: .nan`, `:4: spec.lookahead: .nan is not a share from 0 to 1; write 0 to start agents for runnable jobs only, 1 for every waiting job too`},
		{`lease: 15`, `:4: spec.lease: 15 is not a duration as in 90s, 15m or 1h30m; write one from 1m to 24h, or auto`},
		{`lease: Auto`, `:4: spec.lease: "Auto" is not a duration as in 90s, 15m or 1h30m; write one from 1m to 24h, or auto`},
		{`lease: soon`, `:4: spec.lease: "soon" is not a duration as in 90s, 15m or 1h30m; write one from 1m to 24h, or auto`},
		{`lease: 59s`, `:4: spec.lease: 59s is too short; write one from 1m to 24h, or auto`},
		{`lease: -15m`, `:4: spec.lease: -15m is too short; write one from 1m to 24h, or auto`},
		{`lease: 24h1s`, `:4: spec.lease: 24h1s is too long; write one from 1m to 24h, or auto`},
		{`lease: 90.5s`, `:4: spec.lease: 90.5s is not in whole seconds; write one from 1m to 24h, or auto`},
		{`idleTimeout: 9s`, `:4: spec.idleTimeout: 9s is too short; write one from 10s to 24h`},
		{`warmIdleTimeout: 169h`, `:4: spec.warmIdleTimeout: 169h is too long; write one from 1m to 168h`},
		{`reuse: 30m`, `:4: spec.reuse: "30m" is not a mapping; write both, as in {idle: 1m, uptime: 30m}`},
		{`reuse: true`, `:4: spec.reuse: true is not a mapping; write both, as in {idle: 1m, uptime: 30m}`},
		{`reuse: {idle: 1m}`, `:4: spec.reuse.uptime: is missing; write both, as in {idle: 1m, uptime: 30m}`},
		{"reuse:\n    uptime: 30m", `:5: spec.reuse.idle: is missing; write both, as in {idle: 1m, uptime: 30m}`},
		{`reuse: {idle: 1m, uptimes: 30m}`, `:4: spec.reuse.uptimes: is not a field of reuse; did you mean uptime?`},
		{"reuse:\n    idle: 4s\n    uptime: 30m", `:5: spec.reuse.idle: 4s is too short; write one from 5s to 24h, or auto`},
		{"reuse:\n    idle: 1m\n    uptime: 169h", `:6: spec.reuse.uptime: 169h is too long; write one from 1m to 168h`},
		{"reuse:\n    idle: 30m\n    uptime: 30m", `:5: spec.reuse.idle: 30m is not below uptime, which is 30m; raise uptime or lower idle`},
		{`tags: {muster-uptime: "60"}`, `:4: spec.tags.muster-uptime: is filled in by muster; remove it; tags of your own go here`},
		{`maxPerHour: -1`, `:4: spec.maxPerHour: -1 is too small; write one from 0 to 100000`},
		{`paused: "true"`, `:4: spec.paused: "true" is neither true nor false`},
		{`paused: yes`, `:4: spec.paused: "yes" is neither true nor false`},
		{`tags: [os=linux]`, `:4: spec.tags: a list is not a mapping; write tags as in {os: linux, size: large}`},
		{"tags:\n    os: linux\n    gpu: 1", `:6: spec.tags.gpu: 1 is not a string; write it in quotes`},
		{`tags: {queue: other}`, `:4: spec.tags.queue: is filled in by muster; remove it; tags of your own go here`},
		{`tags: {Dispatch: x}`, `:4: spec.tags.Dispatch: is filled in by muster; remove it; tags of your own go here`},
		{`tags: {index: "1"}`, `:4: spec.tags.index: is filled in by muster; remove it; tags of your own go here`},
		{`tags: {overlay: x}`, `:4: spec.tags.overlay: is filled in by muster; remove it; tags of your own go here`},
		{`tags: {"a=b": c}`, `:4: spec.tags.a=b: is not the key of an agent tag; a key has no comma, no = and no white space`},
		{`tags: {"a b": c}`, `:4: spec.tags.a b: is not the key of an agent tag; a key has no comma, no = and no white space`},
		{`tags: {a: "b,queue=x"}`, `:4: spec.tags.a: "b,queue=x" is not the value of an agent tag; a value has no comma and no white space, and is not empty`},
		{`tags: {a: ""}`, `:4: spec.tags.a: "" is not the value of an agent tag; a value has no comma and no white space, and is not empty`},
		{`tags: {a: "b\nc"}`, `:4: spec.tags.a: "b\nc" is not the value of an agent tag; a value has no comma and no white space, and is not empty`},
		{"tags: {a: b, a: c}", `:4: has "a" twice; keep one`},
		{"tags: &x {a: b}", `:4: uses a YAML anchor or alias; write the value out`},
		{"tags: {<<: {a: b}}", `:4: has a key that is not a plain word`},
		{"max: 1\n  min: [", `:5: is not valid YAML: a list is not closed; close it with ]`},
		{"lookahead: 50%", `:4: spec.lookahead: "50%" is not a share from 0 to 1; write 0.5`},
		{"lookahead: 50", `:4: spec.lookahead: 50 is not a share from 0 to 1; write 0.5`},
		{"lookahead: '0.5'", `:4: spec.lookahead: "0.5" is not a share from 0 to 1; write 0.5, without quotes`},
		{"max: 1: 2", `:4: is not valid YAML: a colon is where no key can be; indent the line like its neighbours, or put a value that contains a colon and a space in quotes`},
		{"max: %2", ":4: is not valid YAML: a value begins with @, % or `; put the value in quotes"},
	} {
		t.Run(strings.ReplaceAll(c.lines, "\n", " "), func(t *testing.T) {
			text := header + "spec:\n"
			for line := range strings.Lines(c.lines + "\n") {
				text += "  " + strings.TrimPrefix(line, "  ")
			}
			for _, need := range []string{"queue: default", "max: 50"} {
				if !strings.Contains(text, "  "+strings.SplitAfter(need, ":")[0]) {
					text += "  " + need + "\n"
				}
			}
			wantFindings(t, text, c.want)
		})
	}
}

func TestPolicyFile(t *testing.T) {
	good := header + "spec: {queue: default, max: 50}\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":          {"", `: is empty`},
		"comments only":  {"# nothing\n", `: is empty`},
		"a list":         {"- a\n", `:1: is not a YAML mapping; write fields as key: value`},
		"two documents":  {good + "---\n" + good, `:4: has a second YAML document; keep one, without the line ---`},
		"bytes":          {"a: \x00\n", `:1: is not valid YAML: it has a control character; remove the character`},
		"no spec":        {header, `: spec: is missing; it has queue and max at least`},
		"spec is a list": {header + "spec: []\n", `:3: spec: is not a mapping; it has queue and max at least`},
		"empty spec":     {header + "spec: {}\n", ":3: spec.queue: is missing; write the key of the Buildkite queue\n:3: spec.max: is missing; write the maximum number of agents"},
		"other version":  {strings.Replace(good, "v1alpha1", "v2", 1), `:1: apiVersion: is "muster.dev/v2"; write apiVersion: muster.dev/v1alpha1`},
		"other kind":     {strings.Replace(good, "ScalingPolicy", "Job", 1), `:2: kind: is "Job"; write kind: ScalingPolicy`},
		"no kind":        {strings.Replace(good, "kind: ScalingPolicy\n", "", 1), `: kind: is missing; write kind: ScalingPolicy`},
		"a field beside": {good + "status: {}\n", `:4: status: is not a field of a policy; the fields are apiVersion, kind and spec`},
		"two megabytes":  {good + strings.Repeat("#", 2<<20), `: is 2097236 bytes and was not read; a policy has at most 32768`},
		"several are broken": {header + "spec: {queue: '', max: no, buffer: -1}\n", `:3: spec.queue: "" is not the key of a Buildkite queue; a key has 1 to 100 letters (a to z, A to Z), digits, hyphens and underscores` +
			"\n:3: spec.max: \"no\" is not a whole number; write one from 0 to 100000\n:3: spec.buffer: -1 is too small; write one from 0 to 100000"},
		"nested": {strings.Repeat("{a: ", 200) + strings.Repeat("}", 200), `:1: is nested too deeply`},
	} {
		t.Run(name, func(t *testing.T) {
			wantFindings(t, c.text, c.want)
		})
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add([]byte(header + "spec: {queue: default, max: 50, tags: {a: b}, lookahead: 0.5, lease: 2m, paused: false}\n"))
	f.Add([]byte("&a [*a]"))
	f.Add([]byte("a: !!binary x\n? [b]\n: c"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("scaling.yaml", data)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\r\x00\x1b") || strings.Contains(err.Error(), "\n\n") {
				t.Errorf("not plain lines: %q", err)
			}
			return
		}
		if p.Min < 0 || p.Min > p.Max || p.Buffer < 0 || p.Lookahead < 0 || p.Lookahead > 1 || p.Lease < time.Minute || p.IdleTimeout <= 0 || p.WarmIdleTimeout <= 0 || !queueRule.MatchString(p.Queue) {
			t.Errorf("taken: %+v", p)
		}
		for _, tag := range p.Tags {
			if strings.Count(tag, ",") > 0 || strings.HasPrefix(tag, "=") || strings.HasPrefix(tag, "queue=") {
				t.Errorf("taken: %q", tag)
			}
		}
	})
}

// TestManySchedules: a policy of thousands of schedules is refused in one line, and
// time zones are loaded once for all policies.
func TestManySchedules(t *testing.T) {
	text := header + "spec:\n  queue: q\n  max: 1\n  schedules:\n"
	for i := range maxSchedules + 1 {
		text += fmt.Sprintf("  - {name: s%d, days: [Mon], from: \"00:00\", to: \"01:00\", timeZone: Europe/Berlin, max: 2}\n", i)
	}
	if _, err := Parse("p", []byte(text)); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "are 101") {
		t.Error(err)
	}
	one := text[:strings.Index(text, "  - {name: s2,")]
	z := Zones{}
	for range 2 {
		p, findings := z.Parse("p", []byte(one))
		if len(findings) > 0 || p.Schedules[0].Zone != p.Schedules[1].Zone || p.Schedules[0].Zone != z["Europe/Berlin"] {
			t.Errorf("%v: the zones differ", findings)
		}
	}
}
