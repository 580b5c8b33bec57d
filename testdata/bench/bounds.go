package bench

// Bound is the largest value of a figure that is acceptable, by the size of the
// repository; "-" if the figure has no size.
type Bound struct {
	Unit string
	Most map[string]float64
}

// sized returns a bound for each size; 0 if the figure is not measured there.
func sized(unit string, small, medium, large float64) Bound {
	most := map[string]float64{}
	for size, value := range map[string]float64{"small": small, "medium": medium, "large": large} {
		if value > 0 {
			most[size] = value
		}
	}
	return Bound{unit, most}
}

func each(most float64, unit string) Bound  { return sized(unit, most, most, most) }
func large(most float64, unit string) Bound { return sized(unit, 0, 0, most) }
func once(most float64, unit string) Bound  { return Bound{unit, map[string]float64{"-": most}} }

// Bounds contains every figure of make bench. A ratio compares two medians of one run, so
// that it depends little on the machine. Bounds on times allow for a machine that is
// several times as slow as a server of today.
var Bounds = map[string]Bound{
	"push of one dispatch":                                      sized("ms", 100, 100, 500),
	"push / raw GET and POST of a ready-made body":              each(1.1, "x"),
	"push / script: kubectl kustomize; git add, commit, push":   each(0.6, "x"),
	"push / script without kubectl kustomize":                   each(0.6, "x"),
	"push: client CPU":                                          each(5, "ms"),
	"push: bytes sent, beside the overlay's other dispatches":   each(2048, "B"),
	"push after a conflict / push":                              sized("x", 2, 2, 1.25),
	"push of 100 dispatches / push of one":                      each(3, "x"),
	"push of 100 dispatches: client CPU":                        each(200, "ms"),
	"push / go-git: shallow clone and worktree in memory":       sized("x", 1.25, 1, 1),
	"push / go-git: whole clone, worktree on disk":              sized("x", 1, 1, 0),
	"idle tick: request to git":                                 each(20, "ms"),
	"idle tick / git ls-remote":                                 each(0.35, "x"),
	"idle tick beside 100,000 pull requests: request to git":    each(20, "ms"),
	"idle tick beside 100,000 pull requests / git ls-remote":    each(0.35, "x"),
	"idle tick beside 100,000 pull requests / go-git":           each(0.1, "x"),
	"start: all reads of git before a first decision":           sized("ms", 100, 100, 500),
	"start / git clone --depth=1 --filter=blob:none --sparse":   each(0.3, "x"),
	"start / go-git: whole clone on disk":                       sized("x", 1, 1, 0),
	"git client: peak memory":                                   each(45, "MB"),
	"git client: memory growth over the pushes":                 each(3, "MB"),
	"server: growth per commit beside all dispatches, loose":    each(512_000, "B"),
	"server: growth per commit beside all dispatches, packed":   each(8192, "B"),
	"requests: idle tick":                                       each(1, ""),
	"requests: push":                                            each(2, ""),
	"requests: push of 100 dispatches":                          each(2, ""),
	"requests: push after a conflict":                           each(4, ""),
	"program: process start to first decision":                  sized("ms", 250, 250, 500),
	"program: first decision without commits of muster's":       sized("ms", 500, 2000, 10_000),
	"program: peak memory without commits of muster's":          each(96, "MB"),
	"program: first decision / git clone, as above":             large(0.3, "x"),
	"program: peak memory":                                      each(45, "MB"),
	"program: bytes sent by the 15th push":                      each(2048, "B"),
	"program: memory growth over the ticks, each with a push":   each(3, "MB"),
	"server: growth per commit of a busy fleet, loose":          each(32_768, "B"),
	"server: growth per order of a busy fleet, packed":          each(1787, "B"), // 1 KiB a commit at 349 commits for 200 orders
	"10,000 live dispatches: bytes sent by one more":            large(2048, "B"),
	"10,000 live dispatches: peak memory":                       large(96, "MB"),
	"no partial clone, 100 MB in 20,000 files: peak memory":     once(96, "MB"),
	"no partial clone, 100 MB in one file: peak memory":         once(96, "MB"),
	"no partial clone, 24 MB, no TMPDIR: peak memory":           once(96, "MB"),
	"history of 100,000 commits: all rows":                      once(5, "s"),
	"history of 100,000 commits: first 40 rows":                 once(0.2, "s"),
	"history of 100,000 commits: HTML report":                   once(10, "s"),
	"verify of 10,000 commits":                                  once(60, "s"),
	"verify of 10,000 commits: peak memory":                     once(256, "MB"),
	"stamping one Job / building its template":                  once(0.1, "x"),
	"decision over 100,000 jobs and 50 overlays":                once(15, "ms"),
	"decision over 100,000 jobs and 50 overlays: allocations":   once(5000, ""),
	"decision over 5,000 queues and 60,000 jobs":                once(400, "ms"),
	"growth exponent of CPU time over 50, 500 and 5,000 queues": once(1.3, ""),
	"growth exponent of CPU time over 20 to 2,000 overlays":     once(1.3, ""),
	"decision over 2,000 overlays, 2,000 combinations of tags":  once(5, "s"),
	"decision over 300 rule sets and 450 idle agents":           once(100, "ms"),
	"decision over 20 overlays of max 1,000, 1,000 rule sets":   once(100, "ms"),
	"tick over 10,000 builds / decoding them: CPU":              once(2, "x"),
	"metrics: a scrape of 50 overlays":                          once(5, "ms"),
	"metrics: CPU that the endpoint adds to an idle tick":       once(1, "ms"),
}
