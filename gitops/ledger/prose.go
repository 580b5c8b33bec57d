package ledger

import (
	"fmt"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"muster/generator/plan"
)

// The prose of a commit is for somebody on call at night: what was done, why that
// many, and where to look when something failed.

func dispatchSubject(d plan.Decision) string {
	if d.Probe {
		return "dispatch 1 agent as a probe"
	}
	return "dispatch " + count(d.Sum.Dispatch, "agent")
}

func dispatchProse(d plan.Decision) string {
	s := d.Sum
	var text []string
	say := func(format string, args ...any) { text = append(text, fmt.Sprintf(format, args...)) }
	if d.Probe {
		b := d.State.Breaker
		say("The circuit breaker is open: %s, the last of them %s (%s). This agent is a probe. More are dispatched when it registers and takes a job.", failures(b), b.Dispatch, b.Cause)
	}
	if d.Schedule != "" {
		say("Schedule %q is in force: min %d, max %d, buffer %d.", d.Schedule, s.Min, s.Max, s.Buffer)
	}
	say("%s.", sentence(demandClause(s)))
	say("%s.", sentence(supplyClause(s)))
	if s.Replacing > 0 {
		say("%s%s close to the idle time-out of the warm pool and replaced.", sentence(count(s.Replacing, "idle agent")), are(s.Replacing))
	}
	if s.BelowMin() > s.Missing {
		say("The minimum of %d asks for %d.", s.Min, s.BelowMin())
	}
	if s.Busy > 0 || s.QueueBusy > 0 {
		say("%s", busySentence(s))
	}
	say("%s", roomSentence(s))
	if s.MaxPerHour > 0 {
		say("The limit of %d in an hour leaves %d.", s.MaxPerHour, s.LeftThisHour)
	}
	if wanted := max(s.Missing, s.BelowMin()); wanted > s.Dispatch {
		say("%d would be needed; %d%s dispatched.", wanted, s.Dispatch, are(s.Dispatch))
	}
	switch jobs := count(len(d.Dispatch), "Job"); {
	case s.Demand > 0 && s.WarmPool > 0:
		say("%d%s for jobs and %d for the warm pool, in %s.", s.Demand, are(s.Demand), s.WarmPool, jobs)
	case len(d.Dispatch) > 1:
		say("They are dispatched in %s.", jobs)
	}
	for _, u := range d.Observation.Unmatched {
		say("No overlay serves %s with the rules %s: missing %s.", count(u.Jobs, "job"), quoted(u.Rules), quoted(u.Missing))
	}
	return wrap(strings.Join(text, " "))
}

// demandClause says what asks for agents, as in "14 jobs are pending".
func demandClause(s plan.Sum) string {
	demand := count(s.Pending, "job") + are(s.Pending) + " pending"
	if s.Elsewhere > 0 {
		demand += fmt.Sprintf(", %d of them for other overlays", s.Elsewhere)
	}
	if s.Lookahead > 0 {
		demand += fmt.Sprintf("; look-ahead adds %d upcoming", s.Lookahead)
	}
	return demand
}

// supplyClause says who is there to take the jobs and how many are missing, as
// in "2 agents are idle and none is in flight, so 3 are missing".
func supplyClause(s plan.Sum) string {
	supply := "no agent is idle or in flight"
	if s.Idle > 0 || s.InFlight > 0 {
		inFlight := fmt.Sprintf("%d%s", s.InFlight, are(s.InFlight))
		if s.InFlight == 0 {
			inFlight = "none is"
		}
		supply = count(s.Idle, "agent") + are(s.Idle) + " idle and " + inFlight + " in flight"
	}
	missing := s.Pending - s.Elsewhere + s.Lookahead - (s.Idle - s.Replacing) - s.InFlight
	if missing > 0 {
		supply += fmt.Sprintf(", so %d%s missing", missing, are(missing))
	}
	if asks := s.Missing - max(0, missing); s.Buffer > 0 && asks > 0 {
		supply += fmt.Sprintf("; the buffer of %d asks for %d", s.Buffer, asks)
		if missing > 0 {
			supply += " more"
		}
	}
	return supply
}

// busySentence tells the overlay's busy agents from those of the queue.
func busySentence(s plan.Sum) string {
	switch {
	case s.QueueBusy <= s.Busy:
		return fmt.Sprintf("%s of this overlay%s busy.", sentence(count(s.Busy, "agent")), are(s.Busy))
	case s.Busy == 0:
		return fmt.Sprintf("%s of the queue%s busy, none of them of this overlay.", sentence(count(s.QueueBusy, "agent")), are(s.QueueBusy))
	}
	return fmt.Sprintf("%s of the queue%s busy, %d of them of this overlay.", sentence(count(s.QueueBusy, "agent")), are(s.QueueBusy), s.Busy)
}

// roomSentence says what max leaves room for.
func roomSentence(s plan.Sum) string {
	current := count(s.Current, "agent") + ", in flight included"
	if s.Current == 0 {
		current = "no agent yet"
	}
	if s.Stopping > 0 {
		current += fmt.Sprintf(", and %d that %s stopping", s.Stopping, strings.TrimSpace(are(s.Stopping)))
	}
	return fmt.Sprintf("The overlay has %s: the maximum of %d leaves room for %d.", current, s.Max, max(0, s.Max-s.Current-s.Stopping))
}

