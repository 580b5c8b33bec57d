package steptime

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// uploaded is the upload of a build, which ran for a minute, and the jobs that it added when it ended.
func uploaded(n int, rules uint64) []Job {
	u := passed("upload", 0, 2, 3)
	u.Rules = 1
	jobs := []Job{u}
	for range n {
		j := running("test", 3, 3)
		j.Rules = rules
		jobs = append(jobs, j)
	}
	return jobs
}

// uploading is the job of a build that uploads the others.
func uploading(from float64) Job {
	j := Job{Step: key("upload"), Created: at(60), Runnable: at(60), Rules: 1}
	if from > 0 {
		j.Started = at(from)
	}
	return j
}

// expects returns the predictions for a build, as in "-1:7 at 61.5 freed true; ".
func expects(t *Times, jobs ...Job) (text string) {
	for _, p := range t.Predict(Build{ID: 999, Jobs: jobs}, at(60.5)) {
		text += fmt.Sprintf("%d:%d at %v freed %t; ", p.Job, p.Rules, p.Due.Sub(start).Minutes(), p.Freed)
	}
	return text
}

// TestExpectedJobs: at most a quarter of the last builds had fewer jobs than are expected. They are due when the upload
// ends, and its agent is free for one of them.
func TestExpectedJobs(t *testing.T) {
	job := func(rules int, minute float64, freed bool) string {
		return fmt.Sprintf("-1:%d at %v freed %t; ", rules, minute, freed)
	}
	failed := func(jobs []Job) []Job {
		jobs[0].Passed = false
		return jobs
	}
	change := func(n int, f func(*Job)) (jobs []Job) {
		jobs = uploaded(n, 1)
		for i := range jobs[1:] {
			f(&jobs[i+1])
		}
		return jobs
	}
	wait := barrier(1, false)
	two, none := job(1, 61.5, true)+job(1, 61.5, false), ""
	for name, c := range map[string]struct {
		builds [][]Job
		now    []Job
		want   string
	}{
		"the same number each time":            {slices.Repeat([][]Job{uploaded(2, 1)}, 5), []Job{uploading(0)}, two},
		"it runs":                              {slices.Repeat([][]Job{uploaded(2, 1)}, 5), []Job{uploading(60.25)}, job(1, 61.25, true) + job(1, 61.25, false)},
		"it waits for an agent":                {slices.Repeat([][]Job{uploaded(2, 1)}, 5), []Job{{Step: key("upload"), Rules: 1, Created: at(50), Runnable: at(57.5)}}, two},
		"it waits for long":                    {slices.Repeat([][]Job{uploaded(2, 1)}, 5), []Job{{Step: key("upload"), Rules: 1, Created: at(57), Runnable: at(57)}}, none},
		"two failed after they had added them": {[][]Job{uploaded(2, 1), failed(uploaded(2, 1)), uploaded(2, 1), failed(uploaded(2, 1)), uploaded(2, 1)}, []Job{uploading(0)}, two},
		"on other agents":                      {slices.Repeat([][]Job{uploaded(1, 7)}, 5), []Job{uploading(0)}, job(7, 61.5, false)},
		"on both":                              {slices.Repeat([][]Job{append(uploaded(1, 7), uploaded(1, 1)[1])}, 5), []Job{uploading(0)}, job(7, 61.5, false) + job(1, 61.5, true)},
		"few builds":                           {slices.Repeat([][]Job{uploaded(2, 1)}, 4), []Job{uploading(0)}, none},
		"a quarter has fewer":                  {[][]Job{uploaded(1, 1), uploaded(1, 1), uploaded(2, 1), uploaded(9, 1), uploaded(9, 1), uploaded(9, 1), uploaded(9, 1), uploaded(9, 1)}, []Job{uploading(0)}, two},
		"a quarter has none":                   {[][]Job{uploaded(9, 1), uploaded(0, 1), failed(uploaded(0, 0)), uploaded(9, 1), uploaded(9, 1)}, []Job{uploading(0)}, none},
		"one of them has failed":               {[][]Job{uploaded(2, 1), failed(uploaded(0, 0)), uploaded(2, 1), uploaded(2, 1), uploaded(2, 1)}, []Job{uploading(0)}, two},
		"the build has further steps":          {slices.Repeat([][]Job{uploaded(2, 1)}, 5), []Job{uploading(0), wait}, none},
		"an attempt has failed":                {slices.Repeat([][]Job{uploaded(2, 1)}, 5), []Job{failed(uploaded(0, 0))[0], uploading(0)}, two},
		"parallel jobs":                        {slices.Repeat([][]Job{uploaded(2, 1)}, 5), []Job{uploading(0), uploading(0)}, none},
		"it has ended":                         {slices.Repeat([][]Job{uploaded(2, 1)}, 5), uploaded(0, 1), none},
		"it is limited":                        {slices.Repeat([][]Job{uploaded(2, 1)}, 5), []Job{{Step: key("upload"), Rules: 1, Created: at(60)}}, none},
		"another pipeline":                     {slices.Repeat([][]Job{uploaded(2, 1)}, 5), []Job{{Step: Key([]byte("other"), []byte("upload")), Rules: 1, Created: at(60), Runnable: at(60)}}, none},
		"a step without a name":                {slices.Repeat([][]Job{uploaded(2, 1)}, 5), []Job{{Rules: 1, Created: at(60), Runnable: at(60)}}, none},
		"they were there before":               {slices.Repeat([][]Job{change(2, func(j *Job) { j.Created = at(0) })}, 5), []Job{uploading(0)}, none},
		"added by another step":                {slices.Repeat([][]Job{change(2, func(j *Job) { j.Created, j.Runnable = at(5), at(5) })}, 5), []Job{uploading(0)}, none},
		"limited or behind others at once":     {slices.Repeat([][]Job{change(2, func(j *Job) { j.Runnable = at(5) })}, 5), []Job{uploading(0)}, none},
		"still behind others":                  {slices.Repeat([][]Job{change(2, func(j *Job) { j.Upcoming, j.Runnable = true, j.Finished })}, 5), []Job{uploading(0)}, none},
		"they need no agent":                   {slices.Repeat([][]Job{uploaded(2, 0)}, 5), []Job{uploading(0)}, none},
	} {
		times := &Times{}
		for n, jobs := range c.builds {
			for range 2 { // polls
				times.Learn(Build{ID: uint64(n + 1), Jobs: jobs})
			}
		}
		times.EndPoll(at(40))
		if got := expects(times, c.now...); got != c.want {
			t.Errorf("%s: expects %q, want %q", name, got, c.want)
		}
	}
}

