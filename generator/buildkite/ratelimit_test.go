package buildkite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
	"muster/gitops/unraced"
)

// organisation is a simulated Buildkite that counts requests.
type organisation struct {
	*fakebuildkite.Server
	sent []time.Time
	// latency passes before each answer, and happen what it is given.
	latency time.Duration
	happen  func()
}

func newOrganisation(opts fakebuildkite.Options) *organisation {
	o := &organisation{}
	opts.Token, opts.Now = secret, now
	opts.BeforeRequest = func(*http.Request) {
		o.Advance(o.latency)
		o.sent = append(o.sent, o.Now())
		if o.happen != nil {
			o.happen()
		}
	}
	o.Server = fakebuildkite.New(opts)
	return o
}

// max is the largest number of requests in any minute.
func (o *organisation) most() (most int) {
	first := 0
	for i, at := range o.sent {
		for at.Sub(o.sent[first]) >= time.Minute {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// poll calls as the loop does, every 15 seconds or as long as the client asks it to wait,
// until there is a snapshot.
func (o *organisation) poll(t *testing.T, c *buildkite.Client, since time.Time) (plan.Snapshot, int) {
	t.Helper()
	for calls := 1; calls < 1000; calls++ {
		snapshot, err := c.Snapshot(context.Background(), plan.Query{At: o.Now(), Since: since})
		if err == nil {
			return snapshot, calls
		}
		var wait interface{ RetryAfter() time.Duration }
		if !errors.As(err, &wait) {
			t.Fatal(err)
		}
		o.Advance(max(15*time.Second, wait.RetryAfter()))
	}
	t.Fatal("no snapshot after a thousand calls")
	return plan.Snapshot{}, 0
}

// TestManyPages: a poll of many pages uses at most half of 50 requests a minute, and takes the
// corresponding time.
func TestManyPages(t *testing.T) {
	for _, pages := range []int{1, 20, 60, 200} {
		t.Run(fmt.Sprint(pages), func(t *testing.T) {
			if pages > 60 {
				unraced.Only(t)
			}
			o := newOrganisation(fakebuildkite.Options{UserLimit: 50, OrgLimit: 200})
			o.latency = 300 * time.Millisecond
			for range pages * 100 {
				o.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=none"}}}})
			}
			c := newClient(t, buildkite.Config{HTTP: o.Transport()})
			for range 2 {
				began := o.Now()
				snapshot, calls := o.poll(t, c, time.Time{})
				if len(snapshot.Jobs) != pages*100 {
					t.Errorf("%d jobs, want %d", len(snapshot.Jobs), pages*100)
				}
				longest := time.Duration(pages/25+1) * (time.Minute + 15*time.Second)
				if took := o.Now().Sub(began); took > longest {
					t.Errorf("%s in %d calls, want at most %s", took, calls, longest)
				}
				t.Logf("%s in %d calls", o.Now().Sub(began).Round(time.Second), calls)
				if spread := !snapshot.Until.IsZero(); spread != (pages >= 25) {
					t.Errorf("from %s until %s", snapshot.At, snapshot.Until)
				}
				o.Advance(15 * time.Second)
			}
			if o.most() > 25 {
				t.Errorf("%d requests in a minute, want at most half of 50", o.most())
			}
			if limited := c.Stats().RateLimited; limited > 0 {
				t.Errorf("refused %d times", limited)
			}
		})
	}
}

// TestRefusedPollContinues: after a 429 in the middle of a poll, pages that were read are not read
// again.
func TestRefusedPollContinues(t *testing.T) {
	o := newOrganisation(fakebuildkite.Options{UserLimit: 1000, OrgLimit: 200})
	for range 1000 {
		o.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=none"}}}})
	}
	o.happen = func() {
		if len(o.sent) == 6 {
			o.Spend(200)
		}
	}
	c := newClient(t, buildkite.Config{HTTP: o.Transport()})
	snapshot, calls := o.poll(t, c, time.Time{})
	if len(snapshot.Jobs) != 1000 || calls != 2 || c.Stats().RateLimited != 1 {
		t.Errorf("%d jobs in %d calls, %+v", len(snapshot.Jobs), calls, c.Stats())
	}
	// Agents, ten pages of builds, the clusters; the refused one; and the page
	// before it again, to see that nothing has slipped.
	if len(o.sent) != 1+10+1+1+1 {
		t.Errorf("%d requests", len(o.sent))
	}
	if !snapshot.At.Equal(now) || snapshot.Until.Before(now.Add(time.Minute)) {
		t.Errorf("from %s until %s", snapshot.At, snapshot.Until)
	}
}

// TestPollsAreSpread: polls that fit into the limit, but not four times a minute, are spread evenly.
func TestPollsAreSpread(t *testing.T) {
	o := newOrganisation(fakebuildkite.Options{UserLimit: 50, OrgLimit: 200})
	for range 900 { // ten requests: with the agents
		o.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=none"}}}})
	}
	c := newClient(t, buildkite.Config{HTTP: o.Transport()})
	var ends []time.Time
	for range 12 {
		snapshot, _ := o.poll(t, c, time.Time{})
		if !snapshot.Until.IsZero() && len(ends) > 2 {
			t.Errorf("a reading is spread from %s until %s", snapshot.At, snapshot.Until)
		}
		ends = append(ends, o.Now())
		o.Advance(15 * time.Second)
	}
	for i := 4; i < len(ends); i++ {
		if between := ends[i].Sub(ends[i-1]); between > 35*time.Second {
			t.Errorf("%s between two polls, want half a minute", between)
		}
	}
	if o.most() > 25 {
		t.Errorf("%d requests in a minute, want at most half of 50", o.most())
	}
}

// TestPollTooLong: a poll that takes too long is discarded, and is an error.
func TestPollTooLong(t *testing.T) {
	o := newOrganisation(fakebuildkite.Options{UserLimit: 4, OrgLimit: 200})
	for range 4000 {
		o.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=none"}}}})
	}
	c := newClient(t, buildkite.Config{HTTP: o.Transport()})
	for o.Now().Before(now.Add(buildkite.LongestPoll)) {
		_, err := c.Snapshot(context.Background(), plan.Query{At: o.Now()})
		checkError(t, "during the poll", err, "2 a minute are allowed")
		o.Advance(15 * time.Second)
	}
	o.Advance(15 * time.Second)
	_, err := c.Snapshot(context.Background(), plan.Query{At: o.Now()})
	checkError(t, "after that", err, "has taken more than 15m0s and is not done after")
	_, err = c.Snapshot(context.Background(), plan.Query{At: o.Now().Add(time.Minute)})
	checkError(t, "and then", err, "2 a minute are allowed")
}

// TestSinceBecomesEarlier: when a call asks for more finished builds than those
// before it did, they are read.
func TestSinceBecomesEarlier(t *testing.T) {
	o := newOrganisation(fakebuildkite.Options{UserLimit: 10})
	connect(t, o.Server, fakebuildkite.Agent{Tags: []string{"dispatch=d", "index=0"}, AfterJob: true})
	o.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Duration: time.Second}}})
	o.Advance(time.Minute)
	for range 250 {
		o.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=none"}}}})
	}
	o.AddQueue(o.AddCluster("One"), "default")
	c := newClient(t, buildkite.Config{HTTP: o.Transport()})
	for i, since := range []time.Time{{}, now.Add(30 * time.Second), now.Add(-time.Minute)} {
		snapshot, err := c.Snapshot(context.Background(), plan.Query{At: o.Now(), Since: since})
		if i < 1 {
			checkError(t, "first", err, "5 a minute are allowed")
		} else if err == nil && len(snapshot.Sightings) == 0 && i == 2 {
			t.Error("the agent of the finished build was not seen")
		}
		if err == nil && i == 2 {
			return
		}
		o.Advance(time.Minute)
	}
	if snapshot, _ := o.poll(t, c, now.Add(-time.Minute)); len(snapshot.Sightings) != 1 {
		t.Error("the agent of the finished build was not seen")
	}
}

