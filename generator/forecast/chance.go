package forecast

// arrivals are how many jobs come in a stretch of time: mean on average, in batches of size
// batch, of which the number is Poisson's. Below 1 a batch says that they come more
// evenly than chance has it. Each product is rounded before it is added to, so that
// no machine joins the two in one step and comes to another result.
type arrivals struct {
	mean, batch float64
	// least is, for each number of batches, the probability that at least as many come, and
	// sum what these come to from one batch on.
	least, sum []float64
}

const (
	// mostBatches bounds the work: with more batches they are taken together.
	mostBatches = 400
	// rare is a probability below which nothing is worth an agent.
	rare = 0.001
)

// newArrivals works the probabilities out.
func newArrivals(mean, batch float64) arrivals {
	if mean > mostBatches*batch {
		batch = mean / mostBatches
	}
	a := arrivals{mean: mean, batch: batch, least: []float64{1}, sum: []float64{0}}
	x := mean / batch
	p := power(x) // of exactly j batches
	left := 1.0   // of at least j
	for j := 1; ; j++ {
		left -= p
		if left < rare || j > 2*mostBatches {
			return a
		}
		a.least = append(a.least, left)
		a.sum = append(a.sum, a.sum[j-1]+left)
		p = float64(p * x / float64(j))
	}
}

// power is e to the power of -x, for x from zero on.
func power(x float64) float64 {
	halvings := 0
	for x > 0.5 {
		x /= 2
		halvings++
	}
	sum, term := 1.0, 1.0
	for i := 1; i < 20; i++ {
		term = float64(term * x / float64(i))
		sum += term
	}
	y := 1 / sum
	for range halvings {
		y = float64(y * y)
	}
	return y
}

// keep is the largest number of agents of which the last is needed with so many thousandths
// of probability at least.
func (a arrivals) keep(worth int) int {
	theta := float64(worth) / 1000
	j := len(a.least) - 1
	for j > 0 && a.least[j] < theta {
		j--
	}
	if j == 0 {
		return 0
	}
	n := float64(j)
	if j+1 < len(a.least) && a.batch > 1 {
		n += (a.least[j] - theta) / (a.least[j] - a.least[j+1])
	}
	return max(int(float64(n*a.batch)+1e-6), 1)
}

// serve is how many of the jobs find one of n agents, on average.
func (a arrivals) serve(n int) float64 {
	batches := float64(n) / a.batch
	j := min(int(batches), len(a.sum)-1)
	served := a.sum[j]
	if rest := batches - float64(j); j+1 < len(a.least) {
		served += float64(min(rest, 1) * a.least[j+1])
	}
	return min(float64(served*a.batch), a.mean, float64(n))
}
