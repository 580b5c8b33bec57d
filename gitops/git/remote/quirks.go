package remote

import (
	"regexp"
	"slices"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

// Quirk is one behavior of a git host that git's protocol does not define, or that only some
// hosts have.
type Quirk struct {
	// Host is the server or service.
	Host string
	// Behavior is what the host does. It contains the words, statuses or names below, in code.
	Behavior string
	// Meaning is what muster concludes.
	Meaning Meaning
	// Source is a URL, a file of the host's code, or the test that observed the behavior.
	Source string

	// Words match a message of the host, or the agent that it advertises; nil: neither is looked up.
	Words *regexp.Regexp
	// Statuses are HTTP statuses.
	Statuses []int
	// Names are capabilities, HTTP headers or a field in JSON, depending on the meaning.
	Names []string
}

// Meaning is what muster concludes from a quirk: the text of the column "muster" in
// docs/reference/git-hosts.md.
type Meaning string

// The meanings that code looks up. A quirk that muster handles without recognizing the host has a
// text of its own instead.
const (
	// NotFound has words of a server that is not reached over HTTP.
	NotFound Meaning = "reports that the repository is missing or inaccessible"
	// RefusesFilter, RefusesObject and NeedsThinPack have words that answer a fetch.
	RefusesFilter Meaning = "repeats the request without the filter"
	RefusesObject Meaning = "reads the head again, or fetches more history"
	NeedsThinPack Meaning = "repeats the request with `thin-pack`"
	// NeedsCapability has names of capabilities that go-git would not request.
	NeedsCapability Meaning = "requests it"
	// StaleHead and LockedByPush have words that answer a push. Those of LockedByPush also mean
	// StaleHead.
	StaleHead    Meaning = "`check` concludes that its trial push failed only because of the head"
	LockedByPush Meaning = "tries six times, half a second apart"
	// HooksFirst has words of an agent.
	HooksFirst Meaning = "`check` tests the branch's rules without a push"
	// UnreliableReport has names of capabilities whose absence identifies the host.
	UnreliableReport Meaning = "reads the branch after each push to a server without that capability"
	// RateLimited and NoRefusal have statuses.
	RateLimited Meaning = "waits for the time in `Retry-After`, otherwise one minute"
	NoRefusal   Meaning = "does not conclude that the host refuses this request"
	// LimitHeaders has the names of two headers: the limit and what remains of it.
	LimitHeaders Meaning = "exports both as metrics"
	// MessageField has the path of a field.
	MessageField Meaning = "shows only that text"
	// NoMessage has words of a line.
	NoMessage Meaning = "omits the line from errors"
)

// rulesUnknown is the opposite of HooksFirst.
const rulesUnknown Meaning = "`check` reports that the branch's rules are unknown"

// Quirks are all known quirks. Among those of one meaning, the first that applies wins.
var Quirks = []Quirk{
	// Missing repositories.
	{Host: "git", Behavior: "`'/fleet' does not appear to be a git repository`", Meaning: NotFound,
		Words:  regexp.MustCompile(`(?i)not appear to be a git repository`),
		Source: "git, builtin/upload-pack.c"},
	{Host: "git", Behavior: "`No such file or directory`", Meaning: NotFound,
		Words:  regexp.MustCompile(`(?i)no such`),
		Source: "errno(3), `ENOENT`"},
	{Host: "GitHub", Behavior: "`Repository not found.`", Meaning: NotFound,
		Words:  regexp.MustCompile(`(?i)repository not found`),
		Source: "https://github.com/actions/checkout/issues/1845"},
	{Host: "GitLab", Behavior: "`The project you were looking for could not be found`", Meaning: NotFound,
		Words:  regexp.MustCompile(`(?i)could not be found`),
		Source: "https://gitlab.com/gitlab-org/gitlab/-/issues/23651"},
	{Host: "Bitbucket Cloud", Behavior: "`repository does not exist`", Meaning: NotFound,
		Words:  regexp.MustCompile(`(?i)does not exist`),
		Source: "https://bitbucket.org/site/master/issues/9472"},
	{Host: "Azure DevOps", Behavior: "`TF401019: The Git repository with name or identifier fleet does not exist`", Meaning: NotFound,
		Words:  regexp.MustCompile(`(?i)does not exist`),
		Source: "https://learn.microsoft.com/en-us/azure/devops/pipelines/security/secure-access-to-repos"},
	{Host: "Gerrit", Behavior: "`Project not found`", Meaning: NotFound,
		Words:  regexp.MustCompile(`(?i)not found`),
		Source: "https://gerrit-review.googlesource.com/Documentation/error-project-not-found.html"},
	{Host: "Gitea", Behavior: "`Cannot find repository: fleet/none`", Meaning: NotFound,
		Words:  regexp.MustCompile(`(?i)cannot find repository`),
		Source: "Gitea, routers/private/serv.go"},
	{Host: "gitolite", Behavior: "`FATAL: R any none robot DENIED by fallthru`", Meaning: NotFound,
		Words:  regexp.MustCompile(`FATAL: R any \S+ \S+ DENIED`),
		Source: "gitolite, src/gitolite-shell"},
	{Host: "Bitbucket Cloud", Behavior: "`repository access denied`", Meaning: NotFound,
		Words:  regexp.MustCompile(`(?i)repository access denied`),
		Source: "https://bitbucket.org/site/master/issues/10289"},

	// Fetching.
	{Host: "git", Behavior: "`filter 'blob:limit' not supported`", Meaning: RefusesFilter,
		Words:  regexp.MustCompile(`filter`),
		Source: "git, upload-pack.c"},
	{Host: "git", Behavior: "serves only heads unless configured otherwise: `upload-pack: not our ref`", Meaning: RefusesObject,
		Words:  regexp.MustCompile(`not our ref`),
		Source: "git, upload-pack.c"},
	{Host: "JGit", Behavior: "serves only heads: `want 0123456789abcdef0123456789abcdef01234567 not valid`", Meaning: RefusesObject,
		Words:  regexp.MustCompile(`want [0-9a-f]{40} not valid`),
		Source: "https://github.com/eclipse-jgit/jgit/issues/48"},
	{Host: "Dulwich", Behavior: "serves only heads: refuses others with status 500", Meaning: RefusesObject,
		Source: "`make hosts`"},
	{Host: "Dulwich", Behavior: "`Client does not support required capability b'thin-pack'`", Meaning: NeedsThinPack,
		Words:  regexp.MustCompile(`thin-pack`),
		Source: "dulwich 0.21, server.py"},
	{Host: "Dulwich", Behavior: "requires `thin-pack`", Meaning: NeedsCapability,
		Names:  []string{capability.ThinPack.String()},
		Source: "dulwich 0.21, server.py, `required_capabilities`"},
	{Host: "Azure DevOps", Behavior: "requires `multi_ack` or `multi_ack_detailed`", Meaning: NeedsCapability,
		Names:  []string{capability.MultiACK.String(), capability.MultiACKDetailed.String()},
		Source: "https://github.com/go-git/go-git/issues/64"},
	{Host: "AWS CodeCommit", Behavior: "requires `multi_ack`", Meaning: NeedsCapability,
		Names:  []string{capability.MultiACK.String()},
		Source: "https://github.com/fluxcd/pkg/issues/576"},

	// Pushes.
	{Host: "git", Behavior: "`failed to update ref`, to 2.49", Meaning: LockedByPush,
		Words:  regexp.MustCompile(`(?i)failed to update ref`),
		Source: "git, builtin/receive-pack.c"},
	{Host: "git", Behavior: "`cannot lock ref 'refs/heads/main'`", Meaning: LockedByPush,
		Words:  regexp.MustCompile(`(?i)cannot lock ref`),
		Source: "git, refs/files-backend.c"},
	{Host: "JGit", Behavior: "`failed to lock` or `lock failure` during another push", Meaning: LockedByPush,
		Words:  regexp.MustCompile(`(?i)failed to lock|lock failure`),
		Source: "JGit, ReceiveCommand.java"},
	{Host: "git", Behavior: "`incorrect old value provided`, `reference already exists`, `atomic transaction failed`, `non-fast-forward` or `stale info`", Meaning: StaleHead,
		Words:  regexp.MustCompile(`(?i)incorrect old value|reference .*already exists|transaction failed|non-fast-forward|stale info`),
		Source: "git, builtin/receive-pack.c, refs.c, transport.c"},
	{Host: "JGit", Behavior: "`invalid old id sent` or `already exists`", Meaning: StaleHead,
		Words:  regexp.MustCompile(`(?i)invalid old id|(^|: )already exists$`),
		Source: "JGit, ReceivePack.java"},
	{Host: "go-git", Behavior: "`reference has changed concurrently`", Meaning: StaleHead,
		Words:  regexp.MustCompile(`(?i)reference .*has changed`),
		Source: "go-git, storage/storer.go"},
	{Host: "Dulwich", Behavior: "reports `ok` for a conflicting push; does not advertise `agent`", Meaning: UnreliableReport,
		Names:  []string{capability.Agent.String()},
		Source: "dulwich 0.21, server.py, `_apply_pack`"},
	{Host: "Dulwich", Behavior: "concurrent pushes fail with status 500", Meaning: "reads the head again; retries in the next tick",
		Source: "`make hosts`"},
	{Host: "git", Behavior: "runs hooks before it compares the head; advertises the agent `git/2.39.5`", Meaning: HooksFirst,
		Words:  regexp.MustCompile(`^git/[0-9]`),
		Source: "git, builtin/receive-pack.c, `execute_commands`"},
	{Host: "JGit", Behavior: "compares the head before it runs hooks", Meaning: rulesUnknown,
		Source: "`make hosts`"},
	{Host: "GitHub", Behavior: "takes pushes with a program other than git's", Meaning: rulesUnknown,
		Source: "https://github.com/github/spokes-receive-pack"},

	// HTTP.
	{Host: "GitHub", Behavior: "`429` for too many requests", Meaning: RateLimited,
		Statuses: []int{429},
		Source:   "docs.github.com/rest, Rate limits for the REST API"},
	{Host: "GitHub", Behavior: "`X-RateLimit-Limit` and `X-RateLimit-Remaining`", Meaning: LimitHeaders,
		Names:  []string{"X-RateLimit-Limit", "X-RateLimit-Remaining"},
		Source: "docs.github.com/rest, Rate limits for the REST API"},
	{Host: "any", Behavior: "`401` when credentials expire", Meaning: NoRefusal,
		Statuses: []int{401},
		Source:   "RFC 9110, 15.5.2"},
	{Host: "proxies", Behavior: "`408`, `502`, `503` or `504` if the host is unreachable", Meaning: NoRefusal,
		Statuses: []int{408, 502, 503, 504},
		Source:   "RFC 9110, 15.5.9 and 15.6.3 to 15.6.5"},
	{Host: "Gitea", Behavior: "redirects a renamed repository", Meaning: "follows on the same host; update `--repo` anyway",
		Source: "`make hosts`"},

	// Error messages.
	{Host: "Azure DevOps, Gitea", Behavior: "JSON with `message`", Meaning: MessageField,
		Names:  []string{"message"},
		Source: "Azure DevOps REST API, Errors"},
	{Host: "Bitbucket Data Center", Behavior: "JSON with `errors.0.message`", Meaning: MessageField,
		Names:  []string{"errors.0.message"},
		Source: "Bitbucket Data Center REST API, Errors & Validation"},
	{Host: "GitLab", Behavior: "JSON with `error`", Meaning: MessageField,
		Names:  []string{"error"},
		Source: "https://github.com/gitlab4j/gitlab4j-api/issues/260"},
	{Host: "Bitbucket Cloud", Behavior: "JSON with `error.message`", Meaning: MessageField,
		Names:  []string{"error.message"},
		Source: "https://jira.atlassian.com/browse/BCLOUD-22703"},
	{Host: "git", Behavior: "prints progress, as in `Counting objects: 5, done.`", Meaning: NoMessage,
		Words:  regexp.MustCompile(`^[A-Za-z]+ing [a-z]+: +([0-9]+% \([0-9]+/[0-9]+\).*|[0-9]+(, done\.)?)$`),
		Source: "git, progress.c"},
	{Host: "Gitea, GitLab", Behavior: "prints lines without a word around its message, as in `error: ===`", Meaning: NoMessage,
		Words:  regexp.MustCompile(`^((error|fatal|warning):)?[^\pL\pN]*$`),
		Source: "`make hosts`; GitLab, lib/gitlab/git_access.rb"},
}

// Match reports whether a quirk with this meaning has words that match text.
func (m Meaning) Match(text string) bool {
	return slices.ContainsFunc(m.quirks(), func(q Quirk) bool { return q.Words != nil && q.Words.MatchString(text) })
}

// MatchStatus reports whether a quirk with this meaning has the status.
func (m Meaning) MatchStatus(status int) bool {
	return slices.ContainsFunc(m.quirks(), func(q Quirk) bool { return slices.Contains(q.Statuses, status) })
}

// MatchName reports whether a quirk with this meaning has the name.
func (m Meaning) MatchName(name string) bool {
	return slices.ContainsFunc(m.quirks(), func(q Quirk) bool { return slices.Contains(q.Names, name) })
}

// MatchMissing reports whether caps lack a capability that a quirk with this meaning names.
func (m Meaning) MatchMissing(caps *capability.List) bool {
	return slices.ContainsFunc(m.quirks(), func(q Quirk) bool {
		return slices.ContainsFunc(q.Names, func(name string) bool { return !caps.Supports(capability.Capability(name)) })
	})
}

// quirks returns the quirks with this meaning, in the order of [Quirks].
func (m Meaning) quirks() []Quirk {
	return slices.DeleteFunc(slices.Clone(Quirks), func(q Quirk) bool { return q.Meaning != m })
}
