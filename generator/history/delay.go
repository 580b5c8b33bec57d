package history

import (
	"fmt"
	"time"

	"muster/generator/plan"
)

// TuningPage and NotificationsPage are the pages about what [Limited], [SyncerDelay] and [PollDelay] find.
const (
	TuningPage        = "docs/how-to/tune-waits-and-cost.md"
	NotificationsPage = "docs/how-to/notifications.md"
)

// minSyncerDelay and minPollDelay are the delays from which the functions below describe them.
const (
	minSyncerDelay = 10 * time.Second
	minPollDelay   = 5 * time.Second
)

// SyncerDelay describes by how much start-up times vary if muster notifies no syncer; empty if they are not known or vary
// little. An agent registers soonest if the syncer polls git right after its order.
func SyncerDelay(times plan.StartupTimes) string {
	spread := times.Spread()
	if !times.Known() || spread < minSyncerDelay {
		return ""
	}
	return fmt.Sprintf("half of the latest %d agents took at least %d s longer to register than the fastest tenth; muster notifies no syncer of pushes: unless the git host does, this includes the wait for its poll", times.Agents(), spread/time.Second)
}

// PollDelay describes how long jobs wait for muster's poll if nothing triggers one; empty if the interval is short.
func PollDelay(interval time.Duration) string {
	if interval/2 < minPollDelay {
		return ""
	}
	return fmt.Sprintf("a job waits %.3g s on average for muster's next poll, because neither webhooks nor --agent-token-file trigger one", interval.Seconds()/2)
}
