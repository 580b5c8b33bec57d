package kubernetes

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// resources checks the resources of a container: names, no negative amounts, and no request above its
// limit.
func (c *checker) resources(s spot) {
	for _, kind := range []string{"limits", "requests"} {
		c.amounts(s.at(kind))
	}
	hugeAlone := false
	for _, name := range s.at("requests").keys() {
		c.request(s, name)
	}
	for _, name := range append(s.at("requests").keys(), s.at("limits").keys()...) {
		hugeAlone = hugeAlone || strings.HasPrefix(name, "hugepages-")
	}
	for _, kind := range []string{"limits", "requests"} {
		hugeAlone = hugeAlone && s.at(kind, "cpu").node == nil && s.at(kind, "memory").node == nil
	}
	if hugeAlone {
		c.bad(s, "asks for hugepages alone", "ask for cpu or memory too")
	}
}

func nearestResource(name string) string {
	if r := nearest(name, []string{"cpu", "memory", "ephemeral-storage"}); strings.HasPrefix(r, "nearest") {
		return r
	}
	return "write cpu, memory, ephemeral-storage, or a name with a domain as in nvidia.com/gpu"
}

// request compares one request with its limit.
func (c *checker) request(s spot, name string) {
	request, limit := s.at("requests", name), s.at("limits", name)
	fixed := strings.Contains(name, "/") && !strings.Contains(name, "kubernetes.io/") || strings.HasPrefix(name, "hugepages-")
	asked, ok := parseQuantity(request.text())
	if !ok {
		return
	}
	most, ok := parseQuantity(limit.text())
	if null := limit.node != nil && !limit.set(); !ok && !null { // null is 0
		if fixed && limit.node == nil {
			c.badf(request, "write the limit "+name+": "+request.text(), "has no limit, and %s is not given without one", name)
		}
		return
	}
	switch d := asked.Cmp(most); {
	case d > 0:
		c.badf(limit, "write "+request.text()+" or more", "the limit of %s is below the request of %s", limit.text(), request.text())
	case d != 0 && fixed:
		c.badf(limit, "write "+request.text(), "is %s and the request is %s: of %s both are the same", limit.text(), request.text(), name)
	}
}

// amounts checks the names and quantities of a list of resources.
func (c *checker) amounts(list spot) {
	for _, name := range list.keys() {
		at := list.at(name)
		standard := slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, name)
		if !isQualified(name) || !strings.Contains(name, "/") && !standard && !strings.HasPrefix(name, "hugepages-") || strings.HasPrefix(name, "requests.") {
			c.bad(at, "is not a resource of Kubernetes", nearestResource(name))
		}
		q, ok := parseQuantity(at.text())
		switch {
		case !ok:
		case q.Sign() < 0:
			c.badf(at, quantityRemedy, "%s is negative", at.text())
		case strings.Contains(name, "/") && !strings.Contains(name, "kubernetes.io/") && q.MilliValue()%1000 != 0: // ValidateResourceQuantityValue
			c.badf(at, "write a whole number: it cannot be shared", "is %s", at.quoted())
		}
	}
}

// podResources compares the resources of a pod with those of its containers.
func (c *checker) podResources(s spot) {
	c.amounts(s.at("overhead"))
	whole := s.at("resources")
	if claims := whole.at("claims"); claims.set() {
		c.bad(claims, "are not for the pod as a whole", "write them in a container's resources")
	}
	for _, kind := range []string{"limits", "requests"} {
		for _, name := range whole.at(kind).keys() {
			if at := whole.at(kind, name); name != "cpu" && name != "memory" && !strings.HasPrefix(name, "hugepages-") {
				c.bad(at, "is not for the pod as a whole", "write it in a container's resources")
				continue
			}
			own, needed := sum(s, kind, name), sum(s, "requests", name)
			limit, limited := parseQuantity(whole.at("limits", name).text())
			most, ok := parseQuantity(whole.at(kind, name).text())
			switch {
			case kind == "requests" && ok && limited && most.Cmp(limit) > 0:
				c.badf(whole.at(kind, name), "write less, or a larger limit", "is %s, more than the limit", whole.at(kind, name).text())
			case ok && own.Cmp(most) > 0,
				// without its own, the request is the limit
				kind == "limits" && ok && !whole.at("requests", name).set() && needed.Cmp(most) > 0:
				c.badf(whole.at(kind, name), "write more, or less in the containers", "is %s, and the containers have more", whole.at(kind, name).text())
			}
		}
	}
}

// sum returns the largest limit of a pod's containers, or the sum of their requests.
func sum(s spot, kind, name string) (sum resource.Quantity) {
	for _, x := range s.at("containers").items() {
		amount, set := parseQuantity(x.at("resources", kind, name).text())
		if !set && kind == "requests" {
			amount, set = parseQuantity(x.at("resources", "limits", name).text())
		}
		switch {
		case !set:
		case kind == "requests":
			sum.Add(amount)
		case amount.Cmp(sum) > 0:
			sum = amount
		}
	}
	return sum
}

const quantityRemedy = `write one as in 500m or "2" for CPU, 2Gi or 512Mi for memory and disk`

// quantityRule bounds what [resource.ParseQuantity] parses. A number has 1 to 64 digits: the
// library reads a unit alone, such as "Gi", as 0, and parses 4 MiB of digits in 40 s. An exponent
// has at most three: to compare 1e99999999 with 1, the library takes two minutes and 450 MiB.
var quantityRule = regexp.MustCompile(`^[+-]?\.?[0-9][0-9.]{0,63}([a-zA-Z]{0,2}|[eE][+-]?[0-9]{1,3})$`)

// parseQuantity reads a quantity and reports whether it is valid.
func parseQuantity(s string) (resource.Quantity, bool) {
	if !quantityRule.MatchString(s) {
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(s)
	return q, err == nil
}
