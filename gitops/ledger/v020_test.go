package ledger_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/generator/plan"
	"muster/gitops/ledger"
)

// The messages in testdata/v0.2.0 were written by muster 0.2.0: those called
// demo-* by its demo, those called held-* and retire-no-job-taken and
// retire-some-came by its functions Observe, Decide and Message for a made up
// snapshot, and all others by its simulation of faults.

// TestMessagesOf020: each of them is read, and says what it said. The test
// reads the trailers in a way of its own.
func TestMessagesOf020(t *testing.T) {
	files, err := filepath.Glob("testdata/v0.2.0/*.txt")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d messages, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			message := string(text)
			got, err := ledger.Parse(message)
			if err != nil {
				t.Fatalf("%v\n%s", err, message)
			}
			head, block, _ := strings.Cut(message, "\nOverlay: ")
			values := map[string][]string{}
			for line := range strings.Lines("Overlay: " + block) {
				key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
				values[key] = append(values[key], value)
			}
			agents := 0
			if all := values["Agents"]; len(all) == 1 {
				agents, _ = strconv.Atoi(all[0])
			}
			subject, prose, _ := strings.Cut(head, "\n\n")
			_, summary, _ := strings.Cut(subject, ": ")
			want := ledger.Entry{
				Overlay: values["Overlay"][0], Kind: ledger.Kind(values["Act"][0]), Dispatches: values["Dispatch"], Agents: agents,
				Version: "v0.2.0", BusyUnknown: true, Subject: subject, Summary: summary, Prose: strings.TrimSpace(prose), Observation: got.Observation,
			}
			if diff := cmp.Diff(want, got, cmp.Comparer(sameIndexes)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			wantObservation020(t, values["Observation"][0], got.Observation)
		})
	}
}

// wantObservation020 translates stored JSON of 0.2.0 key by key, and holds what
// was read to it.
func wantObservation020(t *testing.T, stored string, got plan.Observation) {
	t.Helper()
	var old any
	if err := json.Unmarshal([]byte(stored), &old); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(got) // package plan's own tags are those of its fields' names
	if err != nil {
		t.Fatal(err)
	}
	var now any
	if err := json.Unmarshal(text, &now); err != nil {
		t.Fatal(err)
	}
	want := translated020(t, old).(map[string]any)
	regroupIdle020(want)
	if diff := cmp.Diff(any(want), now); diff != "" {
		t.Errorf("the observation (-want +got)\n%s", diff)
	}
}

var words020 = regexp.MustCompile(`"[^"]*"`)

func translated020(t *testing.T, v any) any {
	t.Helper()
	names := map[string]string{"waiting": "upcoming", "leaving": "replacing", "useless": "wrongTags", "settled": "registeredAt", "busy": "queueBusy"}
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = translated020(t, v[i])
		}
		return v
	case map[string]any:
		all := map[string]any{}
		for key, value := range v {
			switch now, renamed := names[key]; {
			case key == "held":
				text := value.(string)
				w := words020.FindAllString(text, -1)
				for i := range w {
					w[i] = strings.Trim(w[i], `"`)
				}
				switch {
				case strings.HasSuffix(text, "is paused in Buildkite"):
					all["suspended"] = map[string]any{"code": "paused-in-buildkite", "queue": w[0]}
				case strings.Contains(text, "has no queue"):
					all["suspended"] = map[string]any{"code": "unknown-queue", "cluster": w[0], "queue": w[1]}
				case strings.HasPrefix(text, "several clusters"):
					all["suspended"] = map[string]any{"code": "ambiguous-queue", "queue": w[0]}
				case strings.HasPrefix(text, "Buildkite shows no cluster"):
					all["suspended"] = map[string]any{"code": "unknown-cluster", "cluster": w[0]}
				default:
					t.Fatalf("held: %q", text)
				}
			case renamed:
				all[now] = translated020(t, value)
			default:
				all[key] = translated020(t, value)
			}
		}
		return all
	}
	return v
}

// regroupIdle020 makes groups of idle agents of what 0.2.0 said of jobs (idle)
// and of overlays (spare, of which some are replaced). It did not know which
// upcoming jobs had been looked ahead to.
func regroupIdle020(o map[string]any) {
	var groups []any
	of := func(key string) []any {
		list, _ := o[key].([]any)
		return list
	}
	for j, job := range of("jobs") {
		job := job.(map[string]any)
		if n, ok := job["idle"]; ok {
			groups = append(groups, map[string]any{"agents": n, "jobs": strconv.Itoa(j)})
			delete(job, "idle")
		}
		if n, ok := job["upcoming"]; ok {
			job["fresh"] = n
		}
	}
	for _, overlay := range of("overlays") {
		overlay := overlay.(map[string]any)
		replaced, _ := overlay["replacing"].(float64)
		spare, _ := overlay["spare"].(float64)
		if replaced > 0 {
			groups = append(groups, map[string]any{"agents": replaced, "overlay": overlay["overlay"], "replacing": true})
		}
		if spare > replaced {
			groups = append(groups, map[string]any{"agents": spare - replaced, "overlay": overlay["overlay"]})
		}
		delete(overlay, "replacing")
		delete(overlay, "spare")
	}
	if len(groups) > 0 {
		o["idle"] = groups
	}
}

// TestEveryKeyOf020: the messages have all keys that 0.2.0 could write.
func TestEveryKeyOf020(t *testing.T) {
	var all strings.Builder
	files, _ := filepath.Glob("testdata/v0.2.0/*.txt")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for _, key := range []string{
		"at", "queue", "jobs", "overlays", "unmatched", "pending", "idle", "oldest", "waiting", "limited", "blocked",
		"overlay", "held", "spare", "leaving", "useless", "busy", "own", "stopping", "dispatches", "registered", "settled", "worked", "connected",
		"rules", "missing", "example",
	} {
		if !strings.Contains(all.String(), `"`+key+`":`) {
			t.Errorf("no message has %q", key)
		}
	}
	for _, sentence := range []string{"is paused in Buildkite", "has no queue", "several clusters", "shows no cluster"} {
		if !strings.Contains(all.String(), sentence) {
			t.Errorf("no message is held because %q", sentence)
		}
	}
}
