package simulation

import (
	"math/rand/v2"
	"time"
)

// Faults is what goes wrong in a cluster. The shares are between 0 and 1; the
// zero value is a cluster without any.
type Faults struct {
	// Nodes is how many pods have room at once; zero has room for all.
	Nodes int
	// SlowNode is the share of pods that a node has to be made for, which takes
	// between NodeTime[0] and NodeTime[1] more.
	SlowNode float64
	NodeTime [2]time.Duration
	// NoShow is the share of pods whose agent never registers.
	NoShow float64
	// Lost is the share of agents that die without a word, at some time of
	// their first LostWithin, if they are still there then.
	Lost       float64
	LostWithin time.Duration
}

// Fates draws the fates of pods that take between boot[0] and boot[1] to start.
// The number of draws of one depends on the faults alone, so that the n-th pod of
// two runs has the same.
func (t Faults) Fates(boot [2]time.Duration, random *rand.Rand) func() Fate {
	between := func(span [2]time.Duration) time.Duration {
		return span[0] + time.Duration(random.Int64N(int64(span[1]-span[0])+1))
	}
	return func() Fate {
		f := Fate{Startup: between(boot)}
		if t.SlowNode > 0 {
			slow := random.Float64() < t.SlowNode
			if extra := between(t.NodeTime); slow {
				f.Startup += extra
			}
		}
		if t.NoShow > 0 {
			f.NoShow = random.Float64() < t.NoShow
		}
		if t.Lost > 0 {
			lost := random.Float64() < t.Lost
			if in := 1 + between([2]time.Duration{0, t.LostWithin}); lost {
				f.Lost = in
			}
		}
		return f
	}
}
