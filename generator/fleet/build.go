package fleet

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"

	"muster/generator/finding"
	"muster/generator/kustomize"
)

// Many overlays contain the same files in directories of other names, and build to the same output,
// since kustomize reads files by paths relative to the overlay. So overlays share a build if
// everything that it read is the same. Exceptions are builds that fail, whose errors contain paths;
// kustomizations that write paths into their output (buildMetadata); and references that contain the
// name of either overlay's directory, such as ../default/x.

// origin identifies the input of a build, for builds that may share its result.
type origin struct {
	// key is the same for builds that may have the same result, and root is the overlay's path.
	// Builds with an empty key are not shared.
	key, root string
	// parts are the elements of all paths that the kustomizations name.
	parts map[string]bool
	// selects reports whether the build changes objects by their names or labels.
	selects bool
	// adds reports that the build lists the directory of dispatches once and changes nothing:
	// its output is its output without dispatches, plus the dispatches.
	adds bool
}

// maxShared is the maximum number of builds with one key that are compared.
const maxShared = 4

// origin returns the origin of a build of the overlay in root.
func (v *view) origin(root, dir string) origin {
	_, note, err := v.read(path.Join(dir, listFile))
	if err != nil || root == "" {
		return origin{root: root}
	}
	return origin{key: strings.Join([]string{v.name, path.Dir(root), note}, "\x00"), root: root}
}

// sharedBuild returns the result of the build that begins with from, if it was made for another
// overlay; otherwise nil.
func (l *Loader) sharedBuild(v *view, from origin) *memo {
	if from.key == "" {
		return nil
	}
	for _, m := range l.builtFor[from.key] {
		if m.parts[path.Base(from.root)] || m.parts[path.Base(m.root)] {
			continue
		}
		notes := make(map[string]string, len(m.notes))
		for name, note := range m.notes {
			if rest, below := strings.CutPrefix(name, m.root); below && (rest == "" || rest[0] == '/') {
				name = from.root + rest
			}
			notes[name] = note
		}
		if v.unchanged(notes) && v.failed == nil && v.refused == nil {
			from.parts, from.selects, from.adds = m.parts, m.selects, m.adds
			return &memo{notes: notes, objects: m.objects, template: m.template, origin: from}
		}
		v.failed, v.refused = nil, nil
	}
	return nil
}

// share makes a build available to other overlays.
func (l *Loader) share(m *memo) {
	if m.key != "" && m.finding == nil && len(l.builtFor[m.key]) < maxShared {
		l.builtFor[m.key] = append(l.builtFor[m.key], m)
	}
}

// object is one object of a build's output.
type object = kustomize.Object

// memo is the result of a build, and everything that it read.
type memo struct {
	notes   map[string]string
	objects []object
	finding *finding.Finding
	// template is the Job of a template, ready to be stamped; nil until it is needed.
	template *template
	// noJob is the reason why the template does not build to an agent Job.
	noJob *finding.Finding
	// file is the file for findings on the template's Job; empty until it is needed.
	file string
	// refused are the reasons for which the API server would refuse the overlay's Jobs, and harmful
	// those for which the overlay may order none, with the template that judged built and the policy.
	// altered is set if the overlay lets syncers delete Jobs whose dispatch is retired: it is suspended.
	judged           *memo
	judgedFor        key
	refused, harmful []finding.Finding
	altered          *finding.Finding
	origin
}

// running is a build that continues while muster decides on the other overlays.
type running struct {
	// done is closed when the build has ended. Then memo is its result, or err an error that does
	// not concern the directory.
	done chan struct{}
	memo *memo
	err  error
	stop context.CancelFunc
	// key is the same for builds that may have the same result.
	key string
	// timeout is closed when patience has ended; nil means no limit.
	timeout <-chan struct{}
}

// BuildWith makes the loader build with b, which ends builds that take too long. A build that
// takes longer than patience continues after Load returns: its overlay is suspended until a
// later Load finds it done. Two builds may run at the same time. BuildWith returns the loader.
func (l *Loader) BuildWith(b kustomize.Builder, patience time.Duration) *Loader {
	l.builder, l.patience, l.twoAtOnce = b, patience, true
	return l
}

// WaitWith makes the loader measure its patience with sleep, which returns after a time or when the
// context of the build ends. Without it, patience has no limit. It returns the loader.
func (l *Loader) WaitWith(sleep func(context.Context, time.Duration) error) *Loader {
	l.after = func(ctx context.Context, d time.Duration) <-chan struct{} {
		over := make(chan struct{})
		go func() {
			if sleep(ctx, d) == nil {
				close(over)
			}
		}()
		return over
	}
	return l
}

