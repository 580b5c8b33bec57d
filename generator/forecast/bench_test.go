package forecast

import (
	"testing"
	"time"
)

func BenchmarkForecast(b *testing.B) {
	p := learnt(5, steadily)
	now := p.Until.AddDate(0, 0, 2).Add(10*time.Hour + 14*time.Minute)
	b.Run("learn", func(b *testing.B) {
		for b.Loop() {
			p.After(Count{From: p.Until, Jobs: Series{1, 2}}, p.Until.Add(2*time.Minute))
		}
	})
	b.Run("plan", func(b *testing.B) {
		for b.Loop() {
			p.Planned(now, ordinary())
		}
	})
	f := p.Planned(now, ordinary()).For(now, ordinary(), Count{})
	b.Run("at", func(b *testing.B) {
		for b.Loop() {
			f.At(now, 0)
		}
	})
}
