package ledger

import (
	"slices"
	"strings"
)

// Differing returns the keys of those trailers by muster, in the order in which they are written,
// whose values in message differ from those of an operation, in content, order or number. It does not
// compare other trailers, the text for people, and the trailer for CI. version is the version of muster
// that wrote the message.
func Differing(message string, op Operation, version string) []string {
	found, wanted := valuesOf(message), valuesOf(Message(op, version))
	var keys []string
	for _, key := range []string{keyOverlay, keyOperation, keyDispatch, keyAgents, keyObservation, keyMuster} {
		if !slices.Equal(found[key], wanted[key]) {
			keys = append(keys, key)
		}
	}
	return keys
}

// valuesOf returns the values of a message's trailers, by key.
func valuesOf(message string) map[string][]string {
	all := map[string][]string{}
	for _, t := range readTrailers(strings.Split(strings.ReplaceAll(message, "\r\n", "\n"), "\n")) {
		all[t.key] = append(all[t.key], t.value)
	}
	return all
}
