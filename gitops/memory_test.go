package gitops

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/gitops/branch"
	"muster/gitops/gitserver"
	"muster/testdata/bench"
)

// ticksRole dispatches and retires TICKS times, and prints its memory after each push.
func ticksRole() error {
	r, err := New(Config{URL: os.Getenv("URL")})
	if err != nil {
		return err
	}
	ticks, err := strconv.Atoi(os.Getenv("TICKS"))
	if err != nil {
		return err
	}
	ctx := context.Background()
	for i := range ticks + 1 {
		head, err := r.Head(ctx)
		if err != nil {
			return err
		}
		commit := dispatch(i)
		if i > 0 {
			commit.Changes = append(commit.Changes, branch.Change{Path: dispatch(i - 1).Changes[0].Path})
		}
		if _, err := r.Push(ctx, head, []branch.Draft{commit}); err != nil {
			return err
		}
		peak, now, err := bench.Memory("self")
		if err != nil {
			return err
		}
		fmt.Println(peak, now)
	}
	return nil
}

// BenchmarkMemory runs ticks that each push in a process of its own.
func BenchmarkMemory(b *testing.B) {
	forSizes(b, func(b *testing.B, root string, repository func(string) gitserver.Repository) {
		loaded := repository("fleet")
		before := sizesOf(b, loaded)
		url := serveOther(b, root) + "/fleet.git"
		cmd, out := start(b, "ticks", "URL="+url, fmt.Sprintf("TICKS=%d", *bench.Ticks))
		stuck := time.AfterFunc(bench.LongestWait, func() { _ = cmd.Process.Kill() })
		defer stuck.Stop()
		var early, late, peak float64
		for tick := range *bench.Ticks + 1 {
			if !out.Scan() {
				b.Fatalf("the process ended, or was killed after %s, before push %d", bench.LongestWait, tick)
			}
			stuck.Reset(bench.LongestWait)
			_, err := fmt.Sscan(out.Text(), &peak, &late)
			bench.Check(b, err)
			if tick == *bench.Ticks/10 {
				early = late
			}
		}
		bench.Once(b)
		bench.Row(b, "git client: peak memory", peak)
		bench.Row(b, "git client: memory growth over the pushes", late-early)
		after := sizesOf(b, loaded)
		_, err := loaded.Git("repack", "-q", "-d")
		bench.Check(b, err)
		commits := float64(*bench.Ticks + 1)
		bench.Row(b, "server: growth per commit beside all dispatches, loose", (after["size"]-before["size"])*1024/commits)
		bench.Row(b, "server: growth per commit beside all dispatches, packed", (sizesOf(b, loaded)["size-pack"]-before["size-pack"])*1024/commits)
	})
}

// sizesOf is what git count-objects says of a repository, sizes in KiB.
func sizesOf(b testing.TB, r gitserver.Repository) map[string]float64 {
	out, err := r.Git("count-objects", "-v")
	bench.Check(b, err)
	counts := map[string]float64{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		counts[name], err = strconv.ParseFloat(value, 64)
		bench.Check(b, err)
	}
	return counts
}
