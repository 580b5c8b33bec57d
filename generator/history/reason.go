package history

import "strings"

// ReasonTrailer is the trailer of a person's commit that says why.
const ReasonTrailer = "Reason"

// longestReason is the length in bytes up to which a reason is kept.
const longestReason = 200

// reasonOf finds the reason in a commit message; empty: it has none. It is anybody's
// words.
func reasonOf(message string) string {
	lines := strings.Split(strings.TrimRight(message, "\n"), "\n")
	for i := len(lines) - 1; i > 0 && lines[i] != ""; i-- { // trailers are the last paragraph: git-interpret-trailers(1)
		reason, ok := strings.CutPrefix(lines[i], ReasonTrailer+": ")
		switch reason = strings.TrimSpace(reason); {
		case !ok:
		case len(reason) > longestReason:
			return strings.ToValidUTF8(reason[:longestReason], "") + "..."
		default:
			return reason
		}
	}
	return ""
}
