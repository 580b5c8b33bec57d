package forecast

import "slices"

// middle is the median of some numbers, found in room of its own.
type middle struct {
	room []int
	is   int
}

// find finds the median; of two in the middle the lower.
func (m *middle) find(all []int) {
	m.room = append(m.room[:0], all...)
	slices.Sort(m.room)
	m.is = m.room[(len(m.room)-1)/2]
}
