package explanation

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"strings"
)

// kind is the kind of thing that the name of a question refers to.
type kind int

const (
	// overlayName is any name that matches no other kind.
	overlayName kind = iota
	commitName
	dispatchName
	jobName
	// agentPage is an agent by its identifier in Buildkite, and buildkitePage any other page or
	// object of Buildkite: git contains neither.
	agentPage
	buildkitePage
)

// reference is what the name of a question refers to.
type reference struct {
	kind kind
	// id is the identifier of the job, commit or dispatch.
	id string
}

const uuid = `[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`

// Forms of names. Those of addresses match within lower-case addresses without percent-encoding.
var (
	commitRule = regexp.MustCompile(`^[0-9a-f]{4,64}$`)
	uuidRule   = regexp.MustCompile(`^#?(?:job[-_])?(` + uuid + `)$`)
	// agentRule is the name of an agent, a dispatch and an index, or of its pod, which has a random
	// suffix too. dispatchRule is a dispatch, its tag or its file.
	agentRule    = regexp.MustCompile(`^(?:.*[/=])?([a-z0-9-]+-[0-9a-hjkmnp-tv-z]{8})-[0-9]{1,5}(?:-[a-z0-9]{5})?$`)
	dispatchRule = regexp.MustCompile(`^(?:.*[/=])?([a-z0-9-]+-[0-9a-hjkmnp-tv-z]{8})(?:\.yaml)?$`)
	// globalRule is an identifier of Buildkite's GraphQL API, decoded.
	globalRule = regexp.MustCompile(`^(Job|Agent|[A-Za-z]+)[A-Za-z]*---(` + uuid + `)$`)

	addressRule = regexp.MustCompile(`(?i)https?://[^\s<>"'|\\^` + "`" + `{}]+`)
	// jobRules find a job: the parameter of the build page's views, the path of the API and of the
	// job's log, and the fragment of the build page, which a line of the log may follow.
	jobRules = []*regexp.Regexp{
		regexp.MustCompile(`[?&#;/]jid=(` + uuid + `)\b`), regexp.MustCompile(`/jobs/(` + uuid + `)\b`), regexp.MustCompile(`#(?:job[-_])?(` + uuid + `)\b`),
	}
	agentPageRule = regexp.MustCompile(`/agents(/|$|[?#])`)
	// fileRule is a dispatch's file at a git host.
	fileRule      = regexp.MustCompile(`/dispatches/([a-z0-9-]+-[0-9a-hjkmnp-tv-z]{8})\.yaml`)
	buildkiteRule = regexp.MustCompile(`^https?://([a-z0-9-]+\.)*buildkite\.com(:[0-9]+)?(/|$|[?#])`)
	// proxiedRule is a page of Buildkite on another host. A path on a git host may look like one.
	proxiedRule = regexp.MustCompile(`/v2/organizations/|/builds/[0-9]+`)
	// commitRules find a commit where hosts put that of the page: gitweb's page of a file has the
	// commit in hb, and the file in h. anyRule finds a whole identifier anywhere else.
	commitRules = []*regexp.Regexp{
		regexp.MustCompile(`[?&;]hb=([0-9a-f]{7,64})(?:[#&;]|$)`),
		regexp.MustCompile(`(?:/commits?/(?:[^?#]*?/)??|/\+/|[?&;](?:h|id|sha|rev|revision|commit|at|until)=|=gc)([0-9a-f]{7,64})(?:[/?#&;^!.]|$)`),
	}
	anyRule = regexp.MustCompile(`[/=&?;:#+@]([0-9a-f]{64}|[0-9a-f]{40})(?:[^0-9a-z.]|$)`)
)

// quotes surround names in messages.
const quotes = " \t\r\n<>()[]{}\"'`,;:!?*|"

// refersTo returns what a name refers to. The name may be copied from a message, with the punctuation
// and brackets around it.
func refersTo(name string) reference {
	name = strings.TrimRight(strings.Trim(name, quotes), quotes+".")
	if found := addressRule.FindString(name); found != "" {
		return refersToAddress(found)
	}
	name = strings.TrimRight(name, "/")
	lower := strings.ToLower(name)
	if job := uuidRule.FindStringSubmatch(lower); job != nil {
		return reference{jobName, job[1]}
	}
	switch global := globalRule.FindStringSubmatch(decoded(name)); {
	case global != nil && global[1] == "Job":
		return reference{jobName, global[2]}
	case global != nil && global[1] == "Agent":
		return reference{kind: agentPage}
	case global != nil:
		return reference{kind: buildkitePage}
	case commitRule.MatchString(lower):
		return reference{commitName, lower}
	}
	if found := agentRule.FindStringSubmatch(name); found != nil {
		return reference{dispatchName, found[1]}
	}
	if found := dispatchRule.FindStringSubmatch(name); found != nil {
		return reference{dispatchName, found[1]}
	}
	// An address without its scheme: an overlay's directory looks like one, but names no job or commit.
	if host, _, ok := strings.Cut(lower, "/"); ok && strings.Contains(host, ".") {
		if found := refersToAddress("https://" + name); found.kind != overlayName {
			return found
		}
	}
	return reference{}
}

// refersToAddress returns what an address refers to.
func refersToAddress(address string) reference {
	if plain, err := url.PathUnescape(address); err == nil {
		address = plain
	}
	address = strings.ToLower(strings.TrimRight(address, quotes+"._/"))
	for _, rule := range jobRules {
		if found := rule.FindStringSubmatch(address); found != nil {
			return reference{jobName, found[1]}
		}
	}
	if buildkiteRule.MatchString(address) {
		return buildkiteReference(address)
	}
	if found := fileRule.FindStringSubmatch(address); found != nil {
		return reference{dispatchName, found[1]}
	}
	for _, rule := range commitRules {
		if found := rule.FindStringSubmatch(address); found != nil {
			return reference{commitName, found[1]}
		}
	}
	if all := anyRule.FindAllStringSubmatch(address, 2); len(all) == 1 {
		return reference{commitName, all[0][1]}
	}
	if proxiedRule.MatchString(address) {
		return buildkiteReference(address)
	}
	return reference{}
}

// buildkiteReference returns what the address of a page of Buildkite without a job refers to: the list of
// agents may be filtered by an agent's name.
func buildkiteReference(address string) reference {
	if found := agentRule.FindStringSubmatch(address); found != nil {
		return reference{dispatchName, found[1]}
	}
	if agentPageRule.MatchString(address) {
		return reference{kind: agentPage}
	}
	return reference{kind: buildkitePage}
}

// decoded returns the text of an identifier in base64; empty if it is not one.
func decoded(name string) string {
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(name, "="))
	if err != nil {
		return ""
	}
	return string(text)
}
