package generator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// publisher pushes operations. It stores which overlays the server has refused, and the pushes whose
// results are unknown.
type publisher struct {
	repository Repository
	clock      Clock
	reporter   *reporter
	// refused are the overlays whose operations were refused, by path. Until together, the
	// operations of different overlays are not pushed separately.
	refused  map[string]refusal
	together time.Time
	// left is the overlay whose operations are pushed first if they are pushed one by one; empty
	// means the first overlay.
	left string
	// pending are the pushes whose results are unknown.
	pending branch.Pending[[]ledger.Draft]
	// onLanded is called once with each push that has landed; nil: it is not.
	onLanded func(before, after string, changes []branch.Change)
}

// refusal is the reason for which the operations of one overlay are refused.
type refusal struct {
	problem string
	// byHost reports whether the git server refused them, and not their content.
	byHost bool
	// files identifies the content of the overlay's files; empty if it is unknown.
	files string
	// until is when muster retries its operations although its files are the same.
	until time.Time
}

// refusedFor is how long an overlay whose operations were refused is suspended while its files
// stay the same. The cause may be on the server, where somebody can remove it.
const refusedFor = 5 * time.Minute

// affectsOneOperation reports whether err may concern a single operation, so that the others
// could be committed without it.
func affectsOneOperation(err error) bool {
	var refused *branch.Refused
	return errors.As(err, &refused) || errors.Is(err, branch.ErrInvalid)
}

// Limits of operations of several overlays that are pushed together. Each commit has a tree of all overlays, so that
// memory grows with the product of both.
const (
	maxTogether = 25
	// maxTrees is the maximum size of all of their trees, in bytes.
	maxTrees = 4 << 20
	// treeEntry is the size of an entry of a tree without its name (git-mktree(1): mode, space, zero byte, hash).
	treeEntry = 27
)

// mostTogether returns how many operations are pushed together: by the size of the largest directory that contains a
// directory of theirs.
func mostTogether(tree fs.FS, ops []ledger.Draft) int {
	read, largest := map[string]bool{}, 1
	for _, op := range ops {
		for dir := path.Dir(op.Path); !read[dir]; dir = path.Dir(dir) { // the parent of "." is "."
			read[dir] = true
			entries, _ := fs.ReadDir(tree, dir) // an error: the push returns it
			size := 0
			for _, e := range entries {
				size += len(e.Name()) + treeEntry
			}
			largest = max(largest, size)
		}
	}
	return min(maxTogether, max(1, maxTrees/largest))
}

// commit pushes the operations in parts of [mostTogether]. After a refused part it continues with the next,
// and stores the overlays that are refused. It returns the new head and the operations that were committed. The error
// is that of the last refused push if no refusal could be attributed to an overlay, or one that does not concern a
// single overlay.
func (p *publisher) commit(ctx context.Context, head branch.Head, ops []ledger.Draft) (branch.Head, []ledger.Draft, error) {
	if p.repository.Limits().OneByOne {
		return p.commitOneByOne(ctx, head, ops)
	}
	start, failed := head, map[string]error{}
	var done, part []ledger.Draft
	var refused, whole error // whole is of a part whose overlays were not pushed separately
	groups, most := byOverlay(ops), mostTogether(head.Tree, ops)
	for i, group := range groups {
		part = append(part, group...)
		if i+1 < len(groups) && len(part)+len(groups[i+1]) <= most {
			continue
		}
		before := len(failed)
		next, some, err := p.commitTogether(ctx, head, part, failed)
		head, done, part = next, append(done, some...), nil
		switch {
		case err == nil:
		case !affectsOneOperation(err):
			return head, done, err
		case len(failed) == before:
			whole = err
		default:
			refused = err
		}
	}
	if refused != nil {
		refused = p.settle(start, failed, len(groups), len(done) > 0, refused)
	}
	return head, done, cmp.Or(refused, whole)
}

