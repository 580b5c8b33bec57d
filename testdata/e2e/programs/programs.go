// Package programs builds what the suite runs from published Go modules: the
// control plane, the kubelet, Flux and Argo CD. Each module of build/ has the
// versions, in its go.mod; what was built is kept under bin/e2e of the
// repository, in a folder whose name is made from everything that goes into it.
package programs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Program is one binary.
type Program struct {
	// Name is the file's name.
	Name string
	// Module is the folder of build/ whose go.mod has its version.
	Module string
	// Package is what is built, as go build takes it.
	Package string
	// Of is the published module that it is made of: its version is the program's.
	Of string
	// Stamp are linker variables that say the version to others, with %s for it.
	Stamp []string
	// Assets are files of published modules that it needs beside it: patterns below
	// the folder of the module Of, to folders.
	Assets map[string]string
}

// All are the programs, those first that take the longest.
var All = []Program{
	{
		Name: "controlplane", Module: "controlplane", Package: "./server", Of: "k8s.io/kubernetes",
		Stamp: []string{"k8s.io/component-base/version.gitVersion=%s"},
	},
	{Name: "kustomize-controller", Module: "flux", Package: "github.com/fluxcd/kustomize-controller", Of: "github.com/fluxcd/kustomize-controller", Assets: fluxCRDs},
	{Name: "source-controller", Module: "flux", Package: "github.com/fluxcd/source-controller", Of: "github.com/fluxcd/source-controller", Assets: fluxCRDs},
	{Name: "notification-controller", Module: "flux", Package: "github.com/fluxcd/notification-controller", Of: "github.com/fluxcd/notification-controller", Assets: fluxCRDs},
	{
		Name: "argocd", Module: "argocd", Package: "./server", Of: "github.com/argoproj/argo-cd/v3",
		Assets: map[string]string{"manifests/crds/*-crd.yaml": "crds", "hack/git-verify-wrapper.sh": "bin", "hack/gpg-wrapper.sh": "bin"},
	},
	{Name: "kustomize", Module: "argocd", Package: "sigs.k8s.io/kustomize/kustomize/v5", Of: "sigs.k8s.io/kustomize/kustomize/v5"},
	{
		Name: "kubelet", Module: "controlplane", Package: "./node", Of: "k8s.io/kubernetes",
		Stamp: []string{"k8s.io/component-base/version.gitVersion=%s"},
	},
}

var fluxCRDs = map[string]string{"config/crd/bases/*.yaml": "crds"}

// Built is a program that is there.
type Built struct {
	// Path is the binary, Dir its folder, which has the assets too.
	Path, Dir string
	// Version is that of the published module.
	Version string
}

// Builder builds programs of one set of versions.
type Builder struct {
	// Suite is the folder of this module, Cache where binaries are kept.
	Suite, Cache string
	// Versions names the set: empty is go.mod, others are NAME.mod beside it. A module
	// without such a file keeps its go.mod.
	Versions string
	// Say is called with progress messages; optional.
	Say io.Writer
	// Now is the clock, and Environ the environment that go runs in.
	Now     func() time.Time
	Environ []string
}

// Build returns the named programs, built where they are missing. Downloads go
// on beside compiling.
func (b Builder) Build(ctx context.Context, names ...string) (map[string]Built, error) {
	var chosen []Program
	for _, p := range All {
		if slices.Contains(names, p.Name) {
			chosen = append(chosen, p)
		}
	}
	if len(chosen) != len(names) {
		return nil, fmt.Errorf("of the programs %v some are not known", names)
	}
	built := map[string]Built{}
	var missing []Program
	for _, p := range chosen {
		found, err := b.find(ctx, p)
		if err != nil {
			return nil, err
		}
		built[p.Name] = found
		if _, err := os.Stat(found.Path); err != nil {
			missing = append(missing, p)
		}
	}
	var downloads sync.WaitGroup
	defer downloads.Wait()
	for _, module := range modulesOf(missing) {
		downloads.Go(func() { _, _ = b.goCommand(ctx, module, "mod", "download") })
	}
	for i, p := range missing {
		b.say("building %s %s: %d of %d", p.Name, built[p.Name].Version, i+1, len(missing))
		if err := b.compile(ctx, p, built[p.Name]); err != nil {
			return nil, fmt.Errorf("building %s: %w", p.Name, err)
		}
	}
	return built, nil
}

