package generator_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/unraced"
)

// below returns the changes that move all files of a directory to another, or delete them if that
// is empty, and what the files contained.
func (b *bench) below(t *testing.T, dir, to string) (changes, contents []branch.Change) {
	t.Helper()
	tree := b.fleet.head().head().Tree
	err := fs.WalkDir(tree, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(tree, name)
		changes, contents = append(changes, branch.Change{Path: name}), append(contents, branch.Change{Path: name, Content: text})
		if to != "" {
			changes = append(changes, branch.Change{Path: to + strings.TrimPrefix(name, dir), Content: text})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return changes, contents
}

// decisionOn returns the decision on an overlay; ok is false without one.
func decisionOn(r generator.Result, overlay string) (d plan.Decision, ok bool) {
	for _, d := range r.Decisions {
		if d.Overlay == overlay {
			return d, true
		}
	}
	return d, false
}

// TestOverlayWrittenAgain: an overlay's directory is deleted, and written again after a tick. A
// muster that runs counts the agents in flight as a muster that has just started does.
func TestOverlayWrittenAgain(t *testing.T) {
	for _, ticks := range []int{0, 1, 3} {
		for _, file := range []string{"", "/scaling.yaml"} {
			t.Run(fmt.Sprintf("%d ticks%s", ticks, file), func(t *testing.T) {
				a := twins(t)
				changes, _ := a.below(t, "overlays/a", "")
				if file != "" {
					changes = []branch.Change{{Path: "overlays/a" + file}, {Path: a.file}}
				}
				a.fleet.edit("a person", changes...)
				for range ticks {
					a.now = a.now.Add(15 * time.Second)
					tick(t, a.g)
				}
				var back []branch.Change
				for name, text := range retiringFiles(a.overlays[:1]) {
					back = append(back, branch.Change{Path: name, Content: text})
				}
				a.fleet.edit("a person", back...)
				a.now = a.now.Add(15 * time.Second)
				if d, ok := decisionOn(tick(t, a.g), "a"); !ok || d.Figures.InFlight != 5 || d.Figures.Dispatch != 0 {
					t.Errorf("%d in flight, %d ordered; want 5 and 0", d.Figures.InFlight, d.Figures.Dispatch)
				}
				a.reusable(t, a.g, 5)
			})
		}
	}
}

// TestNoStateOutsideGit deletes overlays, writes them again and renames them at random, while agents
// register and orders are retired. A muster that has run all the time decides as one that has just
// started: what it remembers in addition, such as the directory to which a dispatch was moved, may
// only let it count more agents in flight.
func TestNoStateOutsideGit(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	for seed := range uint64(25) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			a, random := twins(t), rand.New(rand.NewPCG(seed, 1))
			name, there, renamed := "a", true, false
			_, kept := a.below(t, "overlays/a", "")
			var story []string
			var live []plan.Dispatch // that the last tick decided on
			for range 40 {
				dir := "overlays/" + name
				switch step := random.IntN(8); {
				case step == 0 && there:
					var changes []branch.Change
					changes, kept = a.below(t, dir, "")
					a.fleet.edit("a person", changes...)
					there, story = false, append(story, "deleted "+name)
				case step == 1 && !there:
					back := kept
					if random.IntN(2) == 0 { // as it was at first
						back = nil
						for file, text := range retiringFiles(a.overlays[:1]) {
							back = append(back, branch.Change{Path: strings.Replace(file, "overlays/a/", dir+"/", 1), Content: text})
						}
					}
					a.fleet.edit("a person", back...)
					there, story = true, append(story, fmt.Sprintf("%s written again with %d files", name, len(back)))
				case step == 2 && there:
					name = map[string]string{"a": "c", "c": "a"}[name]
					changes, _ := a.below(t, dir, "overlays/"+name)
					a.fleet.edit("a person", changes...)
					renamed, story = true, append(story, "renamed to "+name)
				case step == 3 && there:
					for _, d := range live {
						if d.Agents > 0 && random.IntN(2) == 0 {
							seen := sightings(d, "a")
							a.snapshot.Sightings = append(a.snapshot.Sightings, seen[:1+random.IntN(len(seen))]...)
							story = append(story, "agents of "+d.ID+" register")
						}
					}
				default:
					a.now = a.now.Add(time.Duration(15+random.IntN(150)) * time.Second)
				}
				fresh, ok := decisionOn(tick(t, a.bench.generator(func(c *generator.Config) { c.Repository, c.DryRun = a.archive, true })), name)
				result := tick(t, a.g)
				running, decided := decisionOn(result, name)
				live = nil
				for _, o := range result.Input.Overlays {
					if o.Name == name {
						live = o.Dispatches
					}
				}
				story = append(story, fmt.Sprintf("%s: fresh %d in flight, orders %d; running %d, %d", a.now.Format(time.TimeOnly), fresh.Figures.InFlight, fresh.Figures.Dispatch, running.Figures.InFlight, running.Figures.Dispatch))
				same := ok == decided && fresh.Figures.InFlight == running.Figures.InFlight && fresh.Figures.Dispatch == running.Figures.Dispatch
				more := renamed && running.Figures.InFlight >= fresh.Figures.InFlight && running.Figures.Dispatch <= fresh.Figures.Dispatch
				if !same && !more {
					t.Fatalf("not the same:\n%s", strings.Join(story, "\n"))
				}
			}
		})
	}
}
