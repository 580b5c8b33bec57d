package simulation

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// ReadCSV reads a workload. The first row names the columns, in any order:
//
//	at        when the job becomes known: RFC 3339, or seconds since the start
//	duration  how long it runs: as in 4m30s, or seconds
//	count     how many such jobs, at most 4000; optional, 1
//	rules     agent query rules beside the queue's, separated by spaces; optional
//	fails     how many attempts fail before one passes; optional, 0
//	group     concurrency group; optional
//	limit     how many jobs of the group may run at once; optional, 1
//	build     name of the build that the jobs belong to; optional, one of their own
//	stage     jobs of a stage wait until those of the earlier ones of their build have
//	          passed, as behind a wait step; optional, 1
//	cancel    how long after at the build is cancelled, if it is not over; optional, never
//	label     the step's label, by which muster learns how long it takes; optional, none
//
// The time of a build is that of its first row; the others may leave it out. Where times are dates, the first hour that holds a job is the start. The
// queue is the one that rules name, or queue. An error names the first bad row;
// the row of the column names is 1.
func ReadCSV(name string, in io.Reader, queue string) (Workload, error) {
	r := csv.NewReader(in)
	r.TrimLeadingSpace = true
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return Workload{}, errors.New("row 1: the file is empty; its first row names the columns")
	}
	if err != nil {
		return Workload{}, fmt.Errorf("row 1: %w", err)
	}
	columns, err := readHeader(header)
	if err != nil {
		return Workload{}, fmt.Errorf("row 1: %w", err)
	}
	c := csvReader{columns: columns, queue: queue, named: map[string]*csvBuild{}}
	for row := 2; ; row++ {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = c.row(record)
		}
		if err != nil {
			return Workload{}, fmt.Errorf("row %d: %w", row, err)
		}
	}
	if len(c.builds) == 0 {
		return Workload{}, errors.New("row 2: no job")
	}
	return c.workload(name), nil
}

func readHeader(header []string) (map[string]int, error) {
	known := []string{"at", "duration", "count", "rules", "fails", "group", "limit", "build", "stage", "cancel", "label"}
	columns := map[string]int{}
	for i, name := range header {
		name = strings.TrimPrefix(strings.TrimSpace(name), "\ufeff")
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("unknown column %q; the columns are %s", name, strings.Join(known, ", "))
		}
		if _, twice := columns[name]; twice {
			return nil, fmt.Errorf("column %q is there twice", name)
		}
		columns[name] = i
	}
	for _, name := range known[:2] {
		if _, ok := columns[name]; !ok {
			return nil, fmt.Errorf("column %q is missing", name)
		}
	}
	return columns, nil
}

// csvReader collects rows.
type csvReader struct {
	columns map[string]int
	queue   string
	dated   bool
	first   time.Time // where times are dates
	builds  []*csvBuild
	named   map[string]*csvBuild
}

// csvBuild is one build; a row without the name of one is a build of its own.
type csvBuild struct {
	at, cancel time.Duration
	stages     map[int][]fakebuildkite.Step
}

func (c *csvReader) row(record []string) error {
	field := func(name string) string {
		if i, ok := c.columns[name]; ok {
			return strings.TrimSpace(record[i])
		}
		return ""
	}
	step, err := c.step(field)
	if err != nil {
		return err
	}
	stage, err := number("stage", field("stage"), 1, 1000)
	if err != nil {
		return err
	}
	if stage > 1 && field("build") == "" {
		return fmt.Errorf("stage: %d needs a build, and the row has none", stage)
	}
	b, err := c.build(field)
	if err != nil {
		return err
	}
	b.stages[stage] = append(b.stages[stage], step)
	return nil
}

