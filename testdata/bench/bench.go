// Package bench contains what the benchmarks of several packages share: the repositories
// that they run on, and the table of figures that make bench prints.
package bench

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/gitops/gitserver"
)

var (
	sizes  = flag.String("sizes", "small", "sizes of the repositories that benchmarks run on: small, medium, large")
	fleets = flag.String("fleets", "", "directory that keeps the generated repositories between runs; empty: one in the user's cache")

	// Table is the file that Row appends to; empty: none.
	Table = flag.String("table", "", "file to which benchmarks append a line for each figure")
	// Ticks is the number of ticks, or of pushes, over which memory is measured.
	Ticks = flag.Int("ticks", 200, "number of ticks over which memory is measured")
)

// LongestWait is how long a benchmark waits for one event of a program that it started.
const LongestWait = 3 * time.Minute

var generated = map[string]gitserver.Size{
	"small":  {Files: 50, Commits: 100},
	"medium": {Files: 10_000, Commits: 10_000, Dispatches: 1_000},
	"large":  {Files: 100_000, Commits: 100_000, Dispatches: 10_000},
}

// EachSize runs a benchmark for each size of -sizes.
func EachSize(b *testing.B, run func(b *testing.B, size string)) {
	for size := range strings.SplitSeq(*sizes, ",") {
		b.Run("size="+size, func(b *testing.B) { run(b, size) })
	}
}

// Repository copies the generated repository of a size to dir. It is generated once.
func Repository(b *testing.B, size, dir string) gitserver.Repository {
	b.Helper()
	spec, ok := generated[size]
	if !ok {
		b.Fatalf("no size %q", size)
	}
	root := *fleets
	if root == "" {
		cache, err := os.UserCacheDir()
		Check(b, err)
		root = filepath.Join(cache, "muster-bench")
	}
	origin := filepath.Join(root, size+".git")
	if _, err := os.Stat(origin); err != nil {
		Check(b, os.MkdirAll(root, 0o755))
		draft, err := os.MkdirTemp(root, "draft-")
		Check(b, err)
		defer os.RemoveAll(draft)
		r, err := gitserver.Init(filepath.Join(draft, "repository"))
		Check(b, err)
		Check(b, r.Generate(spec))
		Check(b, os.Rename(r.Dir, origin)) // an interrupted run leaves no incomplete repository
	}
	if out, err := exec.Command("cp", "-r", origin, dir).CombinedOutput(); err != nil {
		b.Fatalf("copying the repository: %v\n%s", err, out)
	}
	return gitserver.Repository{Dir: dir}
}

// Once ends a benchmark that measures once, regardless of -benchtime.
func Once(b *testing.B) {
	for b.Loop() {
	}
	b.ReportMetric(0, "ns/op") // the time of the empty loop
}

// Check fails the benchmark if err is not nil.
func Check(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// Median returns the middle one of the values.
func Median(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// Milliseconds returns d with fractions.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// CPUTime returns the CPU time that this process has used.
func CPUTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for invalid arguments only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Memory returns the peak and the current resident memory of a process in MB. The process
// is an identifier, or "self".
func Memory(process string) (peak, now float64, err error) {
	status, err := os.ReadFile(filepath.Join("/proc", process, "status"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		for name, to := range map[string]*float64{"VmHWM:": &peak, "VmRSS:": &now} {
			if fields[0] == name {
				if *to, err = strconv.ParseFloat(fields[1], 64); err != nil {
					return 0, 0, err
				}
				*to /= 1024
			}
		}
	}
	if peak == 0 || now == 0 {
		return 0, 0, fmt.Errorf("/proc/%s/status contains no VmHWM or no VmRSS", process)
	}
	return peak, now, nil
}

// Run runs a command, and returns its output with the peak resident memory of its process
// in MB. It ends after LongestWait.
func Run(b *testing.B, cmd *exec.Cmd) (output string, peak float64) {
	b.Helper()
	var all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &all, &all
	Check(b, cmd.Start())
	stuck := time.AfterFunc(LongestWait, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				b.Fatalf("%s: %v\n%s", cmd, err, &all)
			}
			return all.String(), peak
		case <-time.After(10 * time.Millisecond):
			if now, _, err := Memory(strconv.Itoa(cmd.Process.Pid)); err == nil { // it has not ended
				peak = now
			}
		}
	}
}

// Row logs a figure beside its bound, and appends both to the table. The size is that of
// EachSize. A figure without a bound stops the benchmark. A missed bound fails it if it
// writes to the table: elsewhere the machine may have other work.
func Row(b *testing.B, figure string, value float64) {
	b.Helper()
	_, size, ok := strings.Cut(b.Name(), "size=")
	if !ok {
		size = "-"
	}
	most, ok := Bounds[figure].Most[size]
	if !ok {
		b.Fatalf("figure %q has no bound for size %s: add it to Bounds", figure, size)
	}
	line := Line(figure, size, value)
	if *Table == "" {
		b.Log(line)
		return
	}
	f, err := os.OpenFile(*Table, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	Check(b, err)
	_, err = fmt.Fprintln(f, line)
	Check(b, err)
	Check(b, f.Close())
	if value > most {
		b.Error(line)
	}
}

const columns = "%-62s %-7s %12s %10s  %s"

// Heading is the line above the figures of the table.
var Heading = strings.TrimRight(fmt.Sprintf(columns, "figure", "size", "measured", "bound", ""), " ")

// Line returns the line of the table for a figure that has a bound.
func Line(figure, size string, value float64) string {
	bound := Bounds[figure]
	most, missed := bound.Most[size], ""
	if value > most {
		missed = fmt.Sprintf("missed by %.0f %%", math.Ceil((value/most-1)*100))
	}
	unit := strings.TrimRight(" "+bound.Unit, " ")
	return strings.TrimRight(fmt.Sprintf(columns, figure, size, number(value)+unit, number(most)+unit, missed), " ")
}

// number formats a value with three digits, or with all digits before the decimal point.
func number(value float64) string {
	if value >= 100 {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.3g", value)
}
