package history

import "strings"

// ReasonTrailer is the trailer with the reason for a person's commit.
const ReasonTrailer = "Reason"

// longestReason is the maximum length of a reason, in bytes.
const longestReason = 200

// reasonOf returns the reason in a commit message, which is untrusted text; empty if it has none.
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
