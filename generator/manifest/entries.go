package manifest

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// entries says what a list of mappings in a policy's spec must look like, as schedules
// and overrides are.
type entries struct {
	// field is the list's name below spec, and one what an entry is called.
	field, one string
	// fields are those that an entry may have, in the order of the documentation.
	fields []string
	// form is the remedy for what is no list.
	form string
	// most is how many entries there may be, and fewer the remedy for more.
	most  int
	fewer string
}

// entries reads each mapping of a list with read, which is told where it stands and
// can ask whether nothing has been found wrong with it, unknown fields included.
func (r *policyReader) entries(n *yaml.Node, list entries, read func(item *yaml.Node, at string, sound func() bool)) {
	if n.Kind != yaml.SequenceNode {
		r.bad(n, "spec."+list.field, shown(n)+" is not a list", list.form)
		return
	}
	if len(n.Content) > list.most {
		r.bad(n, "spec."+list.field, fmt.Sprintf("are %d", len(n.Content)), fmt.Sprintf("write at most %d: %s", list.most, list.fewer))
		return
	}
	remedy := "its fields are " + strings.Join(list.fields, ", ")
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", list.field, i)
		if item.Kind != yaml.MappingNode {
			r.bad(item, "spec."+at, shown(item)+" is not a mapping", remedy)
			continue
		}
		before := len(r.findings)
		for j := 0; j+1 < len(item.Content); j += 2 {
			if key := item.Content[j]; !slices.Contains(list.fields, key.Value) {
				r.bad(key, "spec."+at+"."+key.Value, "is not a field of "+list.one, didYouMean(key.Value, list.fields, remedy))
			}
		}
		read(item, at, func() bool { return len(r.findings) == before })
	}
}

// namedCount is a number of agents that an entry may give, and where it goes.
type namedCount struct {
	name string
	into **int
}

// counts reads the numbers of agents that an entry gives; what it does not stays nil.
func (r *policyReader) counts(item *yaml.Node, at string, all []namedCount) {
	for _, c := range all {
		if v := lookup(item, c.name); v != nil {
			count := r.count(v, at+"."+c.name)
			*c.into = &count
		}
	}
}
