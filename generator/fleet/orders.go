package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"muster/generator/finding"
	"muster/generator/plan"
	"muster/generator/policy"

	"sigs.k8s.io/yaml"
)

// The orders of an overlay are the second document of its state.yaml, one line each, so that git merges
// and reverts them line by line. muster decides on these lines alone: a manifest is compared with the
// digest in its order's line, and never read otherwise.

// ordersHeader begins the document of orders.
const ordersHeader = documentEnd + "# The orders that are not retired, one line each. Deleting a line does not cancel an order: use muster cancel.\norders:\n"

// documentEnd separates the documents of state.yaml.
const documentEnd = "---\n"

// largestState is the maximum size of state.yaml in bytes: more than ten thousand orders.
const largestState = 4 << 20

// largestLayout is the maximum size of orders in another layout than muster's, in bytes: about a thousand
// orders. YAML takes a hundred times as much memory.
const largestLayout = 512 << 10

// reserved is how many bytes below largestState an order leaves free, so that its orders can be withdrawn.
// Twice that below it, muster orders nothing more.
const reserved = 256 << 10

// orderLine is the value of one line.
type orderLine struct {
	Purpose       plan.Purpose `json:"purpose"`
	Agents        int          `json:"agents"`
	OrderedAt     time.Time    `json:"orderedAt"`
	StartDeadline time.Time    `json:"startDeadline"`
	// IdleTimeout and Uptime are durations as in "5m0s".
	IdleTimeout string   `json:"idleTimeout"`
	Uptime      string   `json:"uptime,omitempty"`
	Tags        []string `json:"tags"`
	Cluster     string   `json:"cluster,omitempty"`
	Template    string   `json:"template,omitempty"`
	Withdrawn   bool     `json:"withdrawn,omitempty"`
	PutBack     bool     `json:"putBack,omitempty"`
	Manifest    string   `json:"manifest"`
}

// printOrders returns the document of orders.
func printOrders(all []plan.Dispatch) []byte {
	text := []byte(ordersHeader)
	for _, d := range all {
		line := orderLine{
			Purpose: d.Purpose, Agents: d.Agents, OrderedAt: d.At.UTC(), StartDeadline: d.NotAfter.UTC(), IdleTimeout: d.IdleTimeout.String(),
			Tags: d.Tags, Cluster: d.Cluster, Template: d.Template, Withdrawn: d.Withdrawn, PutBack: d.PutBack, Manifest: d.Manifest,
		}
		if d.Uptime > 0 {
			line.Uptime = d.Uptime.String()
		}
		value, err := json.Marshal(line)
		if err != nil { // plain data always marshals
			panic(err)
		}
		text = fmt.Appendf(text, "  %s: %s\n", d.ID, value)
	}
	return text
}

// orderRule matches a line as muster writes it.
var orderRule = regexp.MustCompile(`^  ([a-z0-9-]+): (\{.*\})$`)

// readOrders returns the orders of a document, sorted by ID, and what is wrong with it; empty if nothing
// is. A formatter may have changed the layout of up to [largestLayout] bytes. The same order may be there
// twice, as after a merge.
func readOrders(text string) (all []plan.Dispatch, problem string) {
	lines, ok := orderLines(text)
	if !ok {
		if len(text) > largestLayout {
			return nil, fmt.Sprintf("they are not one line each, and have %d bytes: at most %d are read", len(text), largestLayout)
		}
		if _, wrong := finding.ParseOne("", []byte(text)); wrong != nil {
			return nil, wrong.Problem
		}
		var doc struct {
			Orders map[string]orderLine `json:"orders"`
		}
		if err := yaml.UnmarshalStrict([]byte(text), &doc); err != nil {
			return nil, finding.OneLine(err)
		}
		lines = nil
		for id, value := range doc.Orders {
			lines = append(lines, namedLine{id, value})
		}
	}
	for _, l := range lines {
		d, err := l.dispatch()
		if err != nil {
			return nil, finding.OneLine(err)
		}
		all = append(all, d)
	}
	slices.SortStableFunc(all, func(a, b plan.Dispatch) int { return strings.Compare(a.ID, b.ID) })
	for i := len(all) - 1; i > 0; i-- {
		a, b := &all[i-1], all[i]
		if a.ID != b.ID {
			continue
		}
		if !SameOrder(*a, b) {
			return nil, a.ID + " is there twice, with different values"
		}
		a.Withdrawn, a.PutBack = a.Withdrawn || b.Withdrawn, a.PutBack || b.PutBack
		all = slices.Delete(all, i, i+1)
	}
	return all, ""
}

type namedLine struct {
	id    string
	value orderLine
}

// orderLines reads a document line by line, which is much faster than YAML; false if it has another
// layout.
func orderLines(text string) (all []namedLine, ok bool) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" || strings.HasPrefix(line, "#") || line == "orders:" {
			continue
		}
		m := orderRule.FindStringSubmatch(line)
		if m == nil {
			return nil, false
		}
		d := json.NewDecoder(strings.NewReader(m[2]))
		d.DisallowUnknownFields()
		l := namedLine{id: m[1]}
		if d.Decode(&l.value) != nil {
			return nil, false
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return nil, false
		}
		all = append(all, l)
	}
	return all, true
}

