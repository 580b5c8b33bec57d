// Package plan has muster's nouns and its one decision: how many agents to
// dispatch and which dispatches to retire.
//
// A tick goes through it once, from left to right:
//
//	Snapshot ──Observe──▶ Observation ──Decide──▶ Decision
//
// A [Snapshot] is what Buildkite said. [Observe] reduces it, with what the
// [Registrations] remembers, to one small [Observation] per queue. [Decide] turns an
// observation and the overlays of one commit into one [Decision] per overlay.
// Everything here is a pure function of its arguments: no I/O, no clock, no
// log, and the order in which Buildkite listed things changes nothing.
package plan
