package main

import (
	"context"
	"io/fs"
	"log/slog"
	"path"
	"time"

	"muster/cmd/invocation"
	"muster/generator/finding"
	"muster/generator/fleet"
	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/policy"
	"muster/gitops/branch"
)

// maxLimitCommits is the maximum number of commits that check reads for [findLimits].
const maxLimitCommits = 5_000

// findLimits returns a finding for each overlay whose policy limited its orders; see [history.Limited]. log is
// the history of the repository, and inLog the directory of overlays in it. Without a readable history it returns nil.
func findLimits(ctx context.Context, tree fs.FS, overlays string, log branch.History, inLog string, now time.Time) []finding.Finding {
	var limited history.Limited
	if err := limited.Read(ledger.Read(inLog, log.Commits(ctx, "", branch.Limit{Commits: maxLimitCommits})), now); err != nil {
		return nil
	}
	var all []finding.Finding
	for _, name := range limited.Overlays() {
		file := path.Join(overlays, name, "scaling.yaml")
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			continue // the overlay was removed
		}
		p, err := policy.Parse(file, text)
		if err != nil {
			continue // check reports it
		}
		for _, x := range limited.By(name, p) {
			all = append(all, finding.Finding{File: file, Field: "spec." + x.Field, Problem: x.String(), Remedy: x.Remedy() + ": " + history.TuningPage})
		}
	}
	return all
}

// log returns the history of the clone: of what is checked out.
func (c *cloned) log(p program) branch.History {
	at := invocation.Repository{Program: p.Program, Repo: c.top, Branch: "HEAD"}
	repository, err := at.Reader(slog.New(slog.DiscardHandler))
	if err != nil {
		return nil
	}
	return repository
}

// logDelays logs what polls cost according to the flags and the fleet's own start-up times; see [history.SyncerDelay]
// and [history.PollDelay].
func (k *checkFlags) logDelays(ctx context.Context, loader *fleet.Loader, tree fs.FS, interval time.Duration) error {
	log, err := k.settings.git.Logger()
	if err != nil {
		return err
	}
	overlays, err := loader.LoadContext(ctx, tree) // again, from what it has built
	if err != nil {
		return nil // check reports it
	}
	running := false
	for _, o := range overlays {
		running = running || o.State.StartupTimes.Known()
		if text := history.SyncerDelay(o.State.StartupTimes); text != "" && len(k.settings.notify) == 0 {
			log.Info(text+": "+history.NotificationsPage, "overlay", o.Name)
		}
	}
	if text := history.PollDelay(interval); running && text != "" && k.hooks.buildkite == "" && len(k.settings.agent.files) == 0 {
		log.Info(text + ": " + history.NotificationsPage)
	}
	return nil
}
