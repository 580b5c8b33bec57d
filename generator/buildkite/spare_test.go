package buildkite_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
)

// TestSpare: a caller that looks at each interval, and beside that as often as Spare
// lets it, at most every three seconds, is never told to wait; and it does look beside
// where there is room for it. Where there is none, Spare says so.
func TestSpare(t *testing.T) {
	for _, c := range []struct {
		limit, clusters, builds int
		interval                time.Duration
		least, most             int // looks in ten minutes
	}{
		{limit: 0, interval: 15 * time.Second, least: 200, most: 200}, // not told
		{limit: 50, interval: 15 * time.Second, least: 60, most: 130}, // half of it is 25 a minute
		{limit: 50, clusters: 5, interval: 15 * time.Second, least: 45, most: 100},
		{limit: 50, builds: 350, interval: 15 * time.Second, least: 40, most: 41}, // five a look, and the clusters: 21 are used
		{limit: 50, builds: 350, interval: time.Minute, least: 25, most: 45},
		{limit: 2000, clusters: 5, builds: 450, interval: 15 * time.Second, least: 200, most: 200},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			o := newOrganisation(fakebuildkite.Options{UserLimit: c.limit})
			for range c.clusters {
				o.AddQueue(o.AddCluster("c"), "q")
			}
			for range c.builds {
				o.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{}}})
			}
			client := newClient(t, buildkite.Config{HTTP: o.Transport()})
			looks, beside := 0, 0
			from := o.Now()
			for next := from; o.Now().Sub(from) < 10*time.Minute; {
				begun := o.Now()
				if _, err := client.Snapshot(context.Background(), plan.Query{At: begun}); err != nil {
					var wait *buildkite.Unfinished
					t.Fatalf("look %d, %d beside, at %s: %v (%t)", looks, beside, begun.Sub(from), err, errors.As(err, &wait))
				}
				looks++
				next = begun.Add(c.interval)
				o.AdvanceTo(begun.Add(3 * time.Second))
				if spare := client.Spare(o.Now(), c.interval); spare < next.Sub(o.Now()) {
					beside++
					o.Advance(spare)
					continue
				}
				o.AdvanceTo(next)
			}
			if looks < c.least || looks > c.most {
				t.Errorf("%d looks in ten minutes, %d of them beside: want %d to %d", looks, beside, c.least, c.most)
			}
			if c.limit > 0 && o.most() > c.limit/2 {
				t.Errorf("%d requests in a minute", o.most())
			}
		})
	}
}
