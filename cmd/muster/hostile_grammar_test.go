package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// hostileTree makes one hostile overlay: what its directory is called, what the files
// in it are and what stands in each is drawn from all that was ever found to do
// harm, and from what is valid.
type hostileTree struct {
	*rand.Rand
	objects gitObjects
	files   map[string]string
	others  map[string][]leaf
	text    []string // what was drawn
}

func (h *hostileTree) one(of ...string) string { return of[h.IntN(len(of))] }

// note remembers what was drawn, for whoever must find out what went wrong.
func (h *hostileTree) note(format string, args ...any) {
	h.text = append(h.text, fmt.Sprintf(format, args...))
}

func (h *hostileTree) name() string {
	return h.one("bad", "bad", "bad", "bad", "a", "m", "zz", "A", "sound-A", "sound-a ", "sound-\u0430", "ſound-a", ".git", ".GIT", ".git.", "git~1", ".", "..", "a/b", "x\ny", "esc\x1b[31m", "\u202e", "\u009b", "\ufffe", "\xff\xfe",
		strings.Repeat("n", 300), strings.Repeat("n", 5000), "-rf", "--upload-pack=x", "$(id)", "`id`", "%s%n", "con", "aux.", "dispatches", "template", "base", "*", "?", "[a]", "@", "#", "CI: [skip ci]", "fixes acme/x#1 @torvalds")
}

// overlay draws an overlay, and returns its name and what it is.
func (h *hostileTree) overlay() (string, leaf) {
	name := h.name()
	h.note("called %.40q", name)
	switch h.IntN(16) {
	case 0:
		h.note("a link")
		return name, leaf{symlink, name, h.objects.blob(h.one("sound-a", "/etc", "../..", ".", strings.Repeat("../", 2000)))}
	case 1:
		h.note("a submodule")
		return name, leaf{submodule, name, plumbing.NewHash(strings.Repeat("1", 40))}
	case 2:
		h.note("a file")
		return name, leaf{plainFile, name, h.objects.blob(h.content())}
	case 3:
		return name, leaf{gitDirectory, name, h.deep()}
	case 4:
		return name, leaf{gitDirectory, name, h.wide()}
	case 5:
		return name, leaf{gitDirectory, name, h.wideInWide()}
	}
	h.plain()
	for range 1 + h.IntN(4) {
		h.spoil()
	}
	return name, leaf{gitDirectory, name, h.objects.directory(h.files, h.others)}
}

// deep are directories within directories, of which few objects stand for many.
func (h *hostileTree) deep() plumbing.Hash {
	depth, fan := 1+h.IntN(300), 1
	if h.IntN(2) == 0 {
		depth, fan = 1+h.IntN(14), 1+h.IntN(30)
	}
	h.note("%d directories deep, %d in each", depth, fan)
	at := h.objects.tree(leaf{plainFile, "scaling.yaml", h.objects.blob(h.policy())})
	for range depth {
		var entries []leaf
		for i := range fan {
			entries = append(entries, leaf{gitDirectory, fmt.Sprintf("d%02d", i), at})
		}
		if h.IntN(8) == 0 {
			entries = append(entries, leaf{plainFile, "scaling.yaml", h.objects.blob(h.policy())})
		}
		at = h.objects.tree(entries...)
	}
	return at
}

// wide is a directory of thousands of entries.
func (h *hostileTree) wide() plumbing.Hash {
	n, padding := 1+h.IntN(20_000), strings.Repeat("n", h.IntN(200)*h.IntN(2))
	what := h.one("files", "directories", "overlays")
	h.note("%d %s of %d letters", n, what, 7+len(padding))
	content := h.objects.blob(h.policy())
	inside := h.objects.tree(leaf{plainFile, "scaling.yaml", content})
	if what == "directories" {
		inside = h.objects.tree(leaf{plainFile, "x", content})
	}
	var entries []leaf
	for i := range n {
		if what == "files" {
			entries = append(entries, leaf{plainFile, fmt.Sprintf("f%s%06d.yaml", padding, i), content})
		} else {
			entries = append(entries, leaf{gitDirectory, fmt.Sprintf("d%s%06d", padding, i), inside})
		}
	}
	if h.IntN(2) == 0 {
		entries = append(entries, leaf{plainFile, "scaling.yaml", content})
	}
	return h.objects.tree(entries...)
}

// wideInWide are directories of thousands of entries, beside each other and within
// each other.
func (h *hostileTree) wideInWide() plumbing.Hash {
	at := h.wide()
	for range 1 + h.IntN(4) {
		entries := []leaf{{gitDirectory, "inside", at}}
		for i := range h.IntN(8) {
			entries = append(entries, leaf{gitDirectory, fmt.Sprintf("beside%d", i), h.wide()})
		}
		at = h.objects.tree(entries...)
	}
	return at
}

