package fakebuildkite

// remote is the part of an agent that a real agent needs.
type remote struct{}

func (a *agent) wake() {}
