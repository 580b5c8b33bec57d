// Package digest names the algorithm that archives are summed up with.
package digest

import (
	_ "crypto/sha256" // digest.SHA256 is available once it is linked.
	"fmt"

	"github.com/opencontainers/go-digest"
)

// Canonical is the algorithm in use.
var Canonical = digest.SHA256

// AlgorithmForName returns the algorithm of a name; an error where there is none.
func AlgorithmForName(name string) (digest.Algorithm, error) {
	if algorithm := digest.Algorithm(name); algorithm.Available() {
		return algorithm, nil
	}
	return "", fmt.Errorf("%w: %s", digest.ErrDigestUnsupported, name)
}
