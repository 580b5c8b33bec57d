package plan

// Formula is the arithmetic of a decision, in the names of [Sum]. Each term is counted in
// the flow that divides jobs among agents (see divide), or read from the policy.
// leftThisHour and mostAtOnce are left out if there is no such limit.
const Formula = `missing  = max(0, pending - elsewhere + lookahead + buffer - (idle - replacing) - (inFlight - late) + unusable)
desired  = max(min, current - replacing - late + missing)
room     = max(0, max - current - stopping)
dispatch = min(desired - (current - replacing - late), room, leftThisHour, mostAtOnce), 0 while suspended, 1 for a probe
`