// build runs kustomize in directory dir of v. It reuses an earlier result for the same files.
// The finding contains the reason why dir does not build. The error is returned if v could not
// be read, and does not concern dir. root is the overlay that it is built for; empty if no
// other build can have the same result.
func (l *Loader) build(v *view, root, dir string) ([]object, *finding.Finding, error) {
	key := v.name + dir
	if m := l.memos[key]; m != nil && v.unchanged(m.notes) {
		if v.failed != nil {
			return nil, nil, v.failed
		}
		l.used[key] = m
		l.share(m)
		return m.objects, m.finding, nil
	}
	if v.failed != nil {
		return nil, nil, v.failed
	}
	from := v.origin(root, dir)
	if m := l.sharedBuild(v, from); m != nil {
		l.used[key] = m
		return m.objects, nil, nil
	}
	r := l.slow[key]
	if r == nil {
		r = l.ahead[key]
		delete(l.ahead, key)
	}
	if r == nil {
		if len(l.slow) >= maxSlow && l.overran[key] {
			l.overrunning[key] = true
			return nil, &finding.Finding{File: dir, Problem: "is not built yet: others that take long are built first"}, nil
		}
		l.builds++
		r = l.start(v, dir, from)
	}
	_, again := l.slow[key]
	if !l.await(key, r, again) {
		return nil, &finding.Finding{File: dir, Problem: "takes long to build and is not built yet; the other overlays do not wait for it"}, nil
	}
	if r.err != nil {
		return nil, nil, r.err
	}
	if again && !v.unchanged(r.memo.notes) { // the files have changed meanwhile
		return l.build(v, root, dir)
	}
	l.used[key] = r.memo
	l.share(r.memo)
	return r.memo.objects, r.memo.finding, nil
}

// maxSlow is how many builds may continue after a Load. During a Load, one more build runs: the
// number of builds is bounded because the memory for them is.
const maxSlow = 1

// await waits for a build until the loader's patience ends, and reports whether the build is
// done. A build that is not done continues, unless too many do.
func (l *Loader) await(key string, r *running, again bool) bool {
	if !again {
		select {
		case <-r.done:
		case <-r.timeout:
		}
	}
	select {
	case <-r.done:
		delete(l.slow, key)
		return true
	default:
		l.overrun(key, r)
		return false
	}
}

// overrun keeps a build that takes long for the next Load, or stops it if too many do.
func (l *Loader) overrun(key string, r *running) {
	l.overrunning[key] = true
	if l.slow[key] == nil && len(l.slow) >= maxSlow {
		r.stop()
		return
	}
	l.slow[key] = r
}

// start starts the build of a directory.
func (l *Loader) start(v *view, dir string, from origin) *running {
	v.begin()
	ctx, stop := context.WithCancel(l.ctx)
	r := &running{done: make(chan struct{}), stop: stop, key: from.key}
	build := func() {
		defer close(r.done)
		defer stop()
		objects, err := l.builder.Build(ctx, v, dir)
		failure, isFailure := errors.AsType[*kustomize.Failure](err)
		from.parts, from.selects = v.parts, v.selects
		from.adds = !v.changes && v.listed == 1 && v.lists == 1
		if v.writesPaths {
			from.key = ""
		}
		r.memo = &memo{notes: v.notes, objects: objects, origin: from}
		switch {
		case v.failed != nil:
			r.err = v.failed
		case v.refused != nil:
			r.memo.objects, r.memo.finding = nil, v.refused
		case isFailure:
			r.memo.finding = v.explain(dir, failure)
		default:
			r.err = err
		}
	}
	patience := l.patience
	if len(l.slow) >= maxSlow {
		patience /= 4
	}
	if patience > 0 && l.after != nil {
		r.timeout = l.after(ctx, patience)
	}
	if l.twoAtOnce {
		go build()
	} else {
		build()
	}
	return r
}

// buildAhead begins to build the template of the overlay that is loaded next, while another is
// built and read, unless the result is known or may soon be.
func (l *Loader) buildAhead(tree fs.FS, o *Overlay) {
	if !l.twoAtOnce || len(l.slow) > 0 || len(l.ahead) > 1 || len(o.findings) > 0 {
		return
	}
	file := path.Join(o.Path, policyFile)
	data, err := fs.ReadFile(tree, file)
	if err != nil {
		return
	}
	if _, _, wrong := l.policy(file, data); len(wrong) > 0 {
		return
	}
	dir := path.Join(o.Path, templateDir)
	v := &view{name: "template ", tree: tree}
	key := v.name + dir
	if m := l.memos[key]; m != nil && v.unchanged(m.notes) || v.failed != nil {
		return
	}
	from := v.origin(o.Path, dir)
	if from.key == "" || l.sharedBuild(v, from) != nil || v.failed != nil {
		return
	}
	for _, r := range l.ahead {
		if r.key == from.key {
			return
		}
	}
	l.builds++
	l.ahead[key] = l.start(v, dir, from)
}
