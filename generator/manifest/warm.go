package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"muster/generator/forecast"
	"muster/generator/plan"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// The bounds of what warm says.
const (
	leastWarmWait, mostWarmWait   = time.Second, time.Hour
	leastWarmShare, mostWarmShare = 0.01, 0.999
	leastWarmIdleHours            = 1
)

// warmFields are the fields of warm, in the order of the documentation.
var warmFields = []string{"wait", "share", "idleHours"}

// warmType is what the field takes, as documents say it.
func warmType() string {
	return fmt.Sprintf("map: `wait` (duration, %s to %s), `share` (%v to %v) and `idleHours` (number, %d to %d), or none of them",
		brief(leastWarmWait), brief(mostWarmWait), leastWarmShare, mostWarmShare, leastWarmIdleHours, mostAgents)
}

// warm reads what the forecast is for. An empty mapping says that there is none, as no
// field does.
func (r *policyReader) warm(n *yaml.Node) {
	const form = "write all three, as in {wait: 10s, share: 0.95, idleHours: 40}"
	if !r.all(n, "warm", warmFields, form) {
		return
	}
	before := len(r.findings)
	said := plan.Warm{
		Wait:      r.span(lookup(n, "wait"), "warm.wait", leastWarmWait, mostWarmWait),
		Share:     r.warmShare(lookup(n, "share")),
		IdleHours: r.count(lookup(n, "idleHours"), "warm.idleHours", leastWarmIdleHours),
	}
	if len(r.findings) == before {
		r.policy.Warm = said
	}
}

// warmShare reads the share of the jobs.
func (r *policyReader) warmShare(n *yaml.Node) float64 {
	share, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!float" || err != nil || !(share >= leastWarmShare && share <= mostWarmShare) {
		r.bad(n, "spec.warm.share", shown(n)+" is not a share", fmt.Sprintf("use a number from %v to %v, as in 0.95", leastWarmShare, mostWarmShare))
	}
	return share
}

// warmShape has the fields of warm, as warmFields lists them.
func warmShape() keywords {
	wait, hours := spanShape(leastWarmWait, mostWarmWait), countShape(leastWarmIdleHours)
	wait["description"] = "what the share of the jobs may wait at most"
	hours["description"] = "hours that agents may wait for jobs in a day, all together"
	return keywords{
		"type": "object", "additionalProperties": false,
		"dependencies": keywords{"wait": []string{"share", "idleHours"}, "share": []string{"wait", "idleHours"}, "idleHours": []string{"wait", "share"}},
		"properties": keywords{
			"wait":      wait,
			"share":     keywords{"type": "number", "minimum": leastWarmShare, "maximum": mostWarmShare, "description": "share of the jobs that find an agent in that time, as far as idleHours reach"},
			"idleHours": hours,
		},
	}
}

// warmState is what state.yaml says of when jobs come; see [forecast.Profile].
type warmState struct {
	Until       time.Time       `json:"until"`
	Workdays    int             `json:"workdays,omitempty"`
	WeekendDays int             `json:"weekendDays,omitempty"`
	Workday     forecast.Series `json:"workday,omitempty"`
	Weekend     forecast.Series `json:"weekend,omitempty"`
	Weekdays    forecast.Series `json:"weekdays,omitempty"`
	Minutes     forecast.Series `json:"minutes,omitempty"`
	Spread      forecast.Series `json:"spread,omitempty"`
	Lately      forecast.Series `json:"lately,omitempty"`
	Jobs        int             `json:"jobs,omitempty"`
	Expected    int             `json:"expected,omitempty"`
	Slot        forecast.Series `json:"slot,omitempty"`
	Day         forecast.Series `json:"day,omitempty"`
	Idle        int             `json:"idle,omitempty"`
	Plan        *warmPlan       `json:"plan,omitempty"`
}

type warmPlan struct {
	Hour      time.Time `json:"hour"`
	Worth     int       `json:"worth,omitempty"`
	Share     int       `json:"share,omitempty"`
	IdleHours int       `json:"idleHours,omitempty"`
}

// learned is what state.yaml is to say of a profile; nil where nothing was learned.
func learned(p forecast.Profile) *warmState {
	if p.IsZero() {
		return nil
	}
	s := &warmState{
		Until: p.Until, Workdays: p.Workdays, WeekendDays: p.WeekendDays, Workday: p.Workday, Weekend: p.Weekend,
		Weekdays: p.Weekdays, Minutes: p.Minutes, Spread: p.Spread, Lately: p.Lately, Jobs: p.Jobs, Expected: p.Expected,
		Slot: forecast.Series{p.Slot.Minutes, p.Slot.Jobs, p.Slot.Expected}, Day: forecast.Series{p.Day.Minutes, p.Day.Jobs, p.Day.Expected}, Idle: p.Idle,
	}
	if !p.Plan.Hour.IsZero() {
		plan := warmPlan(p.Plan)
		s.Plan = &plan
	}
	return s
}

var errLearned = errors.New("what it has learned of when jobs come cannot be")

// profile is the reverse of learned.
func (s *warmState) profile() (forecast.Profile, error) {
	if s == nil {
		return forecast.Profile{}, nil
	}
	p := forecast.Profile{
		Until: s.Until, Workdays: s.Workdays, WeekendDays: s.WeekendDays, Workday: s.Workday, Weekend: s.Weekend,
		Weekdays: s.Weekdays, Minutes: s.Minutes, Spread: s.Spread, Lately: s.Lately, Jobs: s.Jobs, Expected: s.Expected,
		Slot: part(s.Slot), Day: part(s.Day), Idle: s.Idle,
	}
	if s.Plan != nil {
		p.Plan = forecast.Plan(*s.Plan)
	}
	if len(s.Slot) > 3 || len(s.Day) > 3 || !p.Valid() {
		return forecast.Profile{}, errLearned
	}
	return p, nil
}

func part(s forecast.Series) forecast.Part {
	s = append(slices.Clone(s), 0, 0, 0)
	return forecast.Part{Minutes: s[0], Jobs: s[1], Expected: s[2]}
}
