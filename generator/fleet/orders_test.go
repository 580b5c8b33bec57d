package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/plan"
	"muster/generator/policy"
	"muster/gitops/unraced"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// orders draws dispatches that can be stamped.
func orders() *rapid.Generator[plan.Dispatch] {
	return rapid.Custom(func(t *rapid.T) plan.Dispatch {
		at := time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(t, "at"), 0).UTC()
		return plan.Dispatch{
			ID:          rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?`).Filter(func(id string) bool { return id != "state" && id != "kustomization" }).Draw(t, "id"),
			Purpose:     rapid.SampledFrom([]plan.Purpose{plan.ForDemand, plan.ForWarmPool}).Draw(t, "purpose"),
			Agents:      rapid.IntRange(1, policy.MaxAgents).Draw(t, "agents"),
			At:          at,
			NotAfter:    at.Add(time.Duration(rapid.IntRange(0, 86400).Draw(t, "lease")) * time.Second),
			IdleTimeout: time.Duration(rapid.IntRange(1, 1_000_000).Draw(t, "idle")) * time.Second,
			Uptime:      time.Duration(max(0, rapid.IntRange(-1_000_000, 1_000_000).Draw(t, "uptime"))) * time.Second,
			Template:    rapid.SampledFrom([]string{"5eed0f1ee75a0000", "0f1ee75a0f1ee75a"}).Draw(t, "template"),
			Cluster:     rapid.SampledFrom([]string{"", "ci"}).Draw(t, "cluster"),
		}
	})
}

// recordedOrders draws orders as state.yaml has them, sorted by ID.
func recordedOrders() *rapid.Generator[[]plan.Dispatch] {
	text := rapid.StringMatching(`[ -~äλ中😀]{0,20}`)
	one := rapid.Custom(func(t *rapid.T) plan.Dispatch {
		d := orders().Draw(t, "order")
		d.ID += rapid.StringMatching(`-[0-9a-hjkmnp-tv-z]{8}`).Draw(t, "hash") // as real ones
		d.Tags = rapid.SliceOfN(text, 0, 4).Draw(t, "tags")
		d.Cluster = text.Draw(t, "cluster")
		d.Withdrawn, d.PutBack = rapid.Bool().Draw(t, "withdrawn"), rapid.Bool().Draw(t, "put back")
		d.Manifest = digestOf([]byte(d.ID))
		return d
	})
	return rapid.Map(rapid.SliceOfNDistinct(one, 0, 5, func(d plan.Dispatch) string { return d.ID }), func(all []plan.Dispatch) []plan.Dispatch {
		slices.SortFunc(all, func(a, b plan.Dispatch) int { return strings.Compare(a.ID, b.ID) })
		return all
	})
}

// TestOrdersAreReadAgain: orders are read as they were printed, and in the layout of any formatter.
func TestOrdersAreReadAgain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := recordedOrders().Draw(rt, "orders")
		printed := string(printOrders(want))
		name := rapid.SampledFrom([]string{"as printed", "JSON", "CRLF", "document", "no ending", "indent", "quotes", "single quotes", "order", "comments"}).Draw(rt, "layout")
		text := printed
		switch name {
		case "as printed":
		case "comments":
			text = strings.ReplaceAll(printed, "\n  ", "\n\n  # a person's note\n  ") + "# the end\n"
		case "CRLF":
			text = strings.ReplaceAll(printed, "\n", "\r\n")
		default:
			text = documentEnd + formatters[name](t, strings.TrimPrefix(printed, documentEnd))
			text = strings.Replace(text, documentEnd+documentEnd, documentEnd, 1)
		}
		for _, head := range []string{"", stateHeader, documentEnd + stateHeader} {
			_, second := cutState([]byte(head + text))
			got, problem := readOrders(second)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || problem != "" {
				rt.Fatalf("%s: %s\n%s\n%s", name, problem, diff, head+text)
			}
		}
		if got := ReadOrders([]byte(stateHeader + text)); len(got) != len(want) {
			rt.Fatalf("ReadOrders returns %v", got)
		}
		for _, d := range want {
			if got, found := ReadOrder([]byte(stateHeader+text), d.ID); !found || !sameOrder(got, d) {
				rt.Fatalf("ReadOrder(%s) is %v, %t", d.ID, got, found)
			}
		}
	})
}

const goodLine = `  default-aaaaaaaa: {"purpose":"demand","agents":3,"orderedAt":"2026-11-21T02:15:00Z","startDeadline":"2026-11-21T02:30:00Z","idleTimeout":"5m0s","tags":["queue=default"],"manifest":"sha256-00"}` + "\n"

// TestOrdersOfAnyText reads hostile and damaged documents: the problem is one short line.
func TestOrdersOfAnyText(t *testing.T) {
	unraced.Only(t)
	with := func(old, new string) string {
		if strings.Count(goodLine, old) != 1 {
			t.Fatalf("%q is there %d times", old, strings.Count(goodLine, old))
		}
		return strings.Replace(goodLine, old, new, 1)
	}
	agents := func(n string) string { return with(`"agents":3`, `"agents":`+n) }
	deadline := func(at string) string { return with("2026-11-21T02:30:00Z", at) }
	block := strings.NewReplacer("{", "\n    ", "}", "", `","`, "\"\n    \"", `,"`, "\n    \"", `":`, `": `).Replace(goodLine)
	for _, c := range []struct {
		name, text string
		orders     int
		problem    string // how it begins
	}{
		{"nothing", "", 0, ""},
		{"only a comment", "# nothing\n\n", 0, ""},
		{"no orders", "orders:\n", 0, ""},
		{"no orders, of a formatter", "orders: {}\n", 0, ""},
		{"one", "orders:\n" + goodLine, 1, ""},
		{"one as a block", "orders:" + "\n" + block, 1, ""},
		{"without the first line", goodLine, 1, ""},
		{"no ending", "orders:\n" + strings.TrimSuffix(goodLine, "\n"), 1, ""},
		{"twice", "orders:\n" + goodLine + goodLine, 1, ""},
		{"twice, withdrawn in one", "orders:\n" + goodLine + with(`,"manifest"`, `,"withdrawn":true,"manifest"`), 1, ""},
		{"twice, differing", "orders:\n" + goodLine + agents("4"), 0, "default-aaaaaaaa is there twice, with different values"},
		{"twice, as a block", "orders:\n" + block + block, 0, `has "default-aaaaaaaa" twice`},
		{"a third document", "orders:\n" + goodLine + "---\norders:\n" + strings.ReplaceAll(goodLine, "aaaa", "bbbb"), 0, "has a second YAML document"},
		{"conflict", "orders:\n<<<<<<< HEAD\n" + goodLine + "=======\n>>>>>>> x\n", 0, "is not valid YAML"},
		{"half a line", "orders:\n" + goodLine[:80] + "\n", 0, "is not valid YAML"},
		{"more after a line", "orders:\n" + strings.TrimSuffix(goodLine, "\n") + "}\n", 0, "is not valid YAML"},
		{"an unknown field", "orders:\n" + with(`"agents"`, `"mood":"bad","agents"`), 0, `error unmarshaling JSON: while decoding JSON: json: unknown field "mood"`},
		{"another key", "orders:\n" + goodLine + "agents: 5\n", 0, `error unmarshaling JSON: while decoding JSON: json: unknown field "agents"`},
		{"the wrong type", "orders: [1]\n", 0, "error unmarshaling JSON"},
		{"no mapping", "orders\n", 0, "is not a YAML mapping"},
		{"an order without values", "orders:\n  default-aaaaaaaa:\n", 0, `"default-aaaaaaaa": "" is not a duration`},
		{"no agents", "orders:\n" + agents("0"), 0, "dispatch default-aaaaaaaa: 0 agents"},
		{"fewer", "orders:\n" + agents("-3"), 0, "dispatch default-aaaaaaaa: -3 agents"},
		{"too many agents", "orders:\n" + agents("100001"), 0, "dispatch default-aaaaaaaa: 100001 agents"},
		{"a huge number", "orders:\n" + agents("99999999999999999999999999"), 0, "error unmarshaling JSON"},
		{"a huge exponent", "orders:\n" + agents("1e999999"), 0, "error unmarshaling JSON"},
		{"half an agent", "orders:\n" + agents("1.5"), 0, "error unmarshaling JSON"},
		{"no tags", "orders:\n" + with(`"tags":["queue=default"],`, ""), 0, `"default-aaaaaaaa" has no tags`},
		{"an empty list of tags", "orders:\n" + with(`["queue=default"]`, "[]"), 1, ""},
		{"the longest lease", "orders:\n" + deadline("2026-11-22T02:15:00Z"), 1, ""},
		{"a longer one", "orders:\n" + deadline("2026-11-22T02:15:01Z"), 0, `"default-aaaaaaaa": its agents could start for longer than 24h0m0s`},
		{"a later year", "orders:\n" + deadline("9999-12-31T23:59:59Z"), 0, `"default-aaaaaaaa": its agents could start for longer than`},
		{"a year beyond", "orders:\n" + deadline("99999-12-31T23:59:59Z"), 0, "error unmarshaling JSON"},
		{"beyond in UTC", "orders:\n" + strings.NewReplacer("2026-11-21T02:15:00Z", "9999-12-31T23:59:59-23:00", "2026-11-21T02:30:00Z", "9999-12-31T23:59:59-23:00").Replace(goodLine), 0, "dispatch default-aaaaaaaa: ordered at 10000"},
		{"no time", "orders:\n" + deadline("soon"), 0, "error unmarshaling JSON"},
		{"a part of a second", "orders:\n" + deadline("2026-11-21T02:30:00.5Z"), 0, "dispatch default-aaaaaaaa: its times are not whole seconds"},
		{"before the order", "orders:\n" + deadline("2026-11-21T02:14:59Z"), 0, "dispatch default-aaaaaaaa: ordered at"},
		{"no time-out", "orders:\n" + with(`"5m0s"`, `""`), 0, `"default-aaaaaaaa": "" is not a duration`},
		{"a negative time-out", "orders:\n" + with("5m0s", "-5m0s"), 0, "dispatch default-aaaaaaaa: an idle time-out of -5m0s"},
		{"an endless time-out", "orders:\n" + with("5m0s", "9999999999h"), 0, `"default-aaaaaaaa": "9999999999h" is not a duration`},
		{"no uptime", "orders:\n" + with(`"tags"`, `"uptime":"x","tags"`), 0, `"default-aaaaaaaa": "x" is not a duration`},
		{"no purpose", "orders:\n" + with("demand", "fun"), 0, `dispatch default-aaaaaaaa: purpose "fun"`},
		{"an ID that is a path", "orders:\n" + with("default-aaaaaaaa", `"../x"`), 0, `dispatch "../x": its ID is not a valid Job name`},
		{"an ID of several lines", "orders:\n" + with("default-aaaaaaaa", `"x\nTrailer: y"`), 0, `dispatch "x\nTrailer: y": its ID is not a valid Job name`},
		{"an empty ID", "orders:\n" + with("default-aaaaaaaa", `""`), 0, `dispatch "": its ID is not a valid Job name`},
		{"an ID of muster's own files", "orders:\n" + with("default-aaaaaaaa", "state"), 0, "dispatch state: its file would be muster's own"},
		{"a long ID", "orders:\n" + with("default-aaaaaaaa", strings.Repeat("x", largestLayout/8)), 0, "dispatch xxx"},
		{"a long name of a field", "orders:\n" + with("agents", strings.Repeat("x", largestLayout/8)), 0, "is not valid YAML"},
		{"an alias bomb", "a: &a [x, x]\nb: &b [*a, *a]\norders: {}\n", 0, "uses a YAML anchor or alias"},
		{"a long text in many places", "a: &a " + strings.Repeat("x", largestLayout/8) + "\norders: [" + strings.Repeat("*a, ", largestLayout/32) + "]\n", 0, "uses a YAML anchor or alias"},
		{"within itself", "orders: &a {x: *a}\n", 0, "uses a YAML anchor or alias"},
		{"a merge", "orders:\n  <<: {x: 1}\n", 0, "has a key that is not a plain word"},
		{"nested", "orders: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), 0, "is nested too deeply"},
		{"nested deeper", "orders: " + strings.Repeat("[", largestLayout/8), 0, "is not valid YAML"},
		{"nested in a line", "orders:\n" + with(`["queue=default"]`, strings.Repeat("[", largestLayout/32)+strings.Repeat("]", largestLayout/32)), 0, "is not valid YAML"},
		{"binary", "orders:\n\x00\x01\xff\n", 0, "is not valid YAML"},
	} {
		got, problem := readOrders(c.text)
		if len(got) != c.orders || !strings.HasPrefix(problem, c.problem) || (problem == "") != (c.problem == "") {
			t.Errorf("%s: %d orders, %.300s", c.name, len(got), problem)
		}
		if len(problem) > 1000 || strings.ContainsAny(problem, "\n\x00\x1b") {
			t.Errorf("%s: not one short line: %.1000q", c.name, problem)
		}
		if strings.HasPrefix(c.name, "twice, withdrawn") && !got[0].Withdrawn {
			t.Errorf("%s: it is not withdrawn", c.name)
		}
	}
}

// TestDocumentsOfState: each document of state.yaml is read if the other is missing or damaged, wherever
// a formatter writes the line between them.
func TestDocumentsOfState(t *testing.T) {
	const head = "apiVersion: muster.dev/v1alpha1\nkind: OverlayState\nservedAt: \"2026-11-21T02:15:00Z\"\n"
	const orders = "orders:\n" + goodLine
	for _, c := range []struct {
		name, text string
		state      bool // is read
		orders     int
		problem    string
	}{
		{"both", head + "---\n" + orders, true, 1, ""},
		{"only the first", head, true, 0, ""},
		{"only the second", "---\n" + orders, false, 1, ""},
		{"the first is damaged", "<<<<<<< HEAD\n" + head + "---\n" + orders, false, 1, ""},
		{"the first is too large", head + strings.Repeat("#", policy.MaxSize) + "\n---\n" + orders, false, 1, ""},
		{"the second is damaged", head + "---\n<<<<<<< HEAD\n" + orders, true, 0, "is not valid YAML"},
		{"a line before the first", "---\n" + head + "---\n" + orders, true, 1, ""},
		{"a line before and after", "---\n" + head + "---\n" + orders + "...\n", true, 1, ""},
		{"a space in the line", head + "--- \n" + orders, true, 1, ""},
		{"a comment in the line", head + "--- # the orders\n" + orders, true, 1, ""},
		{"other line endings", strings.ReplaceAll(head+"---\n"+orders, "\n", "\r\n"), true, 1, ""},
		{"a third document", head + "---\n" + orders + "---\n" + head, true, 0, "has a second YAML document"},
		{"the first is there twice", head + "---\n" + head + "---\n" + orders, true, 0, "has a second YAML document"},
		{"nothing", "", false, 0, ""},
		{"only lines", "---\n---\n", false, 0, ""},
	} {
		f := sound(t)
		f[stateOf] = c.text
		o := load(t, NewLoader("overlays"), f.tree())[0]
		if read := !o.LostState() && !o.State.ServedAt.IsZero(); read != c.state || (o.InvalidState() == nil) != c.state {
			t.Errorf("%s: state read %t, %v", c.name, read, o.InvalidState())
		}
		if len(o.Recorded()) != c.orders || !strings.HasPrefix(o.ordersProblem, c.problem) || (c.problem == "") != (o.ordersProblem == "") {
			t.Errorf("%s: %d orders, %s", c.name, len(o.Recorded()), o.ordersProblem)
		}
	}
}

// TestManyOrders: ten thousand orders are below the maximum size, and are read in either layout. A larger
// file suspends the overlay and is not changed.
func TestManyOrders(t *testing.T) {
	unraced.Only(t)
	var want []plan.Dispatch
	for i := range 10_000 {
		d := order(fmt.Sprintf("default-%08d", i), 100)
		d.Tags, d.Template, d.Manifest = []string{"queue=default", "os=linux", "size=large", "overlay=default", "muster=0123456789"}, "d377178af11eb446", digestOf(nil)
		want = append(want, d)
	}
	few := want[:1000]
	for name, c := range map[string]struct {
		text    string
		orders  []plan.Dispatch
		problem bool
	}{
		"as printed":              {string(printOrders(want)), want, false},
		"in another layout":       {documentEnd + formatters["order"](t, strings.TrimPrefix(string(printOrders(few)), documentEnd)), few, false},
		"many, in another layout": {strings.ReplaceAll(string(printOrders(want)), ":", ": "), nil, true},
	} {
		_, second := cutState([]byte(stateHeader + c.text))
		if got, problem := readOrders(second); len(second) > largestState || (problem != "") != c.problem || !slices.EqualFunc(got, c.orders, sameOrder) {
			t.Errorf("%s: %d orders in %d bytes, %.200s", name, len(got), len(second), problem)
		}
	}
	f := sound(t)
	for size, fits := range map[int]bool{largestState: true, largestState + 1: false} {
		f[stateOf] = string(printState(plan.State{}, want))
		f[stateOf] += strings.Repeat("#", size-len(f[stateOf])-1) + "\n"
		o := load(t, NewLoader("overlays"), f.tree())[0]
		if (o.Err() == nil) != fits || len(o.Dispatches) > 0 != fits {
			t.Errorf("%d bytes: %v, %d orders", size, o.Err(), len(o.Dispatches))
		}
		if !fits {
			o.Join(want, func(string) bool { return false }, want[0].At)
			if len(o.Dispatches) != len(want) || o.Repair() != nil || strings.Contains(o.Err().Error(), "\n") {
				t.Errorf("%d bytes: with what is known %d orders, repair %d, %v", size, len(o.Dispatches), len(o.Repair()), o.Err())
			}
		}
	}
}

// TestOrdersMemory: what a file takes is bounded, whatever it contains.
func TestOrdersMemory(t *testing.T) {
	unraced.Only(t)
	for name, part := range map[string]string{"items": "[],", "letters": "a,", "lines": "- a\n", "keys": "? \n", "texts": "'',"} {
		text := "orders:\n"
		if strings.HasSuffix(part, ",") {
			text = "orders: ["
		}
		for _, size := range []int{largestLayout, largestState} {
			text := text + strings.Repeat(part, (size-len(text))/len(part))
			peak := watchHeap()
			_, problem := readOrders(text)
			if used := peak(); problem == "" || used > hereMemory {
				t.Errorf("%d bytes of %s: %q, %d MiB", size, name, problem, used>>20)
			}
		}
	}
}

func FuzzOrders(f *testing.F) {
	f.Add([]byte(stateHeader + documentEnd + "orders:\n" + goodLine))
	f.Add([]byte(documentEnd + "orders: {a: {agents: 1}}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, second := cutState(text)
		all, problem := readOrders(second)
		if len(all) > 0 && problem != "" || strings.ContainsAny(problem, "\n\x00") {
			t.Fatalf("%d orders and %q", len(all), problem)
		}
		_, again := cutState(append([]byte(stateHeader), printOrders(all)...))
		if got, problem := readOrders(again); problem != "" || !slices.EqualFunc(all, got, sameOrder) {
			t.Fatalf("read again: %s %s", problem, cmp.Diff(all, got))
		}
	})
}
