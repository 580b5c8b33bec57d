package git

import (
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

// mode is how much must be fetched to read a little: it depends on what the
// server offers.
type mode int

const (
	// partial fetches single objects by name.
	partial mode = iota
	// shallow fetches one commit with everything in it.
	shallow
	// whole fetches all of the branch's history.
	whole
)

// chooseMode takes the cheapest mode that the server offers.
func (s *store) chooseMode() {
	offers := s.server.caps.Supports
	if s.mode == partial && (!offers(capability.Filter) || !offers(capability.AllowReachableSHA1InWant)) {
		s.fallBack(shallow, "the server does not offer partial clone ("+s.server.address.enabling()+")")
	}
	if s.mode == shallow && !offers(capability.Shallow) {
		s.fallBack(whole, "the server does not offer shallow clone")
	}
}

// enabling says what makes a server offer partial clone: of a repository on this
// machine, the commands to run.
func (a address) enabling() string {
	const filter, named = "uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"
	if a.endpoint.Protocol != "file" {
		return filter + " and " + named
	}
	set := "git -C " + quoteShell(a.endpoint.Path) + " config "
	return set + filter + " true && " + set + named + " true"
}

// fallBack takes a more expensive mode from now on, and logs it with the
// reason.
func (s *store) fallBack(to mode, reason string) {
	s.mode = to
	text := "fetching each commit whole, which costs time and memory"
	if to == whole {
		text = "fetching the whole history, which costs time and memory"
	}
	s.server.log.Warn(text, "repository", s.server.address.String(), "reason", s.server.printable(reason))
}
