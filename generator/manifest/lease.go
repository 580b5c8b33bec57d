package manifest

import (
	"fmt"
	"time"

	"muster/generator/plan"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// LeaseAuto is the lease that goes by how long boots take.
const LeaseAuto = "auto"

// leaseField is the field lease: a length of time, or auto.
func leaseField() specField {
	f := span("lease", time.Minute, LongestLease, plan.FirstLease, "the time an ordered agent has to start; later it leaves at once",
		"the time an ordered agent has to start; a later one exits at once. Longer than syncer and node take, shorter than you would wait for a lost one. "+
			"Above 50m the template's `ttlSecondsAfterFinished` must grow too. "+
			fmt.Sprintf("`auto` goes by how long this overlay's agents took: %s until %d are known, then four times what 99 of 100 took, %s to %s; ",
				brief(plan.FirstLease), plan.LeastBoots, brief(plan.LeastAutoLease), brief(plan.MostAutoLease))+
			"agents that are late are then ordered again before their lease is over. It is what `muster init` writes",
		func(p *plan.Policy) *time.Duration { return &p.Lease })
	f.Type += ", or `" + LeaseAuto + "`"
	fixed := f.read
	f.read = func(r *policyReader, n *yaml.Node) {
		r.policy.LeaseAuto = n.Kind == yaml.ScalarNode && n.Tag == "!!str" && n.Value == LeaseAuto
		if before := len(r.findings); !r.policy.LeaseAuto {
			if fixed(r, n); len(r.findings) > before {
				r.findings[before].Remedy += ", or " + LeaseAuto
			}
		}
	}
	f.shape = keywords{"anyOf": []keywords{{"const": LeaseAuto}, f.shape}}
	return f
}

// longestOf is the longest lease that orders by the policy may have.
func longestOf(p plan.Policy) time.Duration {
	if p.LeaseAuto {
		return plan.MostAutoLease
	}
	return p.Lease
}

// leasesOf are all leases that orders by the policy may have.
func leasesOf(p plan.Policy) []time.Duration {
	if !p.LeaseAuto {
		return []time.Duration{p.Lease}
	}
	var all []time.Duration
	for lease := plan.LeastAutoLease; lease <= plan.MostAutoLease; lease += time.Minute {
		all = append(all, lease)
	}
	return all
}
