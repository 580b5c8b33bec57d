package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/starter"
	"muster/generator"
	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/testdata/bench"
)

// verifiedCommits is how many commits of muster's the benchmark verifies.
const verifiedCommits = 10_000

// BenchmarkVerify measures muster verify on a clone of 10,000 commits, each of which
// is reproduced, in a process of its own: seconds, and its peak memory.
func BenchmarkVerify(b *testing.B) {
	f := newVerifiedFleet(b)
	for f.commits < verifiedCommits {
		f.tick(b)
	}
	r := f.objects.bare
	_, err := r.Git("repack", "-a", "-d", "-q")
	check(b, err)
	var took, peak []float64
	for b.Loop() {
		cmd := exec.Command(os.Args[0], "verify", "--repo", r.Dir)
		cmd.Env = append(os.Environ(), realVariable+"=1")
		begin := time.Now()
		out, most := bench.Run(b, cmd)
		if want := fmt.Sprintf("%d of them by muster: %d reproduced\n", f.commits, f.commits); !strings.HasSuffix(out, want) {
			b.Fatal(out)
		}
		took = append(took, time.Since(begin).Seconds())
		peak = append(peak, most)
	}
	bench.Row(b, "verify of 10,000 commits", bench.Median(took))
	bench.Row(b, "verify of 10,000 commits: peak memory", slices.Max(peak))
}

// verifiedFleet writes a history in which each tick orders agents and retires those before.
type verifiedFleet struct {
	objects gitObjects
	loader  *fleet.Loader
	files   fstest.MapFS
	head    string
	at      time.Time
	commits int
}

func newVerifiedFleet(b *testing.B) *verifiedFleet {
	b.Helper()
	f := &verifiedFleet{objects: newGitObjects(b, b.TempDir()), loader: fleet.NewLoader("overlays"), files: fstest.MapFS{}, at: start}
	changes, err := starter.Changes(func(policy []byte) []byte { return policy })
	check(b, err)
	f.commit("A fleet\n", changes)
	f.commits = 0
	return f
}

// tick observes, decides and commits as muster does.
func (f *verifiedFleet) tick(b *testing.B) {
	b.Helper()
	f.at = f.at.Add(time.Minute)
	overlays, err := f.loader.Load(f.files)
	if err != nil || overlays[0].Err() != nil {
		b.Fatal(err, overlays[0].Err())
	}
	oldest := f.at.Add(-10 * time.Second)
	supply := plan.Capacity{Overlay: "default", Dispatches: map[string]plan.Observed{}}
	for _, d := range overlays[0].Dispatches {
		seen := plan.Observed{HadJob: d.Agents, FirstAt: &oldest, RegisteredAt: &oldest}
		for index := range d.Agents {
			seen.Registered.Add(index)
		}
		supply.Dispatches[d.ID] = seen
	}
	o := plan.Observation{At: f.at, Queue: "default", Overlays: []plan.Capacity{supply}, Jobs: []plan.Demand{{Overlays: []string{"default"}, Pending: 5, Oldest: &oldest}}}
	for _, d := range plan.Decide(f.head, fleet.Decidable(overlays), o) {
		ops, err := generator.Render(f.head, overlays[0], d)
		if err != nil || len(ops) == 0 {
			b.Fatal(err, d)
		}
		for _, a := range ops {
			f.commit(ledger.Message(a, invocation.ThisBuild().String()), a.Changes)
		}
	}
}

// commit writes a commit.
func (f *verifiedFleet) commit(message string, changes []branch.Change) {
	for _, c := range changes {
		if c.Content == nil {
			delete(f.files, c.Path)
		} else {
			f.files[c.Path] = &fstest.MapFile{Data: c.Content, Mode: 0o644}
		}
	}
	contents := map[string]string{}
	for name, file := range f.files {
		contents[name] = string(file.Data)
	}
	f.head = f.objects.commit(f.objects.directory(contents, nil), "muster <muster@localhost>", message, f.at)
	f.commits++
}
