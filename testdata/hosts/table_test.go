package hosts

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

var to = flag.String("write", "", "write the table into this file, as docs/reference/git-hosts.md; empty: print it")

// row is what was found at one host.
type row struct {
	host, version, notRun string
	headFirst, passed     bool
	hidesLocks            bool
	run                   []string // parts of the story
	offers                capabilities
	proves, protection    string // what check proves, whose rules refused
	verifies, renames     string
	idle                  int64 // requests of a tick that finds nothing
	pushes                int64 // ticks that committed, and what they took together
	requests              int64
	sent, received        int64
	took                  time.Duration // the median
	landed, theirs        int           // commits beside the rival's
	gap                   time.Duration // the longest between two of muster's
}

var rows []*row

// capabilities are what a host offers for reading and for writing, in version 0 of the
// protocol, and whether it speaks version 2.
type capabilities struct {
	read, write map[string]bool
	two         bool
}

func offers(t *testing.T, p place, dir string) capabilities {
	t.Helper()
	trace := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, append(append(os.Environ(), p.environ...), "GIT_TRACE_PACKET=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	return capabilities{
		read:  offered(trace("-c", "protocol.version=0", "ls-remote", p.url)),
		write: offered(trace("-c", "protocol.version=0", "push", "--dry-run", p.url, "HEAD:refs/heads/none")),
		two:   speaksTwo(trace("-c", "protocol.version=2", "ls-remote", p.url)),
	}
}

// advertised is the line that has the capabilities, as GIT_TRACE_PACKET shows it.
var advertised = regexp.MustCompile(`(?m)< [0-9a-f]+ .*?\\0(.*)$`)

func offered(trace string) map[string]bool {
	all := map[string]bool{}
	if found := advertised.FindStringSubmatch(trace); found != nil {
		for word := range strings.FieldsSeq(found[1]) {
			name, _, _ := strings.Cut(word, "=")
			all[name] = true
		}
	}
	return all
}

func speaksTwo(trace string) bool { return strings.Contains(trace, "< version 2") }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// table is what was found, in Markdown. Times are ratios to those of git's own server in
// the same run, since they are of one machine.
func table() string {
	var b strings.Builder
	b.WriteString("| host | version | partial clone | shallow | ofs-delta | atomic | protocol v2 | check knows | protection | signatures | rename |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		if r.notRun != "" {
			fmt.Fprintf(&b, "| %s | not run: %s |%s\n", r.host, r.notRun, strings.Repeat(" |", 9))
			continue
		}
		o := r.offers
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", r.host, r.version, o.partial(), yes(o.read["shallow"]),
			o.deltas(), yes(o.write["atomic"]), yes(o.two), r.proves, r.protection, r.verifies, r.renames)
	}
	fmt.Fprintf(&b, "\n| host | requests: idle | requests: a push | sent | received | time | commits of all in %s | longest wait |\n|---|--:|--:|--:|--:|--:|--:|--:|\n", *rivalTime)
	for _, r := range rows {
		if r.notRun != "" {
			continue
		}
		each := float64(r.pushes)
		fmt.Fprintf(&b, "| %s | %d | %.1f | %.1f KB | %.1f KB | %.1f x | %d of %d | %.1f s |\n", r.host, r.idle, float64(r.requests)/each,
			float64(r.sent)/each/1000, float64(r.received)/each/1000, r.took.Seconds()/rows[0].took.Seconds(), r.landed, r.landed+r.theirs, r.gap.Seconds())
	}
	return b.String()
}

// partial says how single files can be read: by a filter, and objects by name.
func (c capabilities) partial() string {
	if c.read["filter"] && c.read["allow-reachable-sha1-in-want"] {
		return "yes"
	}
	return yes(c.read["filter"])
}

// deltas says which way knows deltas by their place in a pack.
func (c capabilities) deltas() string {
	switch read, write := c.read["ofs-delta"], c.write["ofs-delta"]; {
	case read && write:
		return "yes"
	case read:
		return "reading"
	case write:
		return "writing"
	}
	return "no"
}

// The table's place in the file.
const begins, ends = "<!-- begin: hosts -->\n", "<!-- end: hosts -->\n"

func write(t *testing.T) {
	t.Helper()
	if *to == "" {
		fmt.Print(table())
		return
	}
	text, err := os.ReadFile(*to)
	must(t, err)
	before, rest, found := strings.Cut(string(text), begins)
	_, after, ended := strings.Cut(rest, ends)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", *to)
	}
	must(t, os.WriteFile(*to, []byte(before+begins+table()+ends+after), 0o644))
}