// TestShiftingPages: agents and builds are added and removed between the pages of a poll that takes
// minutes. No agent that was connected throughout is missed, and no job of a listed agent counts as
// pending.
func TestShiftingPages(t *testing.T) {
	unraced.Only(t)
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			o := newOrganisation(fakebuildkite.Options{UserLimit: 40, OrgLimit: 200})
			o.latency = time.Second
			var stay, leave []string
			connect := func(spec fakebuildkite.Agent) string {
				id := connect(t, o.Server, spec)
				return id
			}
			for range 2500 { // in the order of the list, any of both
				if r.IntN(3) == 0 {
					stay = append(stay, connect(fakebuildkite.Agent{Tags: []string{"queue=idle"}}))
				} else {
					leave = append(leave, connect(fakebuildkite.Agent{Tags: []string{"queue=idle"}}))
				}
			}
			rate := 1 + r.IntN(12)
			o.happen = func() {
				for range rate { // agents a second
					if len(leave) > 0 {
						i := r.IntN(len(leave))
						o.StopAgent(leave[i])
						leave = slices.Delete(leave, i, i+1)
					}
					if r.IntN(3) > 0 {
						continue
					}
					o.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=work"}, Duration: time.Duration(r.IntN(200)) * time.Second}}})
					connect(fakebuildkite.Agent{Tags: []string{"queue=work"}, AfterJob: true})
				}
			}
			c := newClient(t, buildkite.Config{HTTP: o.Transport()})
			for range 3 {
				snapshot, _ := o.poll(t, c, time.Time{})
				listed := map[string]bool{}
				for _, a := range snapshot.Agents {
					listed[a.ID] = true
				}
				for _, id := range stay {
					if !listed[id] {
						t.Errorf("the agent %s was there all the time and is missed", id)
					}
				}
				for _, j := range snapshot.Jobs {
					// Each job's own agent takes it as it is made.
					t.Errorf("the job %s is %s", j.ID, j.State)
				}
				o.Advance(15 * time.Second)
			}
			if o.most() > 20 {
				t.Errorf("%d requests in a minute", o.most())
			}
		})
	}
}

