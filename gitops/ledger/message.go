package ledger

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"muster/generator/plan"
)

// Message renders the commit message of an act: a subject, the reasons with
// their arithmetic, and trailers that hold every input of the decision which
// is not in the parent's tree. The last trailer keeps Buildkite, GitHub and
// GitLab from building the commit: a build per scaling decision would be a
// loop (buildkite.com/docs/pipelines/configure/skipping). The version is
// muster's own.
func Message(act Act, version string) string {
	d := act.Decision
	var subject, body string
	var trailers []string
	trailer := func(key, value string) { trailers = append(trailers, key+": "+value) }
	trailer("Overlay", act.Path)
	trailer("Act", string(act.Kind))
	switch act.Kind {
	case Repair:
		subject, body = "repair dispatches/", "What is below dispatches/ was changed by hand, and was no longer what a syncer or\nmuster can read. No agent is ordered or given up by this."
	case Dispatch:
		subject, body = "dispatch "+count(d.Sum.Dispatch, "agent"), orderProse(d)
		for _, o := range d.Dispatch {
			trailer("Dispatch", o.ID)
		}
		trailer("Agents", fmt.Sprint(d.Sum.Dispatch))
	case Retire:
		subject, body = "retire "+count(len(d.Retire), "dispatch"), retireProse(d)
		agents := 0
		for _, r := range d.Retire {
			trailer("Dispatch", r.ID)
			agents += r.Agents
		}
		trailer("Agents", fmt.Sprint(agents))
	}
	trailer("Observation", observationJSON(d.Observation))
	trailer("Muster", version)
	trailer("CI", "[skip ci]")
	return fmt.Sprintf("%s: %s\n\n%s\n\n%s\n", d.Overlay, subject, body, strings.Join(trailers, "\n"))
}

// observationJSON is one line of JSON, as a person and a forge may read it.
// What Buildkite's users wrote into it can neither end the line, nor hide or
// turn around what a terminal shows, nor call somebody or close an issue where
// the commit is shown: docs.github.com, "Linking a pull request to an issue".
func observationJSON(o plan.Observation) string {
	text, err := json.Marshal(o)
	if err != nil { // an observation is plain data: this is a defect, and better seen than hidden
		return fmt.Sprintf("%q", err)
	}
	line := closing.ReplaceAllStringFunc(string(text), func(keyword string) string {
		return strings.ReplaceAll(keyword, " ", `\u0020`)
	})
	var plain strings.Builder
	for _, c := range line {
		switch {
		case c != '@' && unicode.IsPrint(c):
			plain.WriteRune(c)
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&plain, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&plain, `\u%04x`, c)
		}
	}
	return plain.String()
}

// closing is what stands before an issue that a commit closes.
var closing = regexp.MustCompile(`(?i)(close[sd]?|fix(es|ed)?|resolve[sd]?):? `)

func orderProse(d plan.Decision) string {
	s := d.Sum
	var text []string
	say := func(format string, args ...any) { text = append(text, fmt.Sprintf(format, args...)) }
	if d.Probe {
		b := d.State.Breaker
		say("The breaker is open: %s, the last of them %s (%s). One agent is sent as a probe, and more only when it succeeds.", failures(b), b.Dispatch, b.Cause)
	}
	if d.Schedule != "" {
		say("Schedule %q is in force: min %d, max %d, buffer %d.", d.Schedule, s.Min, s.Max, s.Buffer)
	}
	demand := count(s.Pending, "job") + are(s.Pending) + " waiting"
	if s.Elsewhere > 0 {
		demand += fmt.Sprintf(", of which other overlays take %d", s.Elsewhere)
	}
	if s.Lookahead > 0 {
		demand += fmt.Sprintf("; look-ahead adds %d to come", s.Lookahead)
	}
	say("%s.", sentence(demand))

	missing := s.Pending - s.Elsewhere + s.Lookahead - (s.Idle - s.Replacing) - s.InFlight
	supply := supplyClause(s)
	if missing > 0 {
		supply += fmt.Sprintf(", so %d%s missing", missing, are(missing))
	}
	if asks := s.Missing - max(0, missing); s.Buffer > 0 && asks > 0 {
		supply += fmt.Sprintf("; the buffer of %d asks for %d", s.Buffer, asks)
		if missing > 0 {
			supply += " more"
		}
	}
	say("%s.", sentence(supply))
	if s.Replacing > 0 {
		say("%s%s relieved, being near the end of the upkeep idle time-out.", sentence(count(s.Replacing, "idle agent")), are(s.Replacing))
	}
	if s.BelowMin > s.Missing {
		say("The minimum of %d asks for %d.", s.Min, s.BelowMin)
	}
	if s.Busy > 0 {
		say("%s%s busy.", sentence(count(s.Busy, "agent")), are(s.Busy))
	}
	say("%s", roomSentence(s))
	if s.MaxPerHour > 0 {
		say("The limit of %d in an hour leaves %d.", s.MaxPerHour, s.LeftThisHour)
	}
	if wanted := max(s.Missing, s.BelowMin); wanted > s.Dispatch {
		say("%d would be needed; only %d%s ordered.", wanted, s.Dispatch, are(s.Dispatch))
	}
	switch jobs := count(len(d.Dispatch), "Job"); {
	case s.Demand > 0 && s.WarmPool > 0:
		say("%d%s for jobs and %d for upkeep, in %s.", s.Demand, are(s.Demand), s.WarmPool, jobs)
	case len(d.Dispatch) > 1:
		say("They are ordered in %s.", jobs)
	}
	for _, u := range d.Observation.Unmatched {
		say("No overlay serves %s with the rules %s: missing %s.", count(u.Jobs, "job"), quoted(u.Rules), quoted(u.Missing))
	}
	return wrap(strings.Join(text, " "))
}

