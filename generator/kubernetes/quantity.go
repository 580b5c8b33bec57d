package kubernetes

import (
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
)

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
