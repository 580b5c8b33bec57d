package main

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"muster/cmd/invocation"
	"muster/generator/finding"
	"muster/generator/plan"
	"muster/generator/policy"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// syncerManifests are the Applications or Flux Kustomizations of overlays in syncer/.
type syncerManifests struct {
	tree fs.FS
	dir  string // of the fleet
	// syncer is argocd or flux.
	syncer string
	// applied are the names of the overlays that have one.
	applied map[string]bool
	// repo is the URL in an Application; empty for Flux.
	repo string
	// unclear: another manifest may apply overlays too, such as an ApplicationSet.
	unclear bool
}

// readSyncer reads syncer/ of a fleet. It reports false if no manifest there applies an overlay, or if others may
// apply overlays too.
func readSyncer(tree fs.FS, dir string) (syncerManifests, bool) {
	const mostFiles, longest = 1000, 64 << 10
	m := syncerManifests{tree: tree, dir: dir, applied: map[string]bool{}}
	entries, err := fs.ReadDir(tree, path.Join(dir, syncerDirectory))
	if len(entries) > mostFiles {
		return m, false
	}
	for _, e := range entries {
		switch ext := path.Ext(e.Name()); {
		case ext == ".yaml" && e.Type().IsRegular():
		case e.IsDir(), !e.Type().IsRegular(), ext == ".yml", ext == ".json":
			return m, false
		default:
			continue
		}
		name := path.Join(dir, syncerDirectory, e.Name())
		info, err := e.Info()
		if err != nil || info.Size() > longest {
			return m, false
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return m, false
		}
		for doc, err := range finding.Documents(text) {
			if err != nil || finding.Plain(name, doc) != nil {
				return m, false
			}
			for _, object := range doc.Content {
				m.add(object)
			}
		}
	}
	return m, err == nil && !m.unclear && len(m.applied) > 0
}

// add adds one manifest.
func (m *syncerManifests) add(object *yaml.Node) {
	syncer, source := "", finding.Lookup(object, "spec")
	group, _, _ := strings.Cut(finding.Scalar(object, "apiVersion"), "/")
	switch kind := finding.Scalar(object, "kind"); group + " " + kind {
	case "argoproj.io Application":
		syncer, source = "argocd", finding.Lookup(source, "source")
	case "kustomize.toolkit.fluxcd.io Kustomization":
		syncer = "flux"
	case "argoproj.io AppProject", " ":
		return
	default:
		known := []string{"v1", "rbac.authorization.k8s.io", "source.toolkit.fluxcd.io", "notification.toolkit.fluxcd.io"}
		m.unclear = m.unclear || kind == "List" || !slices.Contains(known, group)
		return
	}
	at := path.Clean("/" + finding.Scalar(source, "path"))
	begin := strings.LastIndex(at, "/overlays/")
	if begin < 0 {
		m.unclear = true
		return
	}
	for i := begin; i >= 0; i = strings.LastIndex(at[:i], "/overlays/") { // a name may contain it
		if _, err := fs.Stat(m.tree, path.Join(m.dir, at[i:], "scaling.yaml")); err == nil {
			begin = i
		}
	}
	overlay := path.Join(m.dir, at[begin:])
	if _, err := fs.Stat(m.tree, path.Join(overlay, "scaling.yaml")); err != nil {
		_, err := fs.Stat(m.tree, overlay)
		m.unclear = m.unclear || err == nil // a directory of several overlays
		return
	}
	m.unclear = m.unclear || m.syncer != "" && m.syncer != syncer
	m.syncer, m.applied[at[begin+len("/overlays/"):]] = syncer, true
	m.repo = finding.Scalar(source, "repoURL")
}

// byInit reports whether one of the files has the name that init gives it.
func (m syncerManifests) byInit() bool {
	for name := range m.applied {
		if _, err := fs.Stat(m.tree, path.Join(m.dir, syncerFile(name))); err == nil {
			return true
		}
	}
	return false
}

// findUnapplied returns a finding for each overlay that no manifest in syncer/ applies although others are applied.
// It omits overlays with an invalid policy, and paused ones. clone is where the files are for the user.
func findUnapplied(tree fs.FS, overlays, clone string) (findings []finding.Finding) {
	overlays = path.Clean(overlays)
	dir := path.Dir(overlays)
	m, ok := readSyncer(tree, dir)
	if !ok || path.Base(overlays) != "overlays" {
		return nil
	}
	const mostFiles = 5000
	visited, byInit := 0, m.byInit()
	_ = fs.WalkDir(tree, overlays, func(name string, d fs.DirEntry, err error) error {
		if visited++; err != nil || visited > mostFiles || d.IsDir() && d.Name() == "dispatches" {
			return fs.SkipDir
		}
		overlay := path.Dir(name)
		own := strings.TrimPrefix(overlay, overlays+"/")
		if path.Base(name) != "scaling.yaml" || overlay == overlays || m.applied[own] {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil
		}
		p, err := policy.Parse(name, text)
		if err != nil || p.Paused {
			return nil
		}
		remedy := "add one like those of the other overlays"
		if byInit {
			remedy = fmt.Sprintf("write it with muster init %s --queue %s", invocation.ShellWord(path.Join(clone, dir)), p.Queue)
			if plan.Slug(p.Queue) != own {
				remedy += " --overlay " + invocation.ShellWord(own)
			}
		}
		findings = append(findings, finding.Finding{
			File: overlay, Problem: fmt.Sprintf("no manifest in %s applies it: unless another one does, its agents never start", path.Join(dir, syncerDirectory)),
			Remedy: remedy + ", push, and run kubectl apply -f " + invocation.ShellWord(path.Join(clone, dir, syncerDirectory)),
		})
		return nil
	})
	return findings
}
