package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const sbomType = "application/vnd.cyclonedx+json"

// sbom lists the components of a program in CycloneDX JSON: the modules in its build information,
// Go's standard library, and the given ones.
func (r release) sbom(p program, name string, beside ...*debug.Module) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(p.files[name]))
	if err != nil {
		return nil, fmt.Errorf("reading what %s for %s is made of: %w", name, p, err)
	}
	var components []cdx.Component
	for _, m := range append(append([]*debug.Module{standardLibrary(info)}, info.Deps...), beside...) {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, library(m))
	}
	program := library(&debug.Module{Path: info.Main.Path, Version: r.version})
	program.Type = cdx.ComponentTypeApplication
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.date.Format(time.RFC3339), Component: &program}
	bom.Components = &components
	var text bytes.Buffer
	err = cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return text.Bytes(), err
}

// standardLibrary returns Go's own library as a module; its version is that of the compiler.
func standardLibrary(info *debug.BuildInfo) *debug.Module {
	return &debug.Module{Path: "std", Version: strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")}
}

// library is a Go module as a component.
func library(m *debug.Module) cdx.Component {
	purl := "pkg:golang/" + m.Path + "@" + cmp.Or(m.Version, "unknown")
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: m.Path, Version: m.Version, PackageURL: purl}
}

// ownModule returns a module that this program itself was built with.
func ownModule(path string) (*debug.Module, error) {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m, nil
			}
		}
	}
	return nil, fmt.Errorf("this program does not know which %s it was built with", path)
}