// retireSubject carries the outcome: a dispatch whose agents never came does not
// look like one whose agents did.
func retireSubject(all []plan.Retirement) string {
	agents, registered := 0, 0
	failures := map[plan.Failure]int{}
	for _, r := range all {
		agents += r.Agents
		registered += r.Registered
		if r.Failure != "" {
			failures[r.Failure]++
		}
	}
	its := "its"
	if len(all) != 1 {
		its = "their"
	}
	subject := "retire " + count(len(all), "dispatch") + ", "
	switch {
	case failures[plan.WrongTags] > 0:
		return subject + its + " agents have the wrong tags"
	case failures[plan.NoJobTaken] > 0:
		return subject + its + " agents took no job"
	case registered == 0:
		return subject + "none of " + its + " " + count(agents, "agent") + " came"
	case registered == agents && agents == 1:
		return subject + its + " agent registered"
	case registered == agents:
		return subject + "all " + count(agents, "agent") + " registered"
	}
	return subject + fmt.Sprintf("%d of %s %s registered", registered, its, count(agents, "agent"))
}

func retireProse(d plan.Decision) string {
	var lines []string
	for _, r := range d.Retire {
		lines = append(lines, wrap(outcomeSentence(r)))
	}
	what := "The manifest leaves"
	if len(d.Retire) > 1 {
		what = "The manifests leave"
	}
	paragraphs := []string{strings.Join(lines, "\n"), wrap(what + " git, so that no syncer runs the Job again. Agents that run are not affected.")}
	if d.Closes {
		paragraphs = append(paragraphs, wrap("The circuit breaker closes: the last order did not fail, and agents are dispatched as needed again."))
	}
	if b := d.State.Breaker; b.Failures > 0 {
		paragraphs = append(paragraphs, wrap(breakerSentence(b)), whereToLook(b))
	}
	return strings.Join(paragraphs, "\n\n")
}

// outcomeSentence says what became of one dispatch.
func outcomeSentence(r plan.Retirement) string {
	switch {
	case r.Failure == plan.NoJobTaken:
		return fmt.Sprintf("The agents of %s left without a job, although jobs that they match were pending all the while.", r.ID)
	case r.Failure == plan.WrongTags:
		return fmt.Sprintf("The agents of %s registered without tags that they were told to carry: they can take none of the jobs that they were dispatched for.", r.ID)
	case r.Registered == 0 && r.Reason == plan.Expired:
		return fmt.Sprintf("The lease of %s is over: none of its %s registered.", r.ID, count(r.Agents, "agent"))
	case r.Reason == plan.AllRegistered:
		return fmt.Sprintf("%s has started: %s.", r.ID, all(r.Agents))
	}
	return fmt.Sprintf("The lease of %s is over: %d of its %s registered.", r.ID, r.Registered, count(r.Agents, "agent"))
}

// breakerSentence says how far failures in a row have come.
func breakerSentence(b plan.Breaker) string {
	if !b.Open() {
		return fmt.Sprintf("This is the %s order in a row that failed. After the %s, the circuit breaker opens and only probes are sent.", ordinal(b.Failures), ordinal(plan.Tolerance))
	}
	which := fmt.Sprintf("This is the %s order in a row that failed", ordinal(b.Failures))
	if b.Cause == plan.WrongTags {
		which = "One such order is enough"
	}
	return fmt.Sprintf("%s: the circuit breaker is open. The next probe, one agent, is sent at %s if it is needed then.", which, b.NextProbe().UTC().Format(time.RFC3339))
}

// failures says how a circuit breaker came to be open.
func failures(b plan.Breaker) string {
	if b.Cause == plan.WrongTags {
		return "orders have failed"
	}
	return fmt.Sprintf("%d orders in a row have failed", b.Failures)
}

// whereToLook says what a person can find out that muster cannot.
func whereToLook(b plan.Breaker) string {
	look := "Where to look: does the syncer apply this overlay? Do the pods start (image, quota, nodes, Secret)? Do their agents reach Buildkite, in the right cluster and queue?"
	switch b.Cause {
	case plan.WrongTags:
		look = "Where to look: does the template's command pass $MUSTER_AGENT_TAGS on? Does the image set tags of its own?"
	case plan.NoJobTaken:
		look = "Where to look: do the agents' tags match the jobs in Buildkite (queue, cluster)? Do the agents stay connected? Is the queue paused?"
	}
	return wrap(look) + "\n  kubectl get jobs,pods -A -l muster.dev/dispatch=" + b.Dispatch
}

// repairProse says what was edited by hand and is restored.
func repairProse(a Act) string {
	lines := []string{wrap("Files of muster's own were edited by hand, so that the syncer or muster could not read them. They are restored:")}
	for _, c := range a.Changes {
		done := "written again"
		if c.Content == nil {
			done = "removed"
		}
		lines = append(lines, "  "+path.Base(c.Path)+": "+done)
	}
	return strings.Join(lines, "\n") + "\n\n" + wrap("No agent is dispatched or given up by this.")
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
		return "its one agent registered"
	}
	return fmt.Sprintf("all its %d agents registered", n)
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
