package steptime

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"muster/gitops/unraced"
)

var start = time.Date(2026, 11, 21, 2, 0, 0, 0, time.UTC)

func at(minutes float64) time.Time {
	return start.Add(time.Duration(minutes * float64(time.Minute)))
}

func key(name string) uint64 { return Key([]byte("app"), []byte(name)) }

func barrier(n uint64, over bool) Job { return Job{Barrier: n, Over: over} }

// passed is a job of a build that began at a minute.
func passed(name string, created, from, to float64) Job {
	return Job{Step: key(name), Over: true, Passed: true, Created: at(created), Runnable: at(from), Started: at(from), Finished: at(to)}
}

func running(name string, created, from float64) Job {
	return Job{Step: key(name), Created: at(created), Runnable: at(from), Started: at(from)}
}

func upcoming(name string, created float64) Job {
	return Job{Step: key(name), Created: at(created), Upcoming: true}
}

// taught knows that a takes 10 minutes and b 20, one after the other, since minute 40.
func taught() *Times {
	t := &Times{}
	t.EndPoll(at(-10))
	for n := range uint64(3) {
		t.Learn(Build{ID: n + 1, Jobs: []Job{passed("a", 0, 0, 10), barrier(10*n+1, true), passed("b", 0, 10, 30), barrier(10*n+2, true), passed("c", 0, 30, 31)}})
	}
	t.EndPoll(at(40))
	return t
}

// TestPredict: predicts when stages can run.
func TestPredict(t *testing.T) {
	for name, c := range map[string]struct {
		jobs []Job
		want []time.Time
	}{
		"behind one that runs":           {[]Job{running("a", 50, 55), barrier(1, false), upcoming("b", 50)}, []time.Time{at(65)}},
		"chains add up":                  {[]Job{running("a", 50, 55), barrier(1, false), upcoming("b", 50), barrier(2, false), upcoming("c", 50)}, []time.Time{at(65), at(85)}},
		"not started: from now":          {[]Job{{Step: key("a"), Created: at(50), Runnable: at(50)}, barrier(1, false), upcoming("b", 50)}, []time.Time{at(70)}},
		"overdue: now":                   {[]Job{running("a", 42, 45), barrier(1, false), upcoming("b", 42)}, []time.Time{at(60)}},
		"the last of the stage":          {[]Job{running("b", 50, 50), running("a", 50, 59), barrier(1, false), upcoming("c", 50)}, []time.Time{at(70)}},
		"what is over does not count":    {[]Job{passed("a", 50, 50, 52), running("b", 50, 52), barrier(1, false), upcoming("c", 50)}, []time.Time{at(72)}},
		"an unknown step":                {[]Job{running("x", 50, 55), barrier(1, false), upcoming("b", 50)}, []time.Time{{}}},
		"an unknown step, over":          {[]Job{running("a", 50, 55), passed("x", 50, 50, 51), barrier(1, false), upcoming("b", 50)}, []time.Time{{}}},
		"a step without a name":          {[]Job{{Created: at(50), Started: at(50)}, barrier(1, false), upcoming("b", 50)}, []time.Time{{}}},
		"made before it was known":       {[]Job{running("a", 40.5, 55), barrier(1, false), upcoming("b", 40.5)}, []time.Time{{}}},
		"by depends_on, nothing known":   {[]Job{running("a", 50, 55), upcoming("b", 50)}, []time.Time{{}}},
		"its wait step has passed":       {[]Job{passed("a", 50, 50, 60), barrier(1, true), upcoming("b", 50)}, []time.Time{{}}},
		"an unknown step behind a known": {[]Job{running("a", 50, 55), barrier(1, false), upcoming("x", 50), barrier(2, false), upcoming("b", 50)}, []time.Time{at(65), {}}},
	} {
		var got []time.Time
		for _, p := range taught().Predict(Build{ID: 99, Jobs: c.jobs}, at(60)) {
			got = append(got, p.Due)
		}
		if !slices.EqualFunc(got, c.want, time.Time.Equal) {
			t.Errorf("%s: due at %v, want %v", name, got, c.want)
		}
	}
}

