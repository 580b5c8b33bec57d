package manifest

import (
	"fmt"
	"path"
	"slices"

	"muster/generator/plan"
)

// What lies in dispatches/ is read when a process begins and when it changes. A file of
// it is small, but there is room in git for tens of thousands of them, and the other
// overlays wait until they are read. So their sum is bounded, for each overlay: ten
// thousand live dispatches of 8 KB, which a large fleet may have, come to 80 MB.
const (
	// fullAt is how many bytes of dispatches an overlay may have while more are ordered.
	// Above it retirements go on, so that an overlay gets below it again.
	fullAt = 96 << 20
	// largestOrder bounds what one order adds, in bytes: as much again.
	largestOrder = 96 << 20
	// mostOfDispatches is how many bytes are read: what muster itself may have written
	// is always read.
	mostOfDispatches = fullAt + largestOrder
)

// tooMuch reports whether what was read of dispatches/ is enough, and notes that a file
// of it is not read. What the file may have made of a dispatch is not known: the log
// tells, where muster has ordered it.
func (o *Overlay) tooMuch(file string) bool {
	if o.size <= mostOfDispatches {
		return false
	}
	o.unread = append(o.unread, file)
	o.edits = append(o.edits, Edit{File: file, Dispatch: plan.Dispatch{ID: idOf(file)}})
	return true
}

// holdsMuch suspends the overlay where not all of dispatches/ was read, and refuses
// orders where it is nearly so much.
func (o *Overlay) holdsMuch() {
	dir := path.Join(o.Path, dispatchDir)
	switch {
	case len(o.unread) > 0:
		others := ""
		if n := len(o.unread) - 1; n > 0 {
			others = fmt.Sprintf(", as %d others", n)
		}
		f := Finding{File: o.unread[0], Problem: fmt.Sprintf("is not read%s: the files in %s come to more than %d MiB", others, dir, mostOfDispatches>>20), Remedy: "delete those that are no dispatches of muster's"}
		o.findings = atMost(o, append([]Finding{f}, o.findings...)) // before what is wrong with thousands of files
	case o.size > fullAt:
		o.refused = append(slices.Clone(o.refused), Finding{File: dir, Problem: fmt.Sprintf("has %d MiB of dispatches, and muster orders nothing more above %d MiB", o.size>>20, fullAt>>20), Remedy: "keep large files of the template in a ConfigMap or in the image"})
	}
}