// TestLargeClusters: an organisation with more clusters than a minute's requests
// is read, in several calls.
func TestLargeClusters(t *testing.T) {
	o := newOrganisation(fakebuildkite.Options{UserLimit: 20})
	for i := range 40 {
		o.AddQueue(o.AddCluster("c"), fmt.Sprintf("q%d", i))
	}
	c := newClient(t, buildkite.Config{HTTP: o.Transport()})
	for range 3 {
		snapshot, _ := o.poll(t, c, time.Time{})
		var keys []string
		for _, q := range snapshot.Queues {
			keys = append(keys, q.Key)
		}
		slices.Sort(keys)
		if len(slices.Compact(keys)) != 40 {
			t.Errorf("%d queues, want 40", len(keys))
		}
		o.Advance(10 * time.Minute)
	}
	if o.most() > 10 {
		t.Errorf("%d requests in a minute", o.most())
	}
}

// TestSpare: a caller that polls at each interval, and also as often as Spare allows, at most every
// three seconds, never exceeds the limit, and uses spare requests. Without any, Spare returns the wait.
func TestSpare(t *testing.T) {
	unraced.Only(t)
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
					t.Fatalf("poll %d, %d beside, at %s: %v (%t)", looks, beside, begun.Sub(from), err, errors.As(err, &wait))
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
				t.Errorf("%d polls in ten minutes, %d of them beside: want %d to %d", looks, beside, c.least, c.most)
			}
			if c.limit > 0 && o.most() > c.limit/2 {
				t.Errorf("%d requests in a minute", o.most())
			}
		})
	}
}

// TestSpareOfLaterTime: a caller that asks when it may poll in two minutes, as the loop does after
// each poll, sends no more requests in any minute than one that does not ask.
func TestSpareOfLaterTime(t *testing.T) {
	o := newOrganisation(fakebuildkite.Options{UserLimit: 50})
	client := newClient(t, buildkite.Config{HTTP: o.Transport()})
	const interval = 2 * time.Minute
	for from := o.Now(); o.Now().Sub(from) < 10*time.Minute; {
		if _, err := client.Snapshot(context.Background(), plan.Query{At: o.Now()}); err != nil {
			t.Fatal(err)
		}
		o.Advance(time.Second)
		client.Spare(o.Now().Add(interval), interval)
		o.Advance(client.Spare(o.Now(), interval))
	}
	if o.most() > 25 {
		t.Errorf("%d requests in a minute, want at most half of 50", o.most())
	}
}

// TestFractionsOfSeconds: a client that is called with whole seconds, as by the loop, sends no more
// than half of the limit in any minute.
func TestFractionsOfSeconds(t *testing.T) {
	o := newOrganisation(fakebuildkite.Options{UserLimit: 6}) // a poll takes two requests, and one for the clusters
	client := newClient(t, buildkite.Config{HTTP: o.Transport(), Clock: o})
	o.Advance(900 * time.Millisecond)
	for range 3 {
		if _, err := client.Snapshot(context.Background(), plan.Query{At: o.Now().Truncate(time.Second)}); err != nil {
			t.Fatal(err)
		}
		o.Advance(client.Spare(o.Now(), 2*time.Minute))
	}
	if o.most() > 3 {
		t.Errorf("%d requests in a minute, want at most half of 6", o.most())
	}
}