// commitTogether pushes the operations together. If the server refuses them, or they make no commit, it
// pushes those of each overlay separately and adds the overlays that are refused to failed. It returns the
// new head, the operations that were committed, and the error of the last push that failed. While all were refused not
// long ago, it does not push separately.
func (p *publisher) commitTogether(ctx context.Context, head branch.Head, ops []ledger.Draft, failed map[string]error) (branch.Head, []ledger.Draft, error) {
	next, err := p.push(ctx, head, ops)
	if err == nil {
		return next, ops, nil
	}
	if !affectsOneOperation(err) {
		return head, nil, err
	}
	groups := byOverlay(ops)
	if len(groups) == 1 {
		failed[ops[0].Path] = err
		return head, nil, err
	}
	if p.clock.Now().Before(p.together) && !errors.Is(err, branch.ErrInvalid) {
		return head, nil, err
	}
	var done []ledger.Draft
	var refused error
	for _, group := range groups {
		next, err := p.push(ctx, head, group)
		switch {
		case err == nil:
			head, done = next, append(done, group...)
		case affectsOneOperation(err):
			failed[group[0].Path], refused = err, err
		default:
			return head, done, err
		}
	}
	return head, done, refused
}

// commitRepairs is commit for repairs. If the server refuses a repair, it suspends the overlay and returns
// no error, so that the tick continues with the others.
func (p *publisher) commitRepairs(ctx context.Context, head branch.Head, repairs []ledger.Draft) (branch.Head, []ledger.Draft, error) {
	next, done, err := p.commit(ctx, head, repairs)
	if err == nil || !affectsOneOperation(err) {
		return next, done, err
	}
	for _, a := range repairs {
		if !slices.ContainsFunc(done, func(x ledger.Draft) bool { return x.Path == a.Path }) {
			p.remember(head, a.Path, err, true)
		}
	}
	return next, done, nil
}

// settle records the overlays whose operations were refused, with the reason; overlays is the
// number of overlays that had operations. It returns err, or nil if each refusal is recorded or
// operations of other overlays were committed.
func (p *publisher) settle(head branch.Head, failed map[string]error, overlays int, others bool, err error) error {
	if !others && overlays > 1 {
		p.together = p.clock.Now().Add(refusedFor)
	}
	recorded := true
	for overlay, why := range failed {
		recorded = p.remember(head, overlay, why, others) && recorded
	}
	if recorded {
		return nil
	}
	return err
}

// remember stores that the operations of an overlay were refused. It returns false instead if the
// cause may not be the overlay: the server refused all operations, and did not refuse this overlay
// alone before.
func (p *publisher) remember(head branch.Head, overlay string, err error, others bool) bool {
	_, before := p.refused[overlay]
	if !others && !before && !errors.Is(err, branch.ErrInvalid) {
		return false
	}
	problem := "its changes cannot be committed: " + err.Error()
	var refused *branch.Refused
	byHost := errors.As(err, &refused)
	if byHost {
		problem = refused.Error()
	}
	p.refused[overlay] = refusal{problem: problem, byHost: byHost, files: identity(head.Tree, overlay), until: p.clock.Now().Add(refusedFor)}
	return true
}

// withRefused suspends the overlays whose operations were refused, and forgets those that are gone or
// whose files have changed.
func (p *publisher) withRefused(head branch.Head, loaded []fleet.Overlay) []fleet.Overlay {
	if len(p.refused) == 0 {
		return loaded
	}
	now := p.clock.Now()
	loaded = slices.Clone(loaded)
	current := map[string]refusal{}
	for i := range loaded {
		o := &loaded[i]
		r, ok := p.refused[o.Path]
		if !ok || identity(head.Tree, o.Path) != r.files {
			continue
		}
		current[o.Path] = r
		if now.Before(r.until) {
			o.Suspend(r.problem)
			if r.byHost {
				o.Overlay.Suspended = plan.Suspension{Code: plan.PushRefused, Finding: r.problem}
			}
		}
	}
	p.refused = current
	return loaded
}

// identity returns an identifier for the content of all files in dir, if the tree provides one
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

// byOverlay groups the operations by overlay and keeps their order.
func byOverlay(ops []ledger.Draft) [][]ledger.Draft {
	var groups [][]ledger.Draft
	for _, a := range ops {
		if last := len(groups) - 1; last >= 0 && groups[last][0].Path == a.Path {
			groups[last] = append(groups[last], a)
		} else {
			groups = append(groups, []ledger.Draft{a})
		}
	}
	return groups
}