// TestExpectedFromLastBuilds: the expected number is a quantile of the last 20 builds, in any order. Of each step, few
// kinds of jobs are kept, and those that it no longer adds are forgotten.
func TestExpectedFromLastBuilds(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		times, builds, all := &Times{}, []Build{}, [][]int{} // all: jobs of each build, by rules less one
		for n := range 1 + random.IntN(60) {
			counts := []int{random.IntN(4), random.IntN(2) * random.IntN(9)}
			b := Build{ID: uint64(n + 1), Jobs: []Job{uploaded(0, 0)[0]}}
			for rules, count := range counts {
				b.Jobs = append(b.Jobs, uploaded(count, uint64(rules+1))[1:]...)
			}
			for i := range b.Jobs {
				b.Jobs[i].Finished = b.Jobs[i].Created.Add(at(float64(n + 10)).Sub(start))
			}
			builds, all = append(builds, b), append(all, counts)
		}
		random.Shuffle(len(builds), func(i, j int) { builds[i], builds[j] = builds[j], builds[i] })
		for _, b := range builds {
			times.Learn(b)
		}
		all = all[max(0, len(all)-maxSamples):]
		for rules := range 2 {
			want := []int{}
			for _, counts := range all {
				if len(want) > 0 || counts[rules] > 0 {
					want = append(want, counts[rules])
				}
			}
			slices.Sort(want)
			expected := 0
			if len(want) >= minBuilds {
				expected = want[len(want)/4]
			}
			got := 0
			for _, p := range times.Predict(Build{ID: 999, Jobs: []Job{uploading(0)}}, at(60)) {
				if p.Rules == uint64(rules+1) {
					got++
				}
			}
			if got != expected {
				t.Fatalf("%d jobs are expected, want %d of %v", got, expected, want)
			}
		}
	}
	times := &Times{}
	for n := range uint64(100) {
		times.Learn(Build{ID: n + 1, Jobs: uploaded(1, n+1)})
	}
	if n := len(times.steps[key("upload")].adds); n != maxAdded {
		t.Errorf("%d kinds of jobs are kept", n)
	}
	for n := range uint64(maxSamples) {
		times.Learn(Build{ID: n + 1000, Jobs: uploaded(0, 1)})
	}
	if n := len(times.steps[key("upload")].adds); n != 0 {
		t.Errorf("%d kinds of jobs are kept that are no longer added", n)
	}
}
