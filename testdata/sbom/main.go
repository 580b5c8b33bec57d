// Command sbom writes the software bill of materials of a program, from what the
// Go linker wrote into it: sbom PROGRAM OUT. It is CycloneDX 1.6, as JSON.
package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "sbom PROGRAM OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(program, to string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if err := write(out, info); err != nil {
		return err
	}
	return out.Close()
}

// write writes the list. It has neither a time nor a serial number: one program
// has one list.
func write(out io.Writer, info *debug.BuildInfo) error {
	bom := cyclonedx.NewBOM()
	main := module(&info.Main, cyclonedx.ComponentTypeApplication)
	bom.Metadata = &cyclonedx.Metadata{Component: &main}
	standard := module(&debug.Module{Path: "std", Version: info.GoVersion}, cyclonedx.ComponentTypeLibrary)
	components, below := []cyclonedx.Component{standard}, []string{standard.BOMRef}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		c := module(dep, cyclonedx.ComponentTypeLibrary)
		hash, err := sum(dep.Sum)
		if err != nil {
			return fmt.Errorf("%s: %w", dep.Path, err)
		}
		c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hash}}
		components, below = append(components, c), append(below, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &below}}
	return cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6)
}

// module is a module as a component. Its package URL is as
// github.com/package-url/purl-spec has it for golang.
func module(m *debug.Module, kind cyclonedx.ComponentType) cyclonedx.Component {
	url := "pkg:golang/" + m.Path
	if m.Version != "" {
		url += "@" + strings.NewReplacer("+", "%2B", "(", "", ")", "").Replace(m.Version)
	}
	return cyclonedx.Component{Type: kind, BOMRef: url, Name: m.Path, Version: m.Version, PackageURL: url}
}

// sum is the SHA-256 of go.sum ("h1:", golang.org/x/mod/sumdb/dirhash), in hex.
func sum(text string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "h1:"))
	if err != nil || len(raw) != 32 {
		return "", fmt.Errorf("%q is no sum of go.sum", text)
	}
	return hex.EncodeToString(raw), nil
}