// step reads the jobs of a row.
func (c *csvReader) step(field func(string) string) (fakebuildkite.Step, error) {
	step := fakebuildkite.Step{ConcurrencyGroup: field("group"), Label: field("label")}
	var err error
	if step.Duration, err = span("duration", field("duration")); err != nil {
		return step, err
	}
	for _, n := range []struct {
		name        string
		least, most int
		into        *int
	}{{"count", 1, 4000, &step.Parallelism}, {"fails", 0, 100, &step.Fail}, {"limit", 1, 1e6, &step.Concurrency}} {
		if *n.into, err = number(n.name, field(n.name), n.least, n.most); err != nil {
			return step, err
		}
	}
	step.Retries = max(retries, step.Fail)
	for _, rule := range strings.Fields(field("rules")) {
		if key, value, ok := strings.Cut(rule, "="); !ok || key == "" || value == "" {
			return step, fmt.Errorf("rules: %q is not key=value", rule)
		}
		step.Agents = append(step.Agents, rule)
	}
	if !slices.ContainsFunc(step.Agents, func(rule string) bool { return strings.HasPrefix(rule, "queue=") }) {
		step.Agents = append(step.Agents, "queue="+c.queue)
	}
	return step, nil
}

// build returns the build that a row is of.
func (c *csvReader) build(field func(string) string) (*csvBuild, error) {
	name := field("build")
	b := c.named[name]
	if b == nil || field("at") != "" {
		at, err := c.at(field("at"))
		switch {
		case err != nil:
			return nil, err
		case b == nil:
			b = &csvBuild{at: at, stages: map[int][]fakebuildkite.Step{}}
			c.builds = append(c.builds, b)
		case at != b.at:
			return nil, fmt.Errorf("at: %q is not the time of build %q that the first of its rows has", field("at"), name)
		}
	}
	if text := field("cancel"); text != "" {
		cancel, err := span("cancel", text)
		switch {
		case err != nil:
			return nil, err
		case cancel == 0:
			return nil, errors.New("cancel: a build cannot be cancelled when it is created")
		case b.cancel > 0 && cancel != b.cancel:
			return nil, fmt.Errorf("cancel: %q differs from an earlier row of build %q", text, name)
		}
		b.cancel = cancel
	}
	if name != "" {
		c.named[name] = b
	}
	return b, nil
}

// steps are those of a build, with a wait step between two stages.
func (b *csvBuild) steps() []fakebuildkite.Step {
	var steps []fakebuildkite.Step
	for i, stage := range slices.Sorted(maps.Keys(b.stages)) {
		if i > 0 {
			steps = append(steps, fakebuildkite.Step{Type: fakebuildkite.Wait})
		}
		steps = append(steps, b.stages[stage]...)
	}
	return steps
}

// at reads a time as so long after a start, which is settled later for dates.
func (c *csvReader) at(text string) (time.Duration, error) {
	t, err := time.Parse(time.RFC3339, text)
	dated := err == nil
	if len(c.builds) > 0 && dated != c.dated {
		return 0, fmt.Errorf("at: %q: earlier rows have another time format", text)
	}
	c.dated = dated
	if !dated {
		return span("at", text)
	}
	if c.first.IsZero() {
		c.first = t
	}
	return t.Sub(c.first), nil
}

func span(name, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if seconds, numeric := strconv.ParseFloat(text, 64); numeric == nil {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	switch {
	case text == "":
		return 0, fmt.Errorf("%s is missing", name)
	case err != nil && name == "at":
		return 0, fmt.Errorf("at: %q is neither a time as in 2026-01-05T08:00:00Z nor seconds since the start", text)
	case err != nil:
		return 0, fmt.Errorf("%s: %q is neither a duration as in 4m30s nor seconds", name, text)
	case d < 0 || d > 366*24*time.Hour:
		return 0, fmt.Errorf("%s: %q is not between nothing and a year", name, text)
	}
	return d, nil
}

func number(name, text string, least, most int) (int, error) {
	if text == "" {
		return least, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s: %q is not a number from %d to %d", name, text, least, most)
	}
	return n, nil
}

func (c *csvReader) workload(name string) Workload {
	var start time.Time
	var shift time.Duration
	if c.dated {
		earliest := c.builds[0].at
		for _, b := range c.builds {
			earliest = min(earliest, b.at)
		}
		start = c.first.Add(earliest).Truncate(time.Hour).UTC()
		shift = start.Sub(c.first)
	}
	var arrivals []Arrival
	for _, b := range c.builds {
		arrivals = append(arrivals, Arrival{At: b.at - shift, Cancel: b.cancel, Build: fakebuildkite.Build{Steps: b.steps()}})
	}
	slices.SortStableFunc(arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	last := arrivals[len(arrivals)-1].At
	return Workload{Name: name, Start: start, Length: last + time.Minute, Arrivals: arrivals}
}
