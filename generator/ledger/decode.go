package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"muster/generator/plan"
)

// decodeObservation parses a stored observation.
func decodeObservation(text string) (plan.Observation, error) {
	var s storedObservation
	err := json.Unmarshal([]byte(text), &s)
	if err != nil || s.Version != format {
		// A newer version may have fields of other types: its number explains the error.
		var head struct {
			Version int `json:"version"`
		}
		if err := json.Unmarshal([]byte(text), &head); err != nil {
			return plan.Observation{}, err
		}
		if head.Version != format {
			return plan.Observation{}, fmt.Errorf("version %d is not supported, only version %d", head.Version, format)
		}
		return plan.Observation{}, err
	}
	o, err := s.observation()
	if err == nil && o.At.IsZero() {
		err = errors.New("it has no time")
	}
	if err != nil {
		return plan.Observation{}, err
	}
	return o, nil
}

// maxIndexes bounds the indexes of all dispatches of one observation together:
// a short text may name a great many.
const maxIndexes = 1 << 24

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
