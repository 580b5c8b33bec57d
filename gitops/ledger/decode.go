package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"muster/generator/plan"
)

// decodeObservation reads a stored observation of any version. busyUnknown says
// that it does not tell an overlay's own busy agents from the queue's.
func decodeObservation(text string) (o plan.Observation, busyUnknown bool, err error) {
	var head struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal([]byte(text), &head); err != nil {
		return o, false, err
	}
	switch {
	case head.Version == nil:
		// Nobody adds fields to the format of 0.2.0 any more: what is not
		// known is not an observation.
		var s observation020
		strict := json.NewDecoder(strings.NewReader(text))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&s); err != nil {
			return o, false, err
		}
		o, err = s.observation()
		busyUnknown = true
	case *head.Version == format:
		var s storedObservation
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return o, false, err
		}
		o, err = s.observation()
	default:
		return o, false, fmt.Errorf("it is of version %d, and this muster reads up to %d: use a newer muster", *head.Version, format)
	}
	switch {
	case err != nil:
		return o, false, err
	case o.At.IsZero():
		return o, false, errors.New("it has no time")
	}
	return o, busyUnknown, nil
}

// mostIndexes bounds the indexes of all dispatches of one observation together:
// a short text may name a great many.
const mostIndexes = 1 << 24

// readIndexes reads a set of indexes, and takes what it needs off the budget.
func readIndexes(text string, budget *int) (plan.Indexes, error) {
	var s plan.Indexes
	// The last number is the highest: see [plan.Indexes.UnmarshalText].
	highest, err := strconv.Atoi(text[strings.LastIndexAny(text, ",-")+1:])
	if err == nil {
		*budget -= highest
	}
	if *budget < 0 {
		return s, errors.New("the dispatches have too many indexes")
	}
	return s, s.UnmarshalText([]byte(text))
}
