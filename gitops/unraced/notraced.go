//go:build !race || raceall

package unraced

const raced = false