// dispatch returns the order, or why it is not one that muster can have written.
func (l namedLine) dispatch() (plan.Dispatch, error) {
	v := l.value
	d := plan.Dispatch{
		ID: l.id, Purpose: v.Purpose, Agents: v.Agents, At: v.OrderedAt.UTC(), NotAfter: v.StartDeadline.UTC(),
		Tags: v.Tags, Cluster: v.Cluster, Template: v.Template, Withdrawn: v.Withdrawn, PutBack: v.PutBack, Manifest: v.Manifest,
	}
	var err error
	id := finding.Quote(l.id)
	if d.IdleTimeout, err = time.ParseDuration(v.IdleTimeout); err != nil {
		return d, fmt.Errorf("%s: %s is not a duration as in 5m0s", id, finding.Quote(v.IdleTimeout))
	}
	if v.Uptime != "" {
		if d.Uptime, err = time.ParseDuration(v.Uptime); err != nil {
			return d, fmt.Errorf("%s: %s is not a duration as in 5m0s", id, finding.Quote(v.Uptime))
		}
	}
	switch {
	case v.Tags == nil:
		return d, fmt.Errorf("%s has no tags", id)
	case d.NotAfter.Sub(d.At) > policy.LongestLease:
		return d, fmt.Errorf("%s: its agents could start for longer than %s", id, policy.LongestLease)
	}
	return d, checkDispatch(d)
}

// sameOrder reports whether two orders have the same line.
func sameOrder(a, b plan.Dispatch) bool {
	a.Edited, b.Edited = false, false
	if !slices.Equal(a.Tags, b.Tags) || !a.At.Equal(b.At) || !a.NotAfter.Equal(b.NotAfter) {
		return false
	}
	a.Tags, a.At, a.NotAfter, b.Tags, b.At, b.NotAfter = nil, time.Time{}, time.Time{}, nil, time.Time{}, time.Time{}
	return reflect.DeepEqual(a, b)
}

// SameOrder reports whether two orders have the same values. That one is withdrawn or was put back does
// not matter.
func SameOrder(a, b plan.Dispatch) bool {
	a.Withdrawn, a.PutBack, b.Withdrawn, b.PutBack = false, false, false, false
	return sameOrder(a, b)
}

// ReadOrders returns the orders in a state.yaml, sorted by ID; nil if they cannot be read.
func ReadOrders(data []byte) []plan.Dispatch {
	_, text := cutState(data)
	all, _ := readOrders(text)
	return all
}

// ReadOrder returns an order in a state.yaml; false if it is not there, or cannot be read.
func ReadOrder(data []byte, id string) (plan.Dispatch, bool) {
	for _, d := range ReadOrders(data) {
		if d.ID == id {
			return d, true
		}
	}
	return plan.Dispatch{}, false
}

// separator is the line between two documents, or before the first, as a formatter may write it.
var separator = regexp.MustCompile(`(?m)^---(?:\s|$)`)

// cutState returns the two documents of a state.yaml. The first may be missing.
func cutState(data []byte) (head []byte, orders string) {
	rest := data
	first := separator.FindIndex(rest)
	if first != nil && first[0] == 0 {
		rest = rest[len("---"):]
		if first = separator.FindIndex(rest); first == nil {
			return nil, string(rest)
		}
	}
	if first == nil {
		return data, ""
	}
	return rest[:first[0]], string(rest[first[0]+len("---"):])
}

// fit sets whether an order is withdrawn or edited, according to its manifest in git.
func (o *Overlay) fit(d *plan.Dispatch) {
	m, there := o.manifests[d.ID]
	switch d.Edited = false; {
	case m.unread, there && m.digest == d.Manifest:
	case !there || m.size > largestManifest:
		d.Withdrawn = true
	default:
		switch again, isJob, err := o.reprint(d.ID); {
		case err != nil:
			o.others = append(o.others, finding.Unreadable(o.FileOf(*d), err))
		case !isJob:
			d.Withdrawn = true
		case again != d.Manifest:
			d.Edited = !d.Withdrawn || !o.Copied(*d) && !o.KeepsJob(*d)
		}
	}
}

// manifest is a file in dispatches/ that may be a manifest.
type manifest struct {
	digest string // of its content
	size   int
	unread bool // it is a directory or a link, or could not be read
}

// largestManifest is the maximum size of a manifest in bytes, far above the size of any template's Job.
const largestManifest = 128 << 10

// reprint returns the digest of a manifest's values as muster prints them; false if it is not the one Job of
// that name, so that no syncer can have applied it. The error is that of reading it.
func (o *Overlay) reprint(id string) (digest string, isJob bool, err error) {
	data, err := fs.ReadFile(o.tree, o.file(id+manifestType))
	if err != nil {
		return "", false, err
	}
	job, wrong := finding.ParseOne("", data)
	if wrong != nil || finding.Scalar(job, "apiVersion") != "batch/v1" || finding.Scalar(job, "kind") != "Job" || finding.Scalar(job, "metadata", "name") != id {
		return "", false, nil
	}
	return digestOf(reprinted(data)), true, nil
}

// Recorded returns the orders in state.yaml, as it is in git.
func (o *Overlay) Recorded() []plan.Dispatch { return o.recorded }

// Read reports whether the orders in state.yaml and the manifests are known.
func (o *Overlay) Read() bool { return o.loaded && o.ordersProblem == "" }

// HasManifest reports whether the manifest of an order is in git.
func (o *Overlay) HasManifest(id string) bool {
	_, there := o.manifests[id]
	return there
}

// RecordedWithdrawn reports whether state.yaml contains an order as withdrawn.
func (o *Overlay) RecordedWithdrawn(id string) bool {
	at, found := o.recordedAt(id)
	return found && o.recorded[at].Withdrawn
}

// listed reports whether syncers apply the manifest of an order. One of a withdrawn order that was put back
// stays if an edit has removed what keeps its Job.
func (o *Overlay) listed(d plan.Dispatch) bool {
	return !d.Withdrawn || d.Edited
}

// FileOf returns the path of an order's manifest in the repository.
func (o *Overlay) FileOf(d plan.Dispatch) string {
	return path.Join(o.Path, dispatchDir, d.ID+manifestType)
}
