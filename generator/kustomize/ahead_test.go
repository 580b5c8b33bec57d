package kustomize

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// listing is a file system that knows what its kustomizations list, and counts what it
// is asked.
type listing struct {
	filesys.FileSystem
	lists map[string][]string
	asked map[string]int
}

func (l listing) Listed(dir string) []string { return l.lists[dir] }

func (l listing) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	l.asked["CleanedAbs "+name]++
	return l.FileSystem.CleanedAbs(name)
}

func (l listing) ReadFile(name string) ([]byte, error) {
	l.asked["ReadFile "+name]++
	return l.FileSystem.ReadFile(name)
}

// TestAnswersAhead: what a kustomization lists is known to the process before it
// begins, and what it asks all the same is answered.
func TestAnswersAhead(t *testing.T) {
	files := map[string]string{
		"/d/kustomization.yaml": "resources: [../b, c.yaml]\n", "/d/c.yaml": configMaps(1),
		"/b/kustomization.yaml": "resources: [x.yaml, y]\n", "/b/x.yaml": strings.ReplaceAll(configMaps(1), "c0", "x"),
		"/b/y/kustomization.yaml": "resources: [z.yaml]\n", "/b/y/z.yaml": strings.ReplaceAll(configMaps(1), "c0", "z"),
	}
	lists := map[string][]string{"d": {"../b", "c.yaml"}, "b": {"x.yaml", "y"}, "b/y": {"z.yaml"}}
	many := map[string]string{"/d/kustomization.yaml": "resources:\n"}
	var all []string
	for i := range 2 * maxAhead {
		name := fmt.Sprintf("c%d.yaml", i)
		many["/d/"+name], all = strings.ReplaceAll(configMaps(1), "c0", fmt.Sprint("m", i)), append(all, name)
		many["/d/kustomization.yaml"] += "- " + name + "\n"
	}
	around := map[string]string{"/d/kustomization.yaml": "resources: [../d]\n"}
	large := map[string]string{"/d/kustomization.yaml": "resources: [c.yaml, e.yaml]\n", "/d/c.yaml": "# " + strings.Repeat("x", enoughAhead) + "\n" + configMaps(1), "/d/e.yaml": strings.ReplaceAll(configMaps(1), "c0", "e")}
	for name, c := range map[string]struct {
		files map[string]string
		lists map[string][]string
		once  bool // nothing is asked twice, and so nothing by the process
	}{
		"listed":     {files, lists, true},
		"not listed": {files, nil, false},
		"many":       {many, map[string][]string{"d": all}, false},
		"large":      {large, map[string][]string{"d": {"c.yaml", "e.yaml"}}, false},
		"itself":     {around, map[string][]string{"d": {"../d"}}, false},
		"nothing":    {nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			tree := func() listing {
				fsys := filesys.MakeFsInMemory()
				for file, content := range c.files {
					_ = fsys.WriteFile(file, []byte(content))
				}
				return listing{fsys, c.lists, map[string]int{}}
			}
			here, hereErr := Here{}.Build(t.Context(), tree(), "d")
			asked := tree()
			there, thereErr := process(t, time.Hour).Build(t.Context(), asked, "d")
			if diff := cmp.Diff(here, there); diff != "" || fmt.Sprint(hereErr) != fmt.Sprint(thereErr) {
				t.Errorf("%s\n%v here, %v there", diff, hereErr, thereErr)
			}
			for question, n := range asked.asked {
				if c.once && n > 1 {
					t.Errorf("%s was asked %d times", question, n)
				}
			}
		})
	}
}

// TestProcessesAreKept: two builds at a time need two processes, however many there
// are.
func TestProcessesAreKept(t *testing.T) {
	p := process(t, time.Hour)
	command, started := p.Command, 0
	p.Command = func() *exec.Cmd { started++; return command() } // while nothing else is built, or under the lock below
	for range 4 {
		var begun, over sync.WaitGroup
		begun.Add(2)
		var mu sync.Mutex
		for range 2 {
			over.Go(func() {
				files := &waiting{FileSystem: directory(map[string]string{"kustomization.yaml": "resources: [c.yaml]\n", "c.yaml": configMaps(1)}), begun: &begun}
				mu.Lock() // until the first has begun
				var once sync.Once
				files.unlock = func() { once.Do(mu.Unlock) }
				if _, err := p.Build(t.Context(), files, "d"); err != nil {
					t.Error(err)
				}
			})
		}
		over.Wait()
	}
	if started != 2 {
		t.Errorf("%d processes were started, want 2", started)
	}
}

// waiting is a file system of a build that goes on when another has begun.
type waiting struct {
	filesys.FileSystem
	begun  *sync.WaitGroup
	unlock func()
	once   sync.Once
}

func (w *waiting) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	w.unlock()
	w.once.Do(func() { w.begun.Done(); w.begun.Wait() })
	return w.FileSystem.CleanedAbs(name)
}
