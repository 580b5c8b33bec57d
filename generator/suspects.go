package generator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"muster/generator/finding"
	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// suspectsDeep is the number of commits that are searched for the cause of a repair, or of an edited
// manifest.
const suspectsDeep = 50

// suspect stores in each repair the commits of others since muster's last commit to the overlay. It
// reads the log once. A read error is stored and fails nothing.
func (m *memory) suspect(ctx context.Context, head branch.Head, repairs []ledger.Draft) {
	log, err := m.lately(ctx, head)
	if err != nil {
		m.log.Debug("the log of the branch cannot be read", "err", err)
	}
	for i, a := range repairs {
		repairs[i].Suspects, repairs[i].SuspectsUnknown = suspects(log, a.Path), err != nil
	}
}

// lately returns the last commits of the branch.
func (m *memory) lately(ctx context.Context, head branch.Head) ([]ledger.Operation, error) {
	var log []ledger.Operation
	for r, err := range ledger.Read(m.dir, m.history.Commits(ctx, head.Commit, branch.Limit{Commits: suspectsDeep})) {
		if err != nil {
			return nil, err
		}
		log = append(log, r)
	}
	return log, nil
}

// suspects returns the commits of others since muster's last one to an overlay.
func suspects(log []ledger.Operation, overlay string) []ledger.Suspect {
	var all []ledger.Suspect
	for _, r := range log {
		switch {
		case r.Damage != nil, r.Kind.Command(): // muster's, though it cannot be read, or a command's
		case !r.ByMuster():
			subject, _, _ := strings.Cut(strings.TrimSpace(r.Message), "\n")
			all = append(all, ledger.Suspect{Commit: r.ID, Author: r.Author, Subject: subject})
		case r.Path == overlay:
			return all
		}
	}
	return all
}

// nameEditors adds to the suspensions for edited manifests which commits edited them.
func (m *memory) nameEditors(ctx context.Context, head branch.Head, loaded []fleet.Overlay, all []Suspended) {
	for i, s := range all {
		at := slices.IndexFunc(loaded, func(o fleet.Overlay) bool { return o.Name == s.Overlay })
		if s.Why.Code != plan.Drifted || at < 0 {
			continue
		}
		for _, d := range loaded[at].Dispatches {
			if d.Edited {
				all[i].Why.Finding += ", by " + m.editor(ctx, head, loaded[at].FileOf(d))
				break
			}
		}
	}
}

// edited is who edited a file, as of a head.
type edited struct{ head, file, by string }

// editor returns the last commit of others that changed a file and its author, in words.
func (m *memory) editor(ctx context.Context, head branch.Head, file string) string {
	if m.edited.head != head.Commit || m.edited.file != file {
		m.edited = edited{head.Commit, file, m.findEditor(ctx, head, file)}
	}
	return m.edited.by
}

func (m *memory) findEditor(ctx context.Context, head branch.Head, file string) string {
	const unknown = "a commit that is not known"
	log, err := m.lately(ctx, head)
	log = slices.DeleteFunc(log, func(r ledger.Operation) bool { return r.ByMuster() || r.Kind.Command() || r.Damage != nil })
	var commits []branch.Commit
	for _, r := range log {
		commits = append(commits, r.Commit)
	}
	if err != nil || len(commits) == 0 {
		return unknown
	}
	edits, err := m.history.Edits(ctx, commits, nil, branch.Selection{Below: []string{file}})
	if err != nil {
		m.log.Debug("the commits that edited a manifest cannot be read", "err", err)
	}
	for i, e := range edits {
		if len(e.Files) > 0 {
			return fmt.Sprintf("commit %.7s of %s", log[i].ID, finding.Quote(log[i].Author))
		}
	}
	return unknown
}
