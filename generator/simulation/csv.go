package simulation

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
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
//
// Where times are dates, the first hour that holds a job is the start. The
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
	c := csvReader{columns: columns, queue: queue}
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
	if len(c.arrivals) == 0 {
		return Workload{}, errors.New("row 2: there is no job")
	}
	return c.workload(name), nil
}

func readHeader(header []string) (map[string]int, error) {
	known := []string{"at", "duration", "count", "rules", "fails", "group", "limit"}
	columns := map[string]int{}
	for i, name := range header {
		name = strings.TrimPrefix(strings.TrimSpace(name), "\ufeff")
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("column %q is not known; the columns are %s", name, strings.Join(known, ", "))
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
	columns  map[string]int
	queue    string
	dated    bool
	first    time.Time // where times are dates
	arrivals []Arrival
}

func (c *csvReader) row(record []string) error {
	field := func(name string) string {
		if i, ok := c.columns[name]; ok {
			return strings.TrimSpace(record[i])
		}
		return ""
	}
	at, err := c.at(field("at"))
	if err != nil {
		return err
	}
	step := fakebuildkite.Step{ConcurrencyGroup: field("group")}
	if step.Duration, err = span("duration", field("duration")); err != nil {
		return err
	}
	for _, n := range []struct {
		name        string
		least, most int
		into        *int
	}{{"count", 1, 4000, &step.Parallelism}, {"fails", 0, 100, &step.Fail}, {"limit", 1, 1e6, &step.Concurrency}} {
		if *n.into, err = number(n.name, field(n.name), n.least, n.most); err != nil {
			return err
		}
	}
	step.Retries = max(retries, step.Fail)
	for _, rule := range strings.Fields(field("rules")) {
		if key, value, ok := strings.Cut(rule, "="); !ok || key == "" || value == "" {
			return fmt.Errorf("rules: %q is not key=value", rule)
		}
		step.Agents = append(step.Agents, rule)
	}
	if !slices.ContainsFunc(step.Agents, func(rule string) bool { return strings.HasPrefix(rule, "queue=") }) {
		step.Agents = append(step.Agents, "queue="+c.queue)
	}
	c.arrivals = append(c.arrivals, Arrival{At: at, Build: fakebuildkite.Build{Steps: []fakebuildkite.Step{step}}})
	return nil
}

// at reads a time as so long after a start, which is settled later for dates.
func (c *csvReader) at(text string) (time.Duration, error) {
	t, err := time.Parse(time.RFC3339, text)
	dated := err == nil
	if len(c.arrivals) > 0 && dated != c.dated {
		return 0, fmt.Errorf("at: %q: the rows before this one write times the other way", text)
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
	if c.dated {
		earliest := c.arrivals[0].At
		for _, a := range c.arrivals {
			earliest = min(earliest, a.At)
		}
		start = c.first.Add(earliest).Truncate(time.Hour).UTC()
		shift := start.Sub(c.first)
		for i := range c.arrivals {
			c.arrivals[i].At -= shift
		}
	}
	slices.SortStableFunc(c.arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	last := c.arrivals[len(c.arrivals)-1].At
	return Workload{Name: name, Start: start, Length: last + time.Minute, Arrivals: c.arrivals}
}
