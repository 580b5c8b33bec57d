package kubernetes

import (
	"net/netip"
	"regexp"
	"strings"
)

// format is what a name may look like.
type format struct {
	valid  func(string) bool
	remedy string
}

var (
	labelRule     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	subdomainRule = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	nameRule      = regexp.MustCompile(`^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`)
	keyRule       = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)
	portRule      = regexp.MustCompile(`^[-a-z0-9]+$`)
	sysctlRule    = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)
	headerRule    = regexp.MustCompile(`^[-A-Za-z0-9]+$`)
)

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
		return format{isKey, "use letters, digits and -_. only"}
	case "variable":
		return format{isVariable, "a name has no = and prints: put what follows the = into value:"}
	case "port":
		return format{isPortName, "use at most 15 lower case letters, digits and dashes, a letter among them"}
	case "address":
		return format{isAddress, "write an IP address as in 10.9.8.7"}
	case "search":
		return format{isSearch, "write a domain as in svc.cluster.local"}
	case "driver":
		return format{func(s string) bool { return len(s) <= 63 && isSubdomain(strings.ToLower(s)) }, "use at most 63 letters, digits, dashes and dots, a letter or digit at both ends"}
	case "sysctl":
		return format{func(s string) bool { return len(s) <= 253 && sysctlRule.MatchString(s) }, "write a name as in net.core.somaxconn"}
	}
	return format{headerRule.MatchString, "use letters, digits and dashes"}
}

func isLabel(s string) bool { return len(s) <= 63 && labelRule.MatchString(s) }

func isSubdomain(s string) bool { return len(s) <= 253 && subdomainRule.MatchString(s) }

func isLabelValue(s string) bool { return s == "" || len(s) <= 63 && nameRule.MatchString(s) }

// isQualified is the rule for keys of labels and annotations: a name, and before
// it a domain and a slash, or not.
func isQualified(s string) bool {
	name := s
	if domain, rest, found := strings.Cut(s, "/"); found {
		if !isSubdomain(domain) {
			return false
		}
		name = rest
	}
	return len(name) <= 63 && nameRule.MatchString(name)
}

func isKey(s string) bool {
	return len(s) <= 253 && keyRule.MatchString(s) && s != "." && !strings.HasPrefix(s, "..")
}

func isVariable(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '=' })
}

func isPortName(s string) bool {
	return len(s) <= 15 && portRule.MatchString(s) && !strings.Contains(s, "--") && strings.Trim(s, "-") == s &&
		strings.ContainsAny(s, "abcdefghijklmnopqrstuvwxyz")
}

func isAddress(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Zone() == ""
}

func isSearch(s string) bool {
	return s == "." || isSubdomain(strings.ReplaceAll(strings.TrimSuffix(s, "."), "_", "-"))
}
