package generator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"muster/generator/ledger"
	"muster/generator/manifest"
	"muster/generator/plan"
)

// withShared suspends the overlays of one queue: where Buildkite lists no agents, those of one
// cannot be told from those of another.
func withShared(fleet []manifest.Overlay) []manifest.Overlay {
	shared := plan.Sharing(manifest.Decidable(fleet))
	if len(shared) == 0 {
		return fleet
	}
	fleet = slices.Clone(fleet)
	for i := range fleet {
		if other := shared[fleet[i].Name]; other != "" {
			fleet[i].Suspend(SharesQueue(fleet[i].Policy.Queue, other))
		}
	}
	return fleet
}

// SharesQueue says why an overlay is suspended that shares its queue with another, where
// nobody lists agents.
func SharesQueue(queue, other string) string {
	return fmt.Sprintf("shares the queue %q with %s: without an API token the agents of one cannot be told from those of the other: give one, or each a queue of its own", queue, other)
}

// unseen has a dispatch count of which others have seen all agents, and that this process
// may never have seen: they may be connected.
func (g *Generator) unseen(ctx context.Context, e *ledger.Entry, id string) {
	overlay := strings.TrimPrefix(strings.TrimPrefix(e.Overlay, g.cfg.Overlays), "/")
	if g.scanned == "" || !g.inference.Knows(overlay) {
		return // what is connected at the first look is nobody's anyway
	}
	file := dispatchFile(e.Overlay, id)
	content, err := g.file(ctx, e.Commit, file)
	if err != nil {
		g.cfg.Log.Debug("a dispatch that others have retired cannot be read", "dispatch", id, "err", err)
		return
	}
	if d, err := manifest.Original(file, content); err == nil {
		g.inference.Retired(overlay, d)
	}
}
