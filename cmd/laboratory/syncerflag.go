package laboratory

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/cmd/invocation"
	"muster/generator/simulation"

	"github.com/spf13/cobra"
)

// syncerFlag is the configuration of the simulated syncer. The zero value is that of the default scenario.
type syncerFlag struct {
	name  string        // of one of [simulation.Syncers]
	polls durationRange // the time between two polls, if name is empty
}

// addTo adds the flag.
func (s *syncerFlag) addTo(c *cobra.Command) {
	names := invocation.Map(simulation.Syncers(), func(s simulation.Syncer) string { return s.Name })
	usage := "how the syncer is set up: " + strings.Join(names, ", ") + ", or its shortest and longest time between two polls; unless notified, without webhooks of Buildkite too (default notified)"
	invocation.ParsedVar(c.Flags(), "syncer", "", "string", "", names[0], usage, func(text string) error {
		*s = syncerFlag{}
		switch {
		case slices.Contains(names, text):
			s.name = text
		case s.polls.Set(text) != nil || s.polls[0] < time.Second:
			return fmt.Errorf("%q: use one of %s, or a time of a second or more, as in 20s-30s", text, strings.Join(names, ", "))
		}
		return nil
	})
	invocation.OneOf(c, "syncer", names...)
}

// use sets up the syncer of a scenario.
func (s syncerFlag) use(w *simulation.Scenario) {
	if s.polls[0] > 0 {
		simulation.Syncer{Sync: s.polls[0], Jitter: s.polls[1] - s.polls[0]}.Use(w)
	}
	for _, known := range simulation.Syncers() {
		if known.Name == s.name {
			known.Use(w)
		}
	}
}
