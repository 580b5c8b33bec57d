package policy

import (
	"fmt"
	"time"

	"muster/generator/plan"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// LongestLease is the longest lease that a policy may set. It equals the base's
// activeDeadlineSeconds: a Job starts no pod after that.
const LongestLease = 24 * time.Hour

// auto is the value of a field that muster derives from what it observed.
const auto = "auto"

// orAuto ends the remedy of an invalid value of such a field.
const orAuto = ", or " + auto

// isAuto reports whether the value of a field is auto.
func isAuto(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag == "!!str" && n.Value == auto
}

// autoOr returns the schema of auto and of the values of another schema.
func autoOr(other keywords) keywords {
	return keywords{"anyOf": []keywords{{"const": auto}, other}}
}

// leaseField is the field lease: a length of time, or auto.
func leaseField() specField {
	f := span("lease", time.Minute, LongestLease, plan.FirstLease, "how long after its order an agent may start; a later one exits",
		"the time in which an ordered agent must start; a later one exits at once. Longer than syncer and node need, shorter than you would wait for a lost agent. "+
			"Above 50m, increase the template's `ttlSecondsAfterFinished`. "+
			fmt.Sprintf("`auto`, which `muster init` writes, is four times the 99th percentile of this overlay's start-up times, from %s to %s; ",
				Span(plan.FirstLease), Span(plan.MaxAutoLease))+
			"muster then replaces an overdue agent before its lease expires, if agents of a newer order have registered in the usual time",
		func(p *plan.Policy) *time.Duration { return &p.Lease })
	f.Type += ", or `" + auto + "`"
	f.Show = func(p plan.Policy) string {
		if p.LeaseAuto {
			return auto
		}
		return Span(p.Lease)
	}
	fixed := f.read
	f.read = func(r *policyReader, n *yaml.Node) {
		r.policy.LeaseAuto = isAuto(n)
		if before := len(r.findings); !r.policy.LeaseAuto {
			if fixed(r, n); len(r.findings) > before {
				r.findings[before].Remedy += orAuto
			}
		}
	}
	fixedShape := f.shape
	f.shape = func() keywords { return autoOr(fixedShape()) }
	return f
}

// LongestOf is the longest lease that orders by the policy may have.
func LongestOf(p plan.Policy) time.Duration {
	if p.LeaseAuto {
		return plan.MaxAutoLease
	}
	return p.Lease
}