// TestFreed: of the jobs of a stage, as many need no other agent as agents of the build are free by then. Each is free
// for one of them.
func TestFreed(t *testing.T) {
	rules := func(rules uint64, jobs ...Job) []Job {
		for i := range jobs {
			jobs[i].Rules = rules
		}
		return jobs
	}
	b := func(n int) []Job { return rules(1, slices.Repeat([]Job{upcoming("b", 50)}, n)...) }
	a := rules(1, running("a", 50, 55))
	wait, wait2, wait3 := []Job{barrier(1, false)}, []Job{barrier(2, false)}, []Job{barrier(3, false)}
	times := taught()
	times.Learn(Build{ID: 9, Jobs: []Job{passed("free", 0, 12, 13), passed("other", 0, 12, 13), passed("next", 0, 13, 14)}})
	times.EndPoll(at(41))
	by := func(names ...string) (jobs []Job) {
		for _, name := range names {
			jobs = append(jobs, rules(1, upcoming(name, 50))...)
		}
		return jobs
	}
	free := by("free", "free")
	for name, c := range map[string]struct {
		jobs []Job
		want int
	}{
		"a chain":                     {slices.Concat(a, wait, b(1)), 1},
		"a fan-out":                   {slices.Concat(a, wait, b(5)), 1},
		"the largest stage before":    {slices.Concat(a, wait, b(3), wait2, b(5)), 1 + 3},
		"also if a smaller one comes": {slices.Concat(a, wait, b(3), wait2, b(1), wait3, b(4)), 1 + 1 + 3},
		"what is over has no agent":   {slices.Concat(rules(1, passed("a", 50, 55, 58)), wait, b(2)), 0},
		"what needs no agent":         {slices.Concat([]Job{running("a", 50, 55)}, wait, b(2)), 0},
		"what other agents run":       {slices.Concat(rules(2, running("a", 50, 55)), wait, b(2)), 0},
		"a job that waits for one":    {slices.Concat(a, free), 1},
		"several steps wait for one":  {slices.Concat(a, by("free", "other")), 1},
		"one after the other":         {slices.Concat(a, by("free", "next")), 2},
		"in another order":            {slices.Concat(a, by("next", "free")), 2},
		"a longer one runs":           {slices.Concat(rules(1, running("b", 50, 50)), free), 0},
		"a chain before a fan-out":    {slices.Concat(a, by("free"), wait, b(4)), 1 + 1},
		"both":                        {slices.Concat(a, free, wait, b(4)), 1 + 2},
	} {
		freed := 0
		for _, p := range times.Predict(Build{ID: 99, Jobs: c.jobs}, at(60)) {
			if p.Freed {
				freed++
			}
		}
		if freed != c.want {
			t.Errorf("%s: %d jobs need no other agent, want %d", name, freed, c.want)
		}
	}
}

// TestDependencies: a job with dependencies is due as long after its creation as in other builds,
// whatever wait steps precede it.
func TestDependencies(t *testing.T) {
	times := &Times{}
	times.EndPoll(at(-10))
	times.Learn(Build{ID: 1, Jobs: []Job{passed("a", 0, 0, 10), passed("free", 0, 12, 13), barrier(1, true), passed("early", 0, 5, 6), passed("b", 0, 13, 14)}})
	times.EndPoll(at(40))
	got := times.Predict(Build{ID: 2, Jobs: []Job{running("a", 50, 50), upcoming("free", 50), barrier(1, false), upcoming("early", 50), upcoming("b", 50), upcoming("b", 50)}}, at(52))
	want := []time.Time{at(62), at(55), at(63), at(63)}
	for i, p := range got {
		if !p.Due.Equal(want[i]) {
			t.Errorf("job %d is due at %s, want %s", p.Job, p.Due, want[i])
		}
	}
	if got[2].Stage != got[3].Stage || got[1].Stage == got[2].Stage || got[0].Stage == got[1].Stage {
		t.Errorf("the stages are %+v", got)
	}
}

// TestUnpredictedJobStaysUnpredicted: a job without a prediction never gets one, because agents may
// have been ordered for it; and its stage keeps its name.
func TestUnpredictedJobStaysUnpredicted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		times, build := &Times{}, Build{ID: 7}
		names := []string{"a", "b", "c", "d"}
		created := at(float64(random.IntN(30)))
		for i, n := range names {
			if i > 0 && random.IntN(2) == 0 {
				build.Jobs = append(build.Jobs, barrier(uint64(i), false))
			}
			build.Jobs = append(build.Jobs, Job{Step: key(n), Created: created, Upcoming: i > 0})
		}
		unknown, stages := map[int]bool{}, map[int]string{}
		for minute := range 60 {
			if n := names[random.IntN(len(names))]; random.IntN(10) == 0 {
				times.Learn(Build{ID: uint64(100 + minute), Jobs: []Job{passed(n, float64(minute-5), float64(minute-random.IntN(5)), float64(minute))}})
			}
			times.EndPoll(at(float64(minute)))
			if created.After(at(float64(minute))) {
				continue
			}
			for _, p := range times.Predict(build, at(float64(minute))) {
				if unknown[p.Job] && !p.Due.IsZero() {
					t.Fatalf("at minute %d job %d, made %s, is due at %s, and was not known before", minute, p.Job, created, p.Due)
				}
				if s, ok := stages[p.Job]; ok && s != p.Stage {
					t.Fatalf("at minute %d the stage of job %d is %s and was %s", minute, p.Job, p.Stage, s)
				}
				unknown[p.Job], stages[p.Job] = p.Due.IsZero(), p.Stage
			}
		}
	}
}