// push pushes operations, all or none, and stores them if the result is unknown.
func (p *publisher) push(ctx context.Context, head branch.Head, ops []ledger.Draft) (branch.Head, error) {
	next, err := p.repository.Commit(ctx, head, ops)
	p.reporter.gitAnswered(err)
	var u *branch.Unsettled
	switch {
	case err == nil:
		p.pending = branch.Pending[[]ledger.Draft]{} // the branch was at this head, which contains none of them
		p.notify(head.Commit, next.Commit, ops)
	case errors.As(err, &u):
		p.pending.Add(u, ops)
	}
	return next, err
}

// notify passes on a push that has landed.
func (p *publisher) notify(before, after string, ops []ledger.Draft) {
	if p.onLanded == nil {
		return
	}
	var changes []branch.Change
	for _, op := range ops {
		changes = append(changes, op.Changes...)
	}
	p.onLanded(before, after, changes)
}

// landed returns the operations of the pushes whose results were unknown and that the branch contains. An
// error means that the history cannot be read. A push that the head does not show remains.
func (p *publisher) landed(ctx context.Context, head branch.Head) ([]ledger.Draft, error) {
	pushes, err := p.pending.Settle(ctx, p.repository, head.Commit)
	var landed []ledger.Draft
	for _, push := range pushes {
		p.notify(push.Before, push.After, push.Value)
		landed = append(landed, push.Value...)
	}
	if err != nil {
		err = fmt.Errorf("fleet repository: %w", err)
	}
	return landed, err
}

// commitOneByOne commits the operations one after the other, each on the commit before it and
// only there. It ends at the first error that does not concern a single overlay; the next
// decision, on the state at that time, covers the remaining operations. It returns what
// [publisher.commit] returns.
func (p *publisher) commitOneByOne(ctx context.Context, head branch.Head, ops []ledger.Draft) (branch.Head, []ledger.Draft, error) {
	start := head
	failed := map[string]error{}
	var done []ledger.Draft
	var refused error
	for _, op := range ops {
		if failed[op.Path] != nil {
			continue
		}
		next, err := p.push(ctx, head, []ledger.Draft{op})
		switch {
		case err == nil:
			head, done = next, append(done, op)
		case !affectsOneOperation(err):
			if !errors.Is(err, branch.ErrMoved) {
				p.left = op.Path
			}
			return head, done, err
		case len(done) == 0 && p.clock.Now().Before(p.together) && !errors.Is(err, branch.ErrInvalid):
			return head, nil, err // every one was refused not long ago
		default:
			failed[op.Path], refused = err, err
		}
	}
	p.left = ""
	if len(failed) == 0 {
		return head, done, nil
	}
	return head, done, p.settle(start, failed, len(byOverlay(ops)), len(done) > 0, refused)
}

// inTurn moves the operations of the overlay at which a limit ended the last tick to the front, so
// that the first overlays by name do not use up what a limit leaves.
func (p *publisher) inTurn(ops []ledger.Draft) []ledger.Draft {
	at := slices.IndexFunc(ops, func(a ledger.Draft) bool { return a.Path >= p.left })
	if p.left == "" || at <= 0 {
		return ops
	}
	return slices.Concat(ops[at:], ops[:at])
}

// maxJobs is the maximum number of dispatches that a single operation may add or remove, by
// overlay; nil: the repository accepts any number.
func (p *publisher) maxJobs(loaded []fleet.Overlay) map[string]int {
	limits := p.repository.Limits()
	if limits.Files == 0 {
		return nil
	}
	const (
		besides = 2 // the list of dispatches, and what is to be remembered
		least   = 3 // so that there is one for each purpose
	)
	most := map[string]int{}
	for i := range loaded {
		n := limits.Files - besides
		if one := loaded[i].DispatchBytes(); one > 0 {
			n = min(n, (limits.Bytes*3/4-loaded[i].StateBytes())/one) // a quarter is for the rest
		}
		most[loaded[i].Name] = max(n, least)
	}
	return most
}
