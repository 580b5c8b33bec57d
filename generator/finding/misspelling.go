package finding

import "strings"

// Nearest returns the candidate that a word most likely misspells: one that differs by
// case or by a letter or two, or one that is a prefix of the word or begins with it. It returns ""
// if no candidate is near.
func Nearest(word string, candidates []string) string {
	best, least := "", min(3, len(word)/3+2)
	for _, c := range candidates {
		if d := Distance(strings.ToLower(word), strings.ToLower(c)); d < least && d < len(word) {
			best, least = c, d
		}
	}
	if best != "" {
		return best
	}
	const enough = 3 // letters in common
	for _, c := range candidates {
		long, short := strings.ToLower(word), strings.ToLower(c)
		if len(long) < len(short) {
			long, short = short, long
		}
		if len(short) >= enough && len(short) > len(best) && strings.HasPrefix(long, short) {
			best = c
		}
	}
	return best
}

// Distance returns the number of letters to insert, delete, replace or swap with the next to turn
// one word into the other. If the lengths differ by more than three, it returns that difference, a
// lower bound: words may come from untrusted input.
func Distance(a, b string) int {
	if apart := max(len(a)-len(b), len(b)-len(a)); apart > 3 {
		return apart
	}
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			other := 1
			if a[i] == b[j] {
				other = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+other)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// DidYouMean returns the remedy for a word that is not among the candidates: the nearest
// candidate, or otherwise if none is near.
func DidYouMean(word string, candidates []string, otherwise string) string {
	if near := Nearest(word, candidates); near != "" {
		return "did you mean " + near + "?"
	}
	return otherwise
}
