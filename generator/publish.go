package generator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"muster/generator/ledger"
	"muster/generator/manifest"
	"muster/gitops/branch"
)

// publisher commits acts, and remembers what the server refused and what it may have
// accepted without saying so.
type publisher struct {
	repository Repository
	clock      Clock
	reporter   *reporter
	// refused are the overlays whose acts were refused, by path. Until together
	// the acts of different overlays are not pushed apart.
	refused  map[string]refusal
	together time.Time
	// left is the overlay whose turn it is, where acts are pushed one by one; empty: the
	// first's.
	left   string
	unsure unsure
}

// refusal is why the acts of one overlay were not committed when those of others
// were.
type refusal struct {
	problem string
	// files stands for the overlay's files; empty: not known.
	files string
	// until is when its acts are tried again although its files are the same.
	until time.Time
}

// refusedFor is how long an overlay whose acts were refused is suspended while
// its files stay the same: what refuses may be put right on the server.
const refusedFor = 5 * time.Minute

// alone reports whether an error may be about one of several acts: the others
// could be committed without it.
func alone(err error) bool {
	var refused *branch.Refused
	return errors.As(err, &refused) || errors.Is(err, branch.ErrInvalid)
}

// commit commits the acts together. When the server refuses that, or they make no
// commit, those of each overlay are pushed by themselves, and the overlays whose
// acts are refused are remembered. It returns the new tip and what was
// committed. The error is that of the last push when nothing could be committed,
// and any that is not about one overlay.
func (p *publisher) commit(ctx context.Context, tip branch.Tip, acts []ledger.Act) (branch.Tip, []ledger.Act, error) {
	if p.repository.Limits().OneByOne {
		return p.commitSingly(ctx, tip, acts)
	}
	next, err := p.push(ctx, tip, acts)
	if err == nil {
		return next, acts, nil
	}
	if !alone(err) {
		return tip, nil, err
	}
	groups := byOverlay(acts)
	if len(groups) == 1 {
		return tip, nil, p.remember(tip, acts[0].Path, err, false)
	}
	if now := p.clock.Now(); now.Before(p.together) && !errors.Is(err, branch.ErrInvalid) {
		return tip, nil, err // every one was refused not long ago
	}
	start := tip
	failed := map[string]error{}
	var done []ledger.Act
	for _, group := range groups {
		next, err := p.push(ctx, tip, group)
		switch {
		case err == nil:
			tip, done = next, append(done, group...)
		case alone(err):
			failed[group[0].Path] = err
		default:
			return tip, done, err
		}
	}
	return tip, done, p.settle(start, failed, len(groups), len(done) > 0, err)
}

// settle remembers the overlays whose acts were refused, by the reason, of so many that
// had acts. It returns err, or none where each is remembered or others were committed.
func (p *publisher) settle(tip branch.Tip, failed map[string]error, overlays int, others bool, err error) error {
	if !others && overlays > 1 {
		p.together = p.clock.Now().Add(refusedFor)
	}
	for overlay, why := range failed {
		_ = p.remember(tip, overlay, why, others)
	}
	if others {
		return nil
	}
	for overlay := range failed {
		if p.refused[overlay].problem == "" {
			return err
		}
	}
	return nil
}

// remember notes that the acts of an overlay were refused. It returns the error
// where that may not be about the overlay: the server refused it, no others were
// accepted, and it was not refused alone before.
func (p *publisher) remember(tip branch.Tip, overlay string, err error, others bool) error {
	_, before := p.refused[overlay]
	if !others && !before && !errors.Is(err, branch.ErrInvalid) {
		return err
	}
	problem := "its changes cannot be committed: " + err.Error()
	var refused *branch.Refused
	if errors.As(err, &refused) {
		problem = refused.Error()
	}
	if p.refused == nil {
		p.refused = map[string]refusal{}
	}
	p.refused[overlay] = refusal{problem: problem, files: identity(tip.Tree, overlay), until: p.clock.Now().Add(refusedFor)}
	return nil
}

// withRefused is the fleet with the overlays suspended whose acts were refused.
func (p *publisher) withRefused(tip branch.Tip, fleet []manifest.Overlay) []manifest.Overlay {
	if len(p.refused) == 0 {
		return fleet
	}
	now := p.clock.Now()
	fleet = slices.Clone(fleet)
	there := map[string]bool{}
	for i := range fleet {
		o := &fleet[i]
		r, ok := p.refused[o.Path]
		if !ok {
			continue
		}
		there[o.Path] = true
		if identity(tip.Tree, o.Path) != r.files {
			delete(p.refused, o.Path)
		} else if now.Before(r.until) {
			o.Suspend(r.problem)
		}
	}
	for overlay := range p.refused {
		if !there[overlay] {
			delete(p.refused, overlay)
		}
	}
	return fleet
}

// identity stands for all files of a directory, where the tree can tell it
// without reading them; otherwise it is empty.
func identity(tree fs.FS, dir string) string {
	entries, err := fs.ReadDir(tree, path.Dir(dir))
	if err != nil {
		return fmt.Sprint(err)
	}
	at, ok := slices.BinarySearchFunc(entries, path.Base(dir), func(e fs.DirEntry, name string) int { return strings.Compare(e.Name(), name) })
	if !ok {
		return ""
	}
	if e, ok := entries[at].(branch.Identified); ok {
		return e.Identity()
	}
	return ""
}

