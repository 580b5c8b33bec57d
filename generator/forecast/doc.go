// Package forecast learns when jobs arrive, and says how many agents to keep idle for
// those to come.
//
//	Profile ──After(Count)──▶ Profile ──At(time, Aim)──▶ Forecast
//
// Everything is a pure function of its arguments. What is learned is in whole numbers, and
// what is worked out of it rounds after each step, so that it is the same on every
// machine. Times are in UTC: where clocks are changed, the hours of the day are an hour off
// until the new ones are learned.
package forecast