// TestFirstPoll: the first poll of a process learns what the previous process knew, so that a restart
// forgets no job.
func TestFirstPoll(t *testing.T) {
	times := &Times{}
	times.Learn(Build{ID: 1, Jobs: []Job{passed("a", 0, 0, 10)}})
	if !times.Cold() {
		t.Error("it has looked")
	}
	times.EndPoll(at(60))
	for minute, known := range map[float64]bool{5: false, 10.5: false, 12: true} {
		got := times.Predict(Build{ID: 2, Jobs: []Job{running("a", minute, 55), barrier(1, false), upcoming("b", minute)}}, at(60))
		if got[0].Due.IsZero() == known {
			t.Errorf("a job of minute %v is due at %s", minute, got[0].Due)
		}
	}
}

// TestSamples: predictions use the last 20 builds, each once and by its longest job, in any order. The
// remaining time uses those that took longer.
func TestSamples(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var want []sample
	for range 50 {
		var builds []Build
		for n := range uint64(30) {
			b := Build{ID: n + 1}
			for copies := range 3 {
				b.Jobs = append(b.Jobs, passed("a", 0, float64(n), float64(n)+float64(copies)+1))
			}
			random.Shuffle(len(b.Jobs), func(i, j int) { b.Jobs[i], b.Jobs[j] = b.Jobs[j], b.Jobs[i] })
			builds = append(builds, b, b)
		}
		random.Shuffle(len(builds), func(i, j int) { builds[i], builds[j] = builds[j], builds[i] })
		times := &Times{}
		for _, b := range builds {
			times.Learn(b)
		}
		got := times.steps[key("a")].length.samples
		if want == nil {
			want = got
		}
		if len(got) != maxSamples || got[0].build != 11 || got[0].value != 180_000 || !slices.Equal(got, want) {
			t.Fatalf("the samples are %v, want %v", got, want)
		}
	}
	var h history
	for n, minutes := range []float64{5, 1, 2, 3, 4} {
		h.add(uint32(n), at(float64(n)), milliseconds(time.Duration(minutes*float64(time.Minute))))
	}
	for elapsed, want := range map[time.Duration]time.Duration{0: 3 * time.Minute, 2 * time.Minute: 2 * time.Minute, 4 * time.Minute: time.Minute, 5 * time.Minute: 0} {
		if got := h.left(elapsed); got != want {
			t.Errorf("after %s %s are left, want %s", elapsed, got, want)
		}
	}
}

// TestLearnedDurations: failed jobs count only if the build continues; skipped jobs take no time.
func TestLearnedDurations(t *testing.T) {
	failed := passed("a", 0, 0, 10)
	failed.Passed = false
	left := Job{Step: key("b"), Over: true, Passed: true, Created: at(0)}
	times := &Times{}
	times.Learn(Build{ID: 1, Jobs: []Job{failed, left, running("c", 0, 0), {Over: true, Passed: true, Finished: at(1)}}})
	learned := map[uint64]int{}
	for key, s := range times.steps {
		learned[key] = len(s.length.samples)
	}
	if want := map[uint64]int{key("a"): 0, key("b"): 1}; !maps.Equal(learned, want) || times.steps[key("b")].length.left(0) != 0 {
		t.Errorf("learned %v, want %v", times.steps, want)
	}
}

// TestManySteps: a million step names are no more memory than ten thousand, and those that
// ended last are known.
func TestManySteps(t *testing.T) {
	unraced.Only(t)
	times := &Times{}
	memory := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := memory()
	for n := range 1_000_000 {
		name := fmt.Sprintf("step %d", n)
		times.Learn(Build{ID: uint64(n), Jobs: []Job{passed(name, 0, 0, float64(n)/100+1)}})
		if n%10_000 == 0 {
			times.EndPoll(at(float64(n) / 100))
		}
	}
	if len(times.steps) > maxSteps {
		t.Errorf("%d steps are remembered", len(times.steps))
	}
	if took := int64(memory()) - int64(before); took > 10<<20 {
		t.Errorf("they take %d bytes", took)
	}
	for _, n := range []int{999_999, 999_999 - maxSteps*8/10} {
		if times.steps[key(fmt.Sprintf("step %d", n))] == nil {
			t.Errorf("step %d is forgotten", n)
		}
	}
	runtime.KeepAlive(times)
}

// TestKey: a step without a name has no key, and names are of a pipeline.
func TestKey(t *testing.T) {
	if Key([]byte("app"), nil) != 0 || key("a") == 0 || key("a") == Key([]byte("other"), []byte("a")) || Key([]byte("ab"), []byte("c")) == Key([]byte("a"), []byte("bc")) {
		t.Error("keys are not told apart")
	}
}
