package kubernetes

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// format is the form of valid names.
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

// nameFormats are the formats by their names in the table of formats.
var nameFormats = map[string]format{
	"label":       {isLabel, "use at most 63 lower case letters, digits and dashes, a letter or digit at both ends"},
	"subdomain":   {isSubdomain, "use lower case letters, digits, dashes and dots, a letter or digit at both ends"},
	"qualified":   {isQualified, "use at most 63 letters, digits and -_. with a letter or digit at both ends, and before them, if you like, a domain and a slash"},
	"label-value": {isLabelValue, "use at most 63 letters, digits and -_. with a letter or digit at both ends"},
	"key":         {accepts(validation.IsConfigMapKey), "use letters, digits and -_. only"},
	"variable":    {isVariable, "a name has no = and prints: put what follows the = into value:"},
	"port":        {accepts(validation.IsValidPortName), "use at most 15 lower case letters, digits and dashes, a letter among them"},
	"address":     {isAddress, "write an IP address as in 10.9.8.7"},
	"search":      {isSearch, "write a domain as in svc.cluster.local"},
	"driver":      {isDriver, "use at most 63 letters, digits, dashes and dots, a letter or digit at both ends"},
	"sysctl":      {isSysctl, "write a name as in net.core.somaxconn"},
	"header":      {isHeader, "use letters, digits and dashes"},
}

// isVariable and isHeader accept names of any length.
func isVariable(s string) bool { return validation.IsRelaxedEnvVarName(s) == nil }
func isHeader(s string) bool   { return validation.IsHTTPHeaderName(s) == nil }

func isDriver(s string) bool { return len(s) <= 63 && isSubdomain(strings.ToLower(s)) }
func isSysctl(s string) bool { return len(s) <= 253 && sysctlRule.MatchString(s) }

func isAddress(s string) bool {
	return len(s) <= longestName && validation.IsValidIPForLegacyField(nil, s, true, nil) == nil
}

func isSearch(s string) bool {
	return s == "." || accepts(validation.IsDNS1123SubdomainWithUnderscore)(strings.TrimSuffix(s, "."))
}
