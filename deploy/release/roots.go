package main

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootsModule is where the certificate authorities come from.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// roots are the certificate authorities of Mozilla's list as the Go project
// publishes it, in PEM. The module's sum in go.sum pins them. Those that Mozilla
// trusts under conditions only are left out: a PEM file cannot say conditions.
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