// failures says how an open breaker came to it.
func failures(b plan.Breaker) string {
	if b.Cause == plan.WrongTags {
		return "orders have failed"
	}
	return fmt.Sprintf("%d orders in a row have failed", b.Failures)
}

// roomSentence says what max leaves room for.
func roomSentence(s plan.Sum) string {
	own := count(s.Current, "agent") + ", starting ones included"
	if s.Current == 0 {
		own = "no agent yet"
	}
	if s.Stopping > 0 {
		own += fmt.Sprintf(", and %d that %s no more jobs", s.Stopping, map[bool]string{true: "takes", false: "take"}[s.Stopping == 1])
	}
	return fmt.Sprintf("The overlay has %s: the ceiling of %d leaves room for %d.", own, s.Max, max(0, s.Max-s.Current-s.Stopping))
}

// supplyClause says who is there to take the jobs, as in "2 agents are idle and
// none is starting".
func supplyClause(s plan.Sum) string {
	if s.Idle == 0 && s.InFlight == 0 {
		return "no agent is idle or starting"
	}
	starting := fmt.Sprintf("%d%s", s.InFlight, are(s.InFlight))
	if s.InFlight == 0 {
		starting = "none is"
	}
	return count(s.Idle, "agent") + are(s.Idle) + " idle and " + starting + " starting"
}

func retireProse(d plan.Decision) string {
	var lines []string
	for _, r := range d.Retire {
		line := fmt.Sprintf("The lease of %s is over: %d of its %s came.", r.ID, r.Registered, count(r.Agents, "agent"))
		switch {
		case r.Failure == plan.NoJobTaken:
			line = fmt.Sprintf("The agents of %s left without a job, although jobs that they match were waiting all the while.", r.ID)
		case r.Failure == plan.WrongTags:
			line = fmt.Sprintf("The agents of %s came without tags that they were told to carry: they can take none of the jobs that they were ordered for.", r.ID)
		case r.Failure == plan.NeverRegistered:
			line = fmt.Sprintf("The lease of %s is over: none of its %s came.", r.ID, count(r.Agents, "agent"))
		case r.Reason == plan.AllRegistered:
			line = fmt.Sprintf("%s has started: %s seen by Buildkite.", r.ID, all(r.Agents))
		}
		lines = append(lines, wrap(line))
	}
	what := "The manifest leaves"
	if len(d.Retire) > 1 {
		what = "The manifests leave"
	}
	paragraphs := []string{strings.Join(lines, "\n"), wrap(what + " git, so that no syncer runs the Job again. Agents that run are not touched.")}
	if d.Closes {
		paragraphs = append(paragraphs, wrap("The breaker closes: the last order did not fail, and agents are ordered as needed again."))
	}
	if b := d.State.Breaker; b.Open() {
		which := fmt.Sprintf("This is the %s order in a row that failed", ordinal(b.Failures))
		if b.Cause == plan.WrongTags {
			which = "One such order is enough"
		}
		paragraphs = append(paragraphs, wrap(fmt.Sprintf("%s: the breaker is open. The next probe, one agent, goes at %s if it is needed then.",
			which, b.NextProbe().UTC().Format(time.RFC3339))), whereToLook(b))
	} else if b.Failures > 0 {
		paragraphs = append(paragraphs, wrap(fmt.Sprintf("This is the %s order in a row that failed. After the third, only probes are sent.", ordinal(b.Failures))), whereToLook(b))
	}
	return strings.Join(paragraphs, "\n\n")
}

// whereToLook says what a person can find out that muster cannot.
func whereToLook(b plan.Breaker) string {
	look := wrap("Where to look: does the syncer apply this overlay? Do the pods start (image, quota, nodes, Secret)? Do their agents reach Buildkite, in the right cluster and queue?")
	if b.Cause == plan.WrongTags {
		look = wrap("Where to look: what becomes of $MUSTER_AGENT_TAGS in the template's command, and of tags that the image sets itself?")
	}
	if b.Cause == plan.NoJobTaken {
		look = wrap("Where to look: do the agents' tags match the jobs in Buildkite's eyes (queue, cluster)? Do the agents stay connected? Is the queue's dispatch paused?")
	}
	return look + "\n  kubectl get jobs,pods -A -l muster.dev/dispatch=" + b.Dispatch
}

func ordinal(n int) string {
	if words := []string{"", "first", "second", "third", "fourth", "fifth", "sixth"}; n < len(words) {
		return words[n]
	}
	suffix := "th"
	if n/10%10 != 1 && n%10 >= 1 && n%10 <= 3 {
		suffix = []string{"", "st", "nd", "rd"}[n%10]
	}
	return fmt.Sprintf("%d%s", n, suffix)
}

func all(n int) string {
	if n == 1 {
		return "its one agent was"
	}
	return fmt.Sprintf("all its %d agents were", n)
}

func count(n int, noun string) string {
	if n == 0 {
		return "no " + noun
	}
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "ch") {
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func are(n int) string {
	if n <= 1 {
		return " is"
	}
	return " are"
}

func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func quoted(words []string) string {
	q := make([]string, len(words))
	for i, w := range words {
		// No white space: a line must not break within somebody else's words.
		// And nobody is called by them.
		q[i] = strings.NewReplacer(" ", `\x20`, "@", `\x40`).Replace(fmt.Sprintf("%q", w))
	}
	return strings.Join(q, " ")
}

// wrap breaks text at 76 columns.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > 76:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
