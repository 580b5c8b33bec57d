package ledger

import (
	"slices"
	"strings"
)

// trailer is one line "Key: value" of the last paragraph of a message.
type trailer struct {
	key, value string
	line       int // in the message, from 1
}

// readTrailers returns the trailers of a message, split into lines, as
// `git interpret-trailers --parse --no-divider` finds them: those of the last paragraph, unless
// that is the first one, if all of its lines are trailers, or a quarter of them and one that git
// itself adds (git-interpret-trailers(1)). It ignores similar lines elsewhere, and git's settings
// for trailers.
func readTrailers(lines []string) []trailer {
	end := trailersEnd(lines)
	var all []trailer
	for i := trailersStart(lines[:end]); i < end; i++ {
		line := lines[i]
		switch at := separator(line); {
		case strings.HasPrefix(line, comment):
			all = append(all, trailer{}) // ends the one before it
		case line != "" && isSpace(line[0]):
			// A continuation of the line before it, whose value it belongs to.
			if len(all) > 0 && all[len(all)-1].key != "" {
				last := &all[len(all)-1]
				last.value = trim(last.value + " " + trim(line))
			}
		case at >= 1:
			all = append(all, trailer{key: trim(line[:at]), value: trim(line[at+1:]), line: i + 1})
		default:
			all = append(all, trailer{})
		}
	}
	return slices.DeleteFunc(all, func(t trailer) bool { return t.key == "" })
}

// comment begins a line that is not part of a message.
const comment = "#"

// trailersEnd returns the number of lines without those that git ignores at the end of a message: blank
// lines, comments, and a list of conflicts.
func trailersEnd(lines []string) int {
	end, conflicts := -1, false
	for i, line := range lines {
		heading := line == "Conflicts:" && i < len(lines)-1 // with a line end, as git wants it
		switch {
		case heading || strings.HasPrefix(line, comment) || line == "":
			conflicts = conflicts || heading
			if end < 0 {
				end = i
			}
		case conflicts && strings.HasPrefix(line, "\t"):
		default:
			end, conflicts = -1, false
		}
	}
	if end < 0 {
		return len(lines)
	}
	return end
}

// trailersStart returns the first line of the trailers, or the number of lines if the message has
// no trailers.
func trailersStart(lines []string) int {
	title := 0 // the first line after the first paragraph, which is no trailer
	for title < len(lines) && (strings.HasPrefix(lines[title], comment) || !blank(lines[title])) {
		title++
	}
	trailers, others, continuations := 0, 0, 0
	own, onlySpaces := false, true
	for i := len(lines) - 1; i >= title; i-- {
		line := lines[i]
		if strings.HasPrefix(line, comment) {
			others += continuations
			continuations = 0
			continue
		}
		if blank(line) {
			if onlySpaces {
				continue
			}
			others += continuations
			if own && trailers*3 >= others || trailers > 0 && others == 0 {
				return i + 1
			}
			return len(lines)
		}
		onlySpaces = false
		switch {
		case strings.HasPrefix(line, "Signed-off-by: ") || strings.HasPrefix(line, "(cherry picked from commit "):
			trailers, continuations, own = trailers+1, 0, true
		case separator(line) >= 1 && !isSpace(line[0]):
			trailers, continuations = trailers+1, 0
		case isSpace(line[0]):
			continuations++
		default:
			others += 1 + continuations
			continuations = 0
		}
	}
	return len(lines)
}

// separator returns the index of the colon of a trailer; below 1 if the line is not a trailer. A key
// consists of letters, digits and dashes, and white space may follow it.
func separator(line string) int {
	space := false
	for i := range len(line) {
		c := line[i]
		switch {
		case c == ':':
			return i
		case !space && (c == '-' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'):
		case i > 0 && (c == ' ' || c == '\t'):
			space = true
		default:
			return -1
		}
	}
	return -1
}

func blank(line string) bool { return trim(line) == "" }

// isSpace is git's isspace, which knows fewer characters than C's (ctype.c).
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// trim returns text without the white space around it, as git trims it.
func trim(text string) string { return strings.Trim(text, " \t\n\r") }

// Differing returns the keys of those trailers by muster, in the order in which they are written,
// whose values in message differ from those of an operation, in content, order or number. It does not
// compare other trailers, the text for people, and the trailer for CI.
func Differing(message string, o Operation) []string {
	found, wanted := valuesOf(message), valuesOf("\n\n"+strings.Join(o.Trailers(), "\n"))
	var keys []string
	for _, key := range ownKeys {
		if !slices.Equal(found[key], wanted[key]) {
			keys = append(keys, key)
		}
	}
	return keys
}

// valuesOf returns the values of a message's trailers, by key.
func valuesOf(message string) map[string][]string {
	all := map[string][]string{}
	for _, t := range readTrailers(strings.Split(strings.ReplaceAll(message, "\r\n", "\n"), "\n")) {
		all[t.key] = append(all[t.key], t.value)
	}
	return all
}
