package chart

import (
	"math"
	"time"
)

// timeAxis maps times to an axis.
type timeAxis struct {
	from, to time.Time
	width    float64
	step     time.Duration
}

// labelWidth is the width of a time below the axis.
const labelWidth = 64

// steps are the possible distances of labels.
var steps = []time.Duration{
	time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 7 * day, 14 * day, 28 * day,
}

const day = 24 * time.Hour

func newTimeAxis(from, to time.Time, width float64) timeAxis {
	a := timeAxis{from: from, to: to, width: width}
	if !to.After(from) {
		a.to = from.Add(time.Second)
	}
	most := time.Duration(max(1, math.Floor(width/labelWidth)))
	for _, a.step = range steps {
		if a.to.Sub(a.from) <= most*a.step {
			return a
		}
	}
	for (a.to.Sub(a.from)-1)/most >= a.step { // most*a.step could overflow
		a.step *= 2
	}
	return a
}

// at returns the distance of a time from the left, in pixels.
func (a timeAxis) at(t time.Time) float64 {
	return math.Round(float64(t.Sub(a.from))/float64(a.to.Sub(a.from))*a.width*10) / 10
}

// tick is a label of the axis.
type tick struct {
	at    time.Time
	label string
}

// ticks returns the labels: the time of day, or the day at midnight.
func (a timeAxis) ticks() []tick {
	var all []tick
	midnight := time.Date(a.from.Year(), a.from.Month(), a.from.Day(), 0, 0, 0, 0, a.from.Location())
	for i := time.Duration(0); ; i++ {
		// Days follow the calendar: a day may have 23 hours.
		t := midnight.Add(i * a.step)
		if days := int(a.step / day); days > 0 {
			t = midnight.AddDate(0, 0, int(i)*days)
		}
		if t.After(a.to) {
			return all
		}
		if t.Before(a.from) {
			continue
		}
		label := t.Format("15:04")
		switch {
		case t.Hour() == 0 && t.Minute() == 0 && t.Second() == 0:
			label = t.Format("2 Jan")
		case a.step < time.Minute:
			label = t.Format("15:04:05")
		}
		all = append(all, tick{t, label})
	}
}
