package plan

// Formula is the arithmetic of a decision, in the names of [Sum]. Where several
// overlays or kinds of agents share the jobs, a maximum flow says which jobs are
// left elsewhere and which agents are unusable (see divide).
const Formula = `missing  = max(0, pending - elsewhere + lookahead + buffer - (idle - replacing) - inFlight + unusable)
desired  = max(min, current - replacing + missing)
room     = max(0, max - current - stopping), at most leftThisHour
dispatch = min(room, desired - (current - replacing)), 0 while suspended, 1 for a probe
`
