package ledger

import (
	"cmp"
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
	if strings.HasPrefix(text, today) { // as nearly all are: no need to look for the version first
		var s storedObservation
		if err := json.Unmarshal([]byte(text), &s); err == nil && s.Version == format {
			o, err = s.observation()
			return o, false, cmp.Or(err, timed(o))
		}
	}
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
	if err = cmp.Or(err, timed(o)); err != nil {
		return o, false, err
	}
	return o, busyUnknown, nil
}

// today is how an observation begins as [encodeObservation] writes it.
var today = fmt.Sprintf(`{"version":%d,`, format)

// timed returns an error where an observation has no time.
func timed(o plan.Observation) error {
	if o.At.IsZero() {
		return errors.New("it has no time")
	}
	return nil
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