// plain is an overlay that is valid.
func (h *hostileTree) plain() {
	h.files, h.others = map[string]string{}, map[string][]leaf{}
	h.files["scaling.yaml"] = "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec:\n  queue: bad\n  max: 50\n"
	h.files["kustomization.yaml"] = "resources: [configmap.yaml, dispatches]\n"
	h.files["configmap.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad, namespace: buildkite}\n"
	h.files["template/kustomization.yaml"] = "resources: [job.yaml]\n"
	h.files["template/job.yaml"] = h.job()
	h.files["dispatches/kustomization.yaml"] = "resources: []\n"
}

// spoil makes one thing of an overlay hostile.
func (h *hostileTree) spoil() {
	names := []string{"scaling.yaml", "kustomization.yaml", "configmap.yaml", "template/kustomization.yaml", "template/job.yaml", "template/x.yaml", "template/bomb.txt", "template/x.patch", "template/a",
		"dispatches/kustomization.yaml", "dispatches/kustomization.yml", "dispatches/Kustomization", "dispatches/state.yaml", "dispatches/bad-00000001.yaml", "dispatches/sound-a-00000001.yaml", "dispatches/x.yml",
		"dispatches/\x1b.yaml", "dispatches/.yaml", "dispatches/withdrawn/bad-00000002.yaml", "dispatches/withdrawn/kustomization.yaml", "inner/scaling.yaml", "a/b/c/d/e/scaling.yaml", "scaling.yml", "Scaling.yaml", ".git/config", "\u202e.yaml"}
	name := names[h.IntN(len(names))]
	switch h.IntN(14) {
	case 0:
		h.note("%q is a directory", name)
		delete(h.files, name)
		h.files[name+"/x"] = "x"
	case 1:
		h.note("%q is a link", name)
		delete(h.files, name)
		h.other(name, symlink, h.objects.blob(h.one("../sound-a/scaling.yaml", "/etc/passwd", name)))
	case 2:
		h.note("%q is a submodule", name)
		delete(h.files, name)
		h.other(name, submodule, plumbing.NewHash(strings.Repeat("2", 40)))
	case 3:
		h.note("%q is there twice", name)
		h.other(name, plainFile, h.objects.blob(h.content()))
	case 4:
		h.note("%q is missing", name)
		delete(h.files, name)
	case 5:
		h.note("many dispatches")
		for i := range h.IntN(1500) {
			h.files[fmt.Sprintf("dispatches/bad-%08d.yaml", i)] = h.dispatch()
		}
	case 6:
		h.note("a policy of extremes")
		h.files["scaling.yaml"] = h.policy()
	case 7, 8:
		h.note("kustomizations")
		h.files[h.one("kustomization.yaml", "template/kustomization.yaml", "template/kustomization.yaml", "dispatches/kustomization.yaml")] = h.one("", "resources: [job.yaml]\n", "resources: [configmap.yaml, dispatches]\n") + h.kustomization()
		h.files[h.one("template/x.yaml", "x.yaml", "template/bomb.txt", "template/x.patch")] = h.content()
	case 9:
		h.note("a template that Kubernetes refuses")
		h.files["template/job.yaml"] = h.job()
	case 10:
		h.note("a dispatch of somebody's")
		h.files[h.one("dispatches/bad-00000001.yaml", "dispatches/sound-a-00000001.yaml", "dispatches/withdrawn/bad-00000002.yaml", "dispatches/state.yaml")] = h.one(h.dispatch(), h.content(), h.state())
	case 11:
		n := 1 + h.IntN(12)
		h.note("noise in %d files", n)
		for i := range n {
			h.files[h.one("", "template/", "dispatches/")+fmt.Sprintf("noise%d.yaml", i)] = h.noise(3 << 20)
		}
	case 12:
		h.heap()
	default:
		h.files[name] = h.content()
		h.note("%q has %d bytes, %.20q", name, len(h.files[name]), h.files[name])
	}
}

// heap is more in dispatches/ than a fleet has on order: thousands of files, each as
// large as the largest dispatch, of which some have the same content.
func (h *hostileTree) heap() {
	n, different := 1+h.IntN(10_000), 1+h.IntN(2000)
	begins := h.one("", "#", "- ", h.dispatch())
	h.note("%d files of 128 KiB in dispatches, %d different: %.10q", n, min(n, different), begins)
	for i := range n {
		content := fmt.Sprintf("%s# %d\n", begins, i%different)
		content += strings.Repeat("x", 128<<10-len(content))
		h.other(fmt.Sprintf("%sheap-%08d.yaml", h.one("dispatches/", "dispatches/", "dispatches/withdrawn/"), i), plainFile, h.objects.blob(content))
	}
}

func (h *hostileTree) other(name, mode string, hash plumbing.Hash) {
	dir, base := ".", name
	if at := strings.LastIndexByte(name, '/'); at >= 0 {
		dir, base = name[:at], name[at+1:]
	}
	h.others[dir] = append(h.others[dir], leaf{mode, base, hash})
}
