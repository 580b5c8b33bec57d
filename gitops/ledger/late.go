package ledger

import (
	"fmt"
	"time"

	"muster/generator/plan"
)

// lateClause says how many of the agents in flight are late, and since when; empty where
// none is.
func lateClause(s plan.Sum) string {
	if s.Late == 0 {
		return ""
	}
	but := "but"
	if s.Replacing > s.Late { // idle ones do not count either
		but = "and"
	}
	return fmt.Sprintf(", %s %d in flight%s late, more than %s after the order, and %s not count", but, s.Late, are(s.Late), span(time.Duration(s.LateAfter)*time.Second), pick(s.Late, "does", "do"))
}
