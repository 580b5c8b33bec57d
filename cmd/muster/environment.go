package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"muster/cmd/muster/output"
	"muster/generator/finding"
)

// prefix starts every variable that muster reads, but for Buildkite's token.
const prefix = "MUSTER_"

// The variables that hold secrets: there are no flags for them, because a
// command line can be read by every process of the machine.
const (
	variableToken    = "BUILDKITE_API_TOKEN"
	variablePassword = prefix + "GIT_PASSWORD"
)

// variableNamespace names the variable with the namespace of muster's own pod: deploy/
// sets it from the downward API.
const variableNamespace = "POD_NAMESPACE"

// variableAgentToken is not read: people mistake it for the API's.
const variableAgentToken = "BUILDKITE_AGENT_TOKEN"

// environment sets every flag that has a variable to the variable's value, as
// a default that the command line overrides. A variable that belongs to no
// flag is an error: it is a misspelt one. An empty variable is ignored.
func (p program) environment(root *cobra.Command) error {
	values := map[string]string{}
	for _, entry := range p.environ {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, prefix) && name != variablePassword && value != "" && !foreign(name) {
			values[name] = value
		}
	}
	known := map[string]bool{} // without the prefix
	var failed error
	for _, c := range root.Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			name := prefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
			known[strings.TrimPrefix(name, prefix)] = true
			value, ok := values[name]
			if !ok {
				return
			}
			if list, ok := f.Value.(pflag.SliceValue); ok && f.Value.Type() == "stringArray" {
				_ = list.Replace([]string{value}) // to set it would have the command line add to it
				return
			}
			if err := f.Value.Set(value); err != nil && failed == nil {
				failed = fmt.Errorf("environment variable %s: %q is not %s", name, value, expected(f.Value.Type()))
			}
		})
	}
	for _, variable := range slices.Sorted(maps.Keys(values)) {
		name := strings.TrimPrefix(variable, prefix)
		if known[name] {
			continue
		}
		remedy := "unset it or spell it like one"
		if near := finding.Nearest(name, slices.Sorted(maps.Keys(known))); near != "" {
			remedy = "did you mean " + prefix + near + "?"
		}
		return output.Usage(fmt.Errorf("environment variable %s belongs to no flag; %s", variable, remedy))
	}
	return output.Usage(failed)
}

// expected says what values a type of flag takes.
func expected(kind string) string {
	switch kind {
	case "bool":
		return "true or false"
	case "duration":
		return "a length of time, as in 15s or 5m"
	case "int", "int64", "uint64":
		return "a whole number"
	}
	return "a " + kind
}

// foreign reports whether a variable with muster's prefix is not meant for it:
// those of the agent Job (base/job.yaml), which every build step on muster's
// own agents inherits, and those that Kubernetes makes for a Service "muster".
func foreign(name string) bool {
	switch name {
	case "MUSTER_NOT_AFTER", "MUSTER_IDLE_TIMEOUT", "MUSTER_PURPOSE", "MUSTER_AGENT_TAGS":
		return true
	}
	return strings.HasPrefix(name, prefix+"SERVICE_") || name == prefix+"PORT" || strings.HasPrefix(name, prefix+"PORT_")
}

// variable returns the value of an environment variable.
func (p program) variable(name string) string {
	for _, entry := range slices.Backward(p.environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
