package kubernetes

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// format is what a name may look like.
type format struct {
	valid  func(string) bool
	remedy string
}

// longestName is the length in bytes of the longest valid name: a domain, a slash and a name.
const longestName = validation.DNS1123SubdomainMaxLength + 1 + validation.LabelValueMaxLength

// The rules for names of Kubernetes.
var (
	isLabel      = accepts(validation.IsDNS1123Label)
	isSubdomain  = accepts(validation.IsDNS1123Subdomain)
	isQualified  = accepts(validation.IsQualifiedName)
	isLabelValue = accepts(validation.IsValidLabelValue)

	sysctlRule = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)
)

// accepts returns a function that reports whether check returns no error for a name. The
// function refuses a name longer than longestName without check, which may copy it.
func accepts(check func(string) []string) func(string) bool {
	return func(s string) bool { return len(s) <= longestName && len(check(s)) == 0 }
}

// formatOf returns a format by its name in the table of formats.
func formatOf(name string) format {
	switch name {
	case "label":
		return format{isLabel, "use at most 63 lower case letters, digits and dashes, a letter or digit at both ends"}
	case "subdomain":
		return format{isSubdomain, "use lower case letters, digits, dashes and dots, a letter or digit at both ends"}
	case "qualified":
		return format{isQualified, "use at most 63 letters, digits and -_. with a letter or digit at both ends, and before them, if you like, a domain and a slash"}
	case "label-value":
		return format{isLabelValue, "use at most 63 letters, digits and -_. with a letter or digit at both ends"}
	case "key":
		return format{accepts(validation.IsConfigMapKey), "use letters, digits and -_. only"}
	case "variable": // of any length
		return format{func(s string) bool { return validation.IsRelaxedEnvVarName(s) == nil }, "a name has no = and prints: put what follows the = into value:"}
	case "port":
		return format{accepts(validation.IsValidPortName), "use at most 15 lower case letters, digits and dashes, a letter among them"}
	case "address":
		return format{isAddress, "write an IP address as in 10.9.8.7"}
	case "search":
		return format{isSearch, "write a domain as in svc.cluster.local"}
	case "driver":
		return format{func(s string) bool { return len(s) <= 63 && isSubdomain(strings.ToLower(s)) }, "use at most 63 letters, digits, dashes and dots, a letter or digit at both ends"}
	case "sysctl":
		return format{func(s string) bool { return len(s) <= 253 && sysctlRule.MatchString(s) }, "write a name as in net.core.somaxconn"}
	}
	return format{func(s string) bool { return validation.IsHTTPHeaderName(s) == nil }, "use letters, digits and dashes"} // of any length
}

func isAddress(s string) bool {
	return len(s) <= longestName && validation.IsValidIPForLegacyField(nil, s, true, nil) == nil
}

func isSearch(s string) bool {
	return s == "." || accepts(validation.IsDNS1123SubdomainWithUnderscore)(strings.TrimSuffix(s, "."))
}
