package kubernetes

import (
	"math/big"
	"regexp"
	"strconv"
)

const quantityRemedy = `write one as in 500m or "2" for CPU, 2Gi or 512Mi for memory and disk`

var quantityRule = regexp.MustCompile(`^([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?[0-9]{1,3})?$`)

// parseQuantity reads what Kubernetes calls a quantity: a number with a unit.
func parseQuantity(s string) (*big.Rat, bool) {
	m := quantityRule.FindStringSubmatch(s)
	if m == nil {
		return nil, false
	}
	value, ok := new(big.Rat).SetString(m[1] + m[2])
	if !ok {
		return nil, false
	}
	return value.Mul(value, unit(m[3])), true
}

// unit is what a quantity's suffix multiplies with.
func unit(suffix string) *big.Rat {
	power := func(base, n int64) *big.Rat {
		p := new(big.Int).Exp(big.NewInt(base), big.NewInt(max(n, -n)), nil)
		if n < 0 {
			return new(big.Rat).SetFrac(big.NewInt(1), p)
		}
		return new(big.Rat).SetInt(p)
	}
	switch suffix {
	case "":
		return big.NewRat(1, 1)
	case "n":
		return power(1000, -3)
	case "u":
		return power(1000, -2)
	case "m":
		return power(1000, -1)
	}
	thousands := map[string]int64{"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
	switch n := thousands[suffix[:1]]; {
	case len(suffix) == 1:
		return power(1000, n)
	case suffix[1] == 'i':
		return power(1024, n)
	}
	n, _ := strconv.ParseInt(suffix[1:], 10, 64) // e and up to three digits
	return power(10, n)
}