func modulesOf(programs []Program) []string {
	var modules []string
	for _, p := range programs {
		if !slices.Contains(modules, p.Module) {
			modules = append(modules, p.Module)
		}
	}
	return modules
}

// find says where a program is, or will be.
func (b Builder) find(ctx context.Context, p Program) (Built, error) {
	version, err := b.goCommand(ctx, p.Module, "list", "-m", "-f", "{{.Version}}", p.Of)
	if err != nil {
		return Built{}, err
	}
	sum, err := b.sum(p)
	if err != nil {
		return Built{}, err
	}
	dir := filepath.Join(b.Cache, p.Name+"-"+version+"-"+sum)
	return Built{Path: filepath.Join(dir, p.Name), Dir: dir, Version: version}, nil
}

// sum is made from all that the binary is made from.
func (b Builder) sum(p Program) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOARCH, p.Package, p.Stamp)
	root := filepath.Join(b.Suite, "build", p.Module)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		// Another set's versions, and what another program is made of.
		base := filepath.Base(path)
		if ext := filepath.Ext(base); filepath.Dir(path) == root && (ext == ".mod" || ext == ".sum") && !strings.HasPrefix(base, b.modfile(p.Module)+".") {
			return nil
		}
		content, err := os.ReadFile(path)
		fmt.Fprintln(sum, strings.TrimPrefix(path, root), len(content))
		sum.Write(content)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:12], err
}

// modfile is the name of the file that has a module's versions, without .mod.
func (b Builder) modfile(module string) string {
	if b.Versions != "" {
		if _, err := os.Stat(filepath.Join(b.Suite, "build", module, b.Versions+".mod")); err == nil {
			return b.Versions
		}
	}
	return "go"
}

// goCommand runs go in a module of build/ and returns what it printed.
func (b Builder) goCommand(ctx context.Context, module string, args ...string) (string, error) {
	cmd := b.command(ctx, module, args...)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), module, err, problem.String())
	}
	return strings.TrimSpace(string(out)), nil
}

func (b Builder) command(ctx context.Context, module string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(b.Suite, "build", module)
	flags := "GOFLAGS=-buildvcs=false -mod=mod"
	if file := b.modfile(module); file != "go" {
		flags += " -modfile=" + file + ".mod"
	}
	// A module that asks for a later Go is built with that: it comes as a module too.
	cmd.Env = append(slices.Clone(b.Environ), "CGO_ENABLED=0", "GOTOOLCHAIN=auto", flags)
	return cmd
}

func (b Builder) compile(ctx context.Context, p Program, to Built) error {
	work := to.Dir + ".new"
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(work)
	flags := "-s -w"
	for _, stamp := range p.Stamp {
		flags += " -X " + fmt.Sprintf(stamp, to.Version)
	}
	cmd := b.command(ctx, p.Module, "build", "-v", "-trimpath", "-ldflags", flags, "-o", filepath.Join(work, p.Name), p.Package)
	told := &progress{builder: b, name: p.Name, began: b.Now()}
	cmd.Stderr = told
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, told.last())
	}
	if err := b.copyAssets(ctx, p, work); err != nil {
		return err
	}
	b.say("built %s %s: %d packages in %s", p.Name, to.Version, told.packages, b.Now().Sub(told.began).Round(time.Second))
	return os.Rename(work, to.Dir)
}

func (b Builder) copyAssets(ctx context.Context, p Program, to string) error {
	if len(p.Assets) == 0 {
		return nil
	}
	from, err := b.goCommand(ctx, p.Module, "list", "-m", "-f", "{{.Dir}}", p.Of)
	if err != nil {
		return err
	}
	for pattern, folder := range p.Assets {
		files, err := filepath.Glob(filepath.Join(from, filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			return errors.Join(err, fmt.Errorf("no %s in %s", pattern, from))
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			target := filepath.Join(to, folder, filepath.Base(file))
			if err := errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, content, 0o755)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b Builder) say(format string, args ...any) {
	if b.Say != nil {
		fmt.Fprintf(b.Say, format+"\n", args...)
	}
}
