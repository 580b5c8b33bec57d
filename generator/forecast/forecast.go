package forecast

import "time"

// Aim is what the forecast is for.
type Aim struct {
	// Wait is what Share of the jobs, 0 to 1, may wait at most.
	Wait  time.Duration
	Share float64
	// IdleHours are the hours that agents may wait for jobs in a day, all together.
	IdleHours int
	// Lead is how long it takes from jobs' coming to agents that were dispatched for them.
	Lead time.Duration
}

// Forecast says how many agents to keep idle at a time, and why.
type Forecast struct {
	// From and To are the five minutes that it is about.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Keep is how many agents: Jobs are expected on average while agents could come, which
	// is Window.
	Keep   int     `json:"keep"`
	Jobs   float64 `json:"jobs"`
	Window string  `json:"window"`
	// Free are agents that stay and become free in that time; they are not kept beside.
	Free int `json:"free,omitempty"`
	// Days of this kind, workday or weekend, were seen.
	Days int `json:"days"`
	// Worth is the probability with which the last agent that is kept has to be needed, on
	// the whole day; Share of an average day's jobs find one then, and agents wait for
	// IdleHours today, of which some may be over.
	Worth     float64 `json:"worth"`
	Share     float64 `json:"share"`
	IdleHours float64 `json:"idleHours"`
	// Spent says that agents have waited for as long as they may today: none are kept.
	Spent bool `json:"spent,omitempty"`
}

// Forecaster forecasts one day. The zero value keeps nothing.
type Forecaster struct {
	profile  Profile
	window   time.Duration
	spent    bool // today's idle hours
	coming   int  // jobs of the minute under way
	chances  map[[2]int]arrivals
	midnight time.Time
	first    int // of the minutes that were read, counted from midnight
	minutes  []minute
}

// minute is what is expected of one.
type minute struct {
	// jobs are thousandths that come. Base of them come in the minutes around it just as
	// well, and the others are a pulse: they come at once.
	jobs, base int
	// batch is a hundredth of how many come at once, as far as it is not known when.
	batch int
}

// around is how many minutes before and after one are looked at for what is usual there.
const around = 15

// For forecasts the day that now is in. c has the jobs of the minute under way too.
func (p Profile) For(now time.Time, aim Aim, c Count) *Forecaster {
	now = now.UTC()
	return &Forecaster{
		profile: p, window: max(aim.Lead-aim.Wait, 0), spent: p.idleHours() >= float64(aim.IdleHours), chances: map[[2]int]arrivals{},
		coming:   c.Jobs.at(int(now.Truncate(time.Minute).Sub(c.From.UTC().Truncate(time.Minute)) / time.Minute)),
		midnight: time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC),
	}
}

// read works out what is expected of the minutes from one of the day to before another, and
// of those that agents could come in until then.
func (f *Forecaster) read(from, to int) {
	p := &f.profile
	from = from/slotMinutes*slotMinutes - slotMinutes
	to += int(f.window/time.Minute) + 2
	all := make([]int, to-from+2*around)
	for i := range all {
		all[i] = p.expected(f.midnight.Add(time.Duration(from-around+i) * time.Minute))
	}
	f.first, f.minutes = from, make([]minute, to-from)
	var usual middle
	for i := range f.minutes {
		jobs := all[i+around]
		if i%slotMinutes == 0 {
			usual.find(all[i:min(len(all), i+slotMinutes+2*around)])
		}
		m := minute{jobs: jobs, base: jobs}
		if jobs > 2*usual.is+500 {
			m.base = usual.is
		}
		const one = 10 // job, in tenths
		at := ((from+i)%hourMinutes + hourMinutes) % hourMinutes
		m.batch = min(max(100*(p.Spread.at(at)+one)/(p.Minutes.at(at)+one), 10), 100_000)
		f.minutes[i] = m
	}
}

// at is minute i of the day, one of those that were read.
func (f *Forecaster) at(i int) minute {
	if i -= f.first; i >= 0 && i < len(f.minutes) {
		return f.minutes[i]
	}
	return minute{}
}

// stretch is what is expected while agents could come, from a second of the day on.
type stretch struct {
	jobs  int // thousandths
	pulse int // of them, those that come at once
	later int // of pulse, those of the minutes that follow
	batch int // hundredths
}

// from adds up the minutes of a stretch. What comes at once counts as soon as its minute is
// reached.
func (f *Forecaster) from(second int) stretch {
	var s stretch
	weighed := 0
	end := second + int(f.window/time.Second)
	for i := second / 60; i*60 < end; i++ {
		m := f.at(i)
		part := min(end, (i+1)*60) - max(second, i*60)
		base, pulse := m.base*part/60, m.jobs-m.base
		s.jobs += base + pulse
		s.pulse += pulse
		if i > second/60 {
			s.later += pulse
		}
		weighed += (base + pulse) * m.batch
	}
	if s.jobs > 0 {
		s.batch = weighed / s.jobs
	}
	return s
}

// chance is the distribution of so many thousandths of jobs in batches of hundredths, both
// rounded to two digits, so that few have to be worked out.
func (f *Forecaster) chance(jobs, batch int) arrivals {
	key := [2]int{twoDigits(jobs), twoDigits(batch)}
	a, known := f.chances[key]
	if !known {
		a = newArrivals(float64(key[0])/1000, float64(max(key[1], 1))/100)
		f.chances[key] = a
	}
	return a
}

// twoDigits rounds a number down to its first two digits.
func twoDigits(n int) int {
	unit := 1
	for n/unit >= 100 {
		unit *= 10
	}
	return n / unit * unit
}
