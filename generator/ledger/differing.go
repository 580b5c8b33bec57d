package ledger

import (
	"slices"
	"strings"
)

// Differing are the keys of muster's trailers, in the order in which they are written,
// whose values a message has otherwise than that of an act: another value, another order, one
// more or one less. Trailers of others and what the message says to people are not
// compared, nor is the one that CI reads. The
// version is the one that wrote the message.
func Differing(message string, act Act, version string) []string {
	found, wanted := valuesOf(message), valuesOf(Message(act, version))
	var keys []string
	for _, key := range []string{keyOverlay, keyAct, keyDispatch, keyAgents, keyObservation, keyMuster} {
		if !slices.Equal(found[key], wanted[key]) {
			keys = append(keys, key)
		}
	}
	return keys
}

// valuesOf are the values of a message's trailers, by key.
func valuesOf(message string) map[string][]string {
	all := map[string][]string{}
	for _, t := range readTrailers(strings.Split(strings.ReplaceAll(message, "\r\n", "\n"), "\n")) {
		all[t.key] = append(all[t.key], t.value)
	}
	return all
}
