package plan

// Formula is the arithmetic of a decision, in the names of [Sum]. It is exact
// for one overlay whose agents can take every job of its queue, and in general
// for desired and dispatch; where several overlays or kinds of agents share the
// jobs, a maximum flow says how many are missing (see divide).
const Formula = `missing  = max(0, pending - elsewhere + lookahead + buffer - (idle - replacing) - inFlight)
desired  = max(min, current - replacing + missing)
room     = max(0, max - current - stopping), at most leftThisHour
dispatch = min(room, desired - (current - replacing)), 0 while suspended
`
