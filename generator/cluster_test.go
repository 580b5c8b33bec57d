package generator_test

import (
	"errors"
	"math/rand/v2"
	"time"

	"muster/generator/simulation"
)

// kube is a cluster whose syncer looks at the fleet now and then, and everything
// that can go wrong in it.
type kube struct {
	simulation.Cluster
	fleet   *fleetRepository
	overlay string // its directory
	random  *rand.Rand

	lag       time.Duration    // between two looks
	startup   [2]time.Duration // of pods to come
	noShow    float64          // share of pods that never come up
	crash     float64          // share of agents that die without a word
	warmDies  time.Duration    // after connecting, agents of the warm pool die; zero is never
	twin      float64          // share of pods whose index has a second one
	twins     *rand.Rand       // draws which
	linger    simulation.Linger
	lingers   *rand.Rand // draws how long each agent lingers
	down      bool       // the syncer is
	broken    bool       // the image never starts
	onProblem func(text string)
	tampered  map[string]bool // dispatches that a person has edited
}

// start lets the syncer look now and every lag from now on.
func (k *kube) start() {
	k.Fate = k.fate
	came := k.Registered
	k.Registered = func(p *simulation.Pod) {
		if came != nil {
			came(p)
		}
		k.came(p)
	}
	k.look()
}

func (k *kube) look() {
	if !k.down {
		// What people have broken does not build; an edited manifest is muster's doing.
		var edited *simulation.EditedError
		if err := k.Sync(k.fleet.head().tree, k.overlay); errors.As(err, &edited) && !k.tampered[edited.Job] {
			k.onProblem(err.Error())
		}
	}
	k.Buildkite.At(k.Buildkite.Now().Add(k.lag), k.look)
}

// fate draws the same number of times for each pod, whatever the faults.
func (k *kube) fate() simulation.Fate {
	f := simulation.Fate{Startup: k.startup[0] + time.Duration(k.random.Int64N(int64(k.startup[1]-k.startup[0])+1))}
	noShow, dies, when := k.random.Float64(), k.random.Float64(), k.random.Int64N(int64(20*time.Minute))
	f.NoShow = noShow < k.noShow || k.broken
	if dies < k.crash {
		f.Lost = 1 + time.Duration(when)
	}
	if k.lingers != nil {
		f.Linger = k.linger.Draw(k.lingers)
	}
	if k.twins != nil {
		twin, seen, boot := k.twins.Float64(), k.twins.Int64N(int64(3*time.Minute)), k.twins.Int64N(int64(k.startup[1]-k.startup[0])+1)
		if twin < k.twin {
			f.Twin, f.TwinStartup = 1+time.Duration(seen), k.startup[0]+time.Duration(boot)
		}
	}
	return f
}

// registered lets an agent of the warm pool die, in turns by ending and without a word.
func (k *kube) came(p *simulation.Pod) {
	if k.warmDies == 0 || p.Job.Priority != 1 {
		return
	}
	k.Buildkite.At(k.Buildkite.Now().Add(k.warmDies), func() {
		switch {
		case k.Pod(p.Agent) != p:
		case p.Index%2 == 0:
			k.Buildkite.StopAgent(p.Agent) // comes back through AgentEnded
		default:
			k.Kill(p)
		}
	})
}

// heal ends every fault.
func (k *kube) heal() {
	k.down, k.broken, k.noShow, k.crash, k.twin, k.warmDies, k.Skew = false, false, 0, 0, 0, 0, 0
	k.SetNodes(0)
	k.startup[1] = min(k.startup[1], k.startup[0]+time.Minute)
}