// byOverlay are the acts of each overlay, in their order.
func byOverlay(acts []ledger.Act) [][]ledger.Act {
	var groups [][]ledger.Act
	for _, a := range acts {
		if last := len(groups) - 1; last >= 0 && groups[last][0].Path == a.Path {
			groups[last] = append(groups[last], a)
		} else {
			groups = append(groups, []ledger.Act{a})
		}
	}
	return groups
}

// unsure is a push of which it is not known whether it has landed: the connection
// broke off before the server's word. The zero value is none.
type unsure struct {
	tip  string // that it was made on
	acts []ledger.Act
}

// push commits acts, all or none, and notes when it is not known which.
func (p *publisher) push(ctx context.Context, tip branch.Tip, acts []ledger.Act) (branch.Tip, error) {
	next, err := p.repository.Commit(ctx, tip, acts)
	p.reporter.gitAnswered(err)
	switch {
	case err == nil:
		p.unsure = unsure{} // the branch was where an earlier push would have moved it from
	case !alone(err) && !nothingWritten(err):
		p.unsure = unsure{tip: tip.Commit, acts: acts}
	}
	return next, err
}

// nothingWritten reports whether a push was not first, and it is known that nothing of it
// was written.
func nothingWritten(err error) bool {
	return errors.Is(err, branch.ErrMoved) && !errors.Is(err, branch.ErrUnsettled)
}

// landed returns the acts of the push that broke off, once the branch shows that
// they are in it. It is told from the manifests, for each is written once and
// removed once; a push of repairs alone is told from all of its files.
func (p *publisher) landed(tip branch.Tip) []ledger.Act {
	u := p.unsure
	if u.tip == "" || u.tip == tip.Commit {
		return nil // nothing was pushed yet: it may still come, from a mirror that lags
	}
	p.unsure = unsure{}
	manifests := slices.ContainsFunc(u.acts, func(a ledger.Act) bool { return a.Kind != ledger.Repair })
	for _, a := range u.acts {
		if manifests && a.Kind == ledger.Repair {
			continue
		}
		ids, _ := a.Dispatches()
		for _, c := range a.Changes {
			if manifests && !slices.Contains(ids, strings.TrimSuffix(path.Base(c.Path), ".yaml")) {
				continue
			}
			content, err := fs.ReadFile(tip.Tree, c.Path)
			there := err == nil && bytes.Equal(content, c.Content)
			if c.Content == nil && !errors.Is(err, fs.ErrNotExist) || c.Content != nil && !there {
				return nil
			}
		}
	}
	return u.acts
}

// commitSingly commits the acts one after the other, each on the commit before it and only
// there, and ends at the first error that is not about one overlay: what is left is
// decided again, on what is then. It returns what [publisher.commit] returns.
func (p *publisher) commitSingly(ctx context.Context, tip branch.Tip, acts []ledger.Act) (branch.Tip, []ledger.Act, error) {
	start := tip
	failed := map[string]error{}
	var done []ledger.Act
	var refused error
	for _, act := range acts {
		if failed[act.Path] != nil {
			continue
		}
		next, err := p.push(ctx, tip, []ledger.Act{act})
		switch {
		case err == nil:
			tip, done = next, append(done, act)
		case !alone(err):
			if !errors.Is(err, branch.ErrMoved) {
				p.left = act.Path
			}
			return tip, done, err
		case len(done) == 0 && p.clock.Now().Before(p.together) && !errors.Is(err, branch.ErrInvalid):
			return tip, nil, err // every one was refused not long ago
		default:
			failed[act.Path], refused = err, err
		}
	}
	p.left = ""
	if len(failed) == 0 {
		return tip, done, nil
	}
	return tip, done, p.settle(start, failed, len(byOverlay(acts)), len(done) > 0, refused)
}

// inTurn begins with the acts of the overlay whose turn it was when a limit ended the last
// tick, so that those that come first by their names do not take all that a limit leaves.
func (p *publisher) inTurn(acts []ledger.Act) []ledger.Act {
	at := slices.IndexFunc(acts, func(a ledger.Act) bool { return a.Path >= p.left })
	if p.left == "" || at <= 0 {
		return acts
	}
	return slices.Concat(acts[at:], acts[:at])
}

// mostJobs is how many dispatches one act may add or remove, by overlay; nil: the
// repository takes any number.
func (p *publisher) mostJobs(fleet []manifest.Overlay) map[string]int {
	limits := p.repository.Limits()
	if limits.Files == 0 {
		return nil
	}
	const (
		besides = 2 // the list of dispatches, and what is to be remembered
		least   = 3 // so that there is one for each purpose
	)
	most := map[string]int{}
	for i := range fleet {
		n := limits.Files - besides
		if one := fleet[i].DispatchBytes(); one > 0 {
			n = min(n, limits.Bytes*3/4/one) // a quarter is for the rest
		}
		most[fleet[i].Name] = max(n, least)
	}
	return most
}
