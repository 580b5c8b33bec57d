// Package belief lists what muster assumes about services that its tests cannot reach. Each [Belief] is one
// sentence that an observation can refute. docs/reference/beliefs.md is generated from the list.
package belief

// Belief is one assumption about a service.
type Belief struct {
	// ID identifies the belief in reports. It never changes.
	ID string
	// About is the service.
	About Kind
	// Belief is the assumption: one sentence in Markdown.
	Belief string
	// Source is the URL of documentation or source code. "observed: " precedes how the behavior was observed, and
	// "assumed: " why it is assumed although neither exists.
	Source string
	// Code are the symbols that rely on the belief, such as generator/buildkite.limitOf. Those of a method or field
	// are written PACKAGE.TYPE.NAME.
	Code []string
	// IfFalse is the effect that users see if the belief is false: one sentence in Markdown.
	IfFalse string
	// Fake is a test that shows that the service's fake behaves so, such as
	// generator/buildkite/fakebuildkite.TestPaging. It is empty if NoFake is set.
	Fake string
	// NoFake is the reason why no fake behaves so.
	NoFake string
}

// Kind is a service, or a part of it.
type Kind string

// The kinds, in the order of docs/reference/beliefs.md.
const (
	REST     Kind = "Buildkite REST API"
	AgentAPI Kind = "Buildkite Agent API"
	Agents   Kind = "Buildkite agents"
	Webhooks Kind = "Buildkite webhooks"
	Git      Kind = "Git hosts"
	GitHub   Kind = "GitHub API"
	Syncers  Kind = "Argo CD and Flux"
)

// Kinds returns all kinds, in order.
func Kinds() []Kind { return []Kind{REST, AgentAPI, Agents, Webhooks, Git, GitHub, Syncers} }
