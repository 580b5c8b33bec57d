package main

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootsModule is where the certificate authorities come from.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// roots are the certificate authorities of Mozilla's list as the Go project
// publishes it, in PEM. The module's sum in go.sum pins them. It omits those
// that Mozilla trusts only under conditions, which a PEM file cannot express.
func roots() ([]byte, error) {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return all.Bytes(), nil
}
