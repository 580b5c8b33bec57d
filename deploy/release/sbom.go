package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const sbomType = "application/vnd.cyclonedx+json"

// sbom lists the components of a program in CycloneDX JSON: the modules in its build information with
// their checksums, Go's standard library, the script that the status page of muster embeds, and the given modules.
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
		c := library(m)
		if c.Hashes, err = checksum(m.Sum); err != nil {
			return nil, fmt.Errorf("module %s: %w", m.Path, err)
		}
		components = append(components, c)
	}
	if name == names[0] { // only it contains the status page
		script, err := embeddedScript(r.source)
		if err != nil {
			return nil, err
		}
		components = append(components, script)
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

// library is a Go module as a component. In its package URL, a plus sign is encoded
// (https://github.com/package-url/purl-spec).
func library(m *debug.Module) cdx.Component {
	purl := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(cmp.Or(m.Version, "unknown"), "+", "%2B")
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: m.Path, Version: m.Version, PackageURL: purl}
}

// checksum converts a checksum of go.sum (golang.org/x/mod/sumdb/dirhash); Go's standard library has none.
func checksum(sum string) (*[]cdx.Hash, error) {
	if sum == "" {
		return nil, nil
	}
	hash, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:"))
	if err != nil || len(hash) != sha256.Size {
		return nil, fmt.Errorf("unknown form of checksum: %q", sum)
	}
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(hash)}}, nil
}

// scriptPath is the script that the status page embeds, in the source.
const scriptPath = "cmd/page/assets/uPlot.js"

// scriptHead is how the script that the status page embeds begins: name, version and file of its npm package.
var scriptHead = regexp.MustCompile(`^/\*! (\S+) (\d\S*), `)

// embeddedScript is the script of the status page as a component.
func embeddedScript(source string) (cdx.Component, error) {
	text, err := os.ReadFile(filepath.Join(source, filepath.FromSlash(scriptPath)))
	if err != nil {
		return cdx.Component{}, err
	}
	head := scriptHead.FindSubmatch(text)
	if head == nil {
		return cdx.Component{}, fmt.Errorf("%s does not begin with its name and version", scriptPath)
	}
	name, version := string(head[1]), string(head[2])
	purl := "pkg:npm/" + strings.ToLower(name) + "@" + version
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: name, Version: version, PackageURL: purl}, nil
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
