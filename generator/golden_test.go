package generator_test

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	golden = flag.Bool("golden", false, "run the tests of make golden, which compare output with testdata/golden")
	update = flag.Bool("update", false, "write the hashes into testdata/golden")
)

// goldenSeeds contains a line for each simulation.
const goldenSeeds = "../testdata/golden/seeds.txt"

// TestGoldenSeeds runs -seeds fault simulations and compares a hash of each fleet
// repository, of all commits and the final tree, with testdata/golden/seeds.txt. If they
// differ, the repository's log is in a file of a temporary directory. -seed N runs one
// simulation and always writes that file, so that the logs of two versions can be compared.
func TestGoldenSeeds(t *testing.T) {
	if !*golden {
		t.Skip("run make golden")
	}
	text, err := os.ReadFile(goldenSeeds)
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]string{}
	for line := range strings.Lines(string(text)) {
		seed, of, _ := strings.Cut(strings.TrimSpace(line), ": ")
		recorded[seed] = of
	}
	from, n := *first, *seeds
	if *oneSeed != 0 {
		from, n = *oneSeed, 1
	}
	dir := sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "muster-golden-") })
	var mu sync.Mutex // guards recorded
	t.Run("seeds", func(t *testing.T) {
		for seed := from; seed < from+uint64(n); seed++ {
			name := fmt.Sprintf("%04d", seed)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				got, log := simulateFleet(t, seed)
				mu.Lock()
				defer mu.Unlock()
				want := recorded[name]
				if *update {
					want, recorded[name] = got, got
				}
				if got == want && *oneSeed == 0 {
					return
				}
				dir, err := dir()
				if err != nil {
					t.Fatal(err)
				}
				file := filepath.Join(dir, name+".log")
				if err := os.WriteFile(file, log, 0o600); err != nil {
					t.Fatal(err)
				}
				t.Logf("the log of seed %d is in %s", seed, file)
				if got != want {
					t.Errorf("seed %d: %s, want %s", seed, got, want)
				}
			})
		}
	})
	if *update {
		var all strings.Builder
		for _, name := range slices.Sorted(maps.Keys(recorded)) {
			fmt.Fprintf(&all, "%s: %s\n", name, recorded[name])
		}
		if err := os.WriteFile(goldenSeeds, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// simulateFleet runs the simulation of a seed. It returns the log of its fleet repository
// and a summary with the log's hash.
func simulateFleet(t *testing.T, seed uint64) (summary string, log []byte) {
	t.Helper()
	s := drawShape(seed)
	drawCrowds(&s)
	w := playToEnd(t, s)
	log = w.fleet.text()
	return fmt.Sprintf("%s, %d commits, %x", s.theme, len(w.fleet.history()), sha256.Sum256(log)), log
}

// text returns all commits, with the files that they change, and the final tree.
func (f *fleetRepository) text() []byte {
	var b bytes.Buffer
	before := newTree(map[string][]byte{})
	for _, c := range f.history() {
		fmt.Fprintf(&b, "commit %s\nAuthor: %s\nDate: %s\n\n%s", c.id, c.who, c.at.Format(time.RFC3339Nano), c.message())
		if c.tree != before {
			writeFiles(&b, before.files, c.tree.files)
		}
		before = c.tree
		fmt.Fprintln(&b)
	}
	fmt.Fprintln(&b, "final tree")
	writeFiles(&b, map[string][]byte{}, before.files)
	return b.Bytes()
}

// writeFiles writes the files that differ between two trees.
func writeFiles(w io.Writer, before, after map[string][]byte) {
	for _, name := range slices.Sorted(maps.Keys(union(before, after))) {
		was, had := before[name]
		is, has := after[name]
		switch {
		case !has:
			fmt.Fprintf(w, "\nremove %s\n", name)
		case !had || !bytes.Equal(was, is):
			fmt.Fprintf(w, "\nwrite %s\n%s\n", name, is)
		}
	}
}
