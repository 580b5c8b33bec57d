package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/cmd/page"
	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/report"
	"muster/gitops/branch"

	"github.com/spf13/cobra"
)

// reportFlags contains the flags of muster report.
type reportFlags struct {
	settings     *settings
	since, until string
	compare      string
	out, output  string
	price        string
}

// longestReport is the maximum period of a report.
const longestReport = 366 * 24 * time.Hour

func (p program) reportCommand() *cobra.Command {
	r := &reportFlags{settings: &settings{program: p, git: invocation.Repository{Program: p.Program}}}
	git := &r.settings.git
	c := &cobra.Command{
		Use:   "report [OVERLAY...]",
		Short: "Write a report of orders, waits and cost, from git alone",
		Long: `report writes one self-contained HTML file, from commits alone: it needs no
Buildkite token, and no flags in a clone of the repository. It begins with jobs,
waits, agents, pod-hours and cost, each with its change from the period before.
Overlays, charts, outliers and what people changed follow. -o md writes the
figures as Markdown, to paste as a weekly digest. Times are in UTC. muster
history lists all decisions.

A figure that commits do not determine has its bounds after it, as in 9.1 (8.7
to 9.5); the report states each method.

--since, --until and --compare take a time, as in 2026-11-21T02:15Z or
2026-11-21, or a duration ago, as in 90m, 24h or 7d.`,
		Example: `  muster report --price "0.04 EUR" --out report.html
  muster report default --since 24h --compare 8d -o md`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: git.Completion(invocation.Unlimited, func(o invocation.CloneNames) []string { return o.Overlays }),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args) },
	}
	git.AddReading(c)
	r.settings.git.AddLog(c)
	f := c.Flags()
	f.StringVar(&r.since, "since", "7d", "start of the report: a time or an age, such as 24h or 7d")
	f.StringVar(&r.until, "until", "", "end of the report: a time or an age (default now)")
	f.StringVar(&r.compare, "compare", "", "start of the period to compare with, of equal length (default the period before)")
	f.StringVarP(&r.output, "output", "o", "html", "html or md")
	f.StringVar(&r.out, "out", "", "output file (default standard output)")
	f.StringVar(&r.price, "price", "", "price of a pod-hour, as in 0.04 or \"0.04 EUR\" (default none: costs are omitted)")
	invocation.OneOf(c, "output", "html", "md")
	return c
}

// currencyRule matches a word or a currency sign.
var currencyRule = regexp.MustCompile(`^[\p{L}\p{Sc}]{0,12}$`)

// parsePrice parses a price with or without its currency. An empty text returns the zero value.
func parsePrice(text string) (report.Price, error) {
	if text == "" {
		return report.Price{}, nil
	}
	number, currency, _ := strings.Cut(text, " ")
	v, err := invocation.ReadNumber(number, 0, math.MaxFloat64)
	if err != nil || !currencyRule.MatchString(currency) {
		return report.Price{}, output.Usage(fmt.Errorf("--price: must be a non-negative number, with or without a currency, as in 0.04 or \"0.04 EUR\", got %q", text))
	}
	return report.Price{PerHour: v, Currency: currency}, nil
}

// config validates the flags.
func (r *reportFlags) config(args []string) (report.Config, error) {
	now := r.settings.program.Clock.Now()
	c := report.Config{Overlays: r.settings.git.Overlays, Names: namesOf(args, r.settings.git.Overlays), Now: now}
	var err error
	if c.From, err = invocation.Moment("since", r.since, now); err != nil {
		return c, err
	}
	if c.To, err = invocation.Moment("until", r.until, now); err != nil {
		return c, err
	}
	if c.Compare, err = invocation.Moment("compare", r.compare, now); err != nil {
		return c, err
	}
	end := cmp.Or(c.To, now)
	switch {
	case r.output != "html" && r.output != "md":
		return c, output.Usage(fmt.Errorf("--output %q: use html or md", r.output))
	case c.From.IsZero():
		return c, output.Usage(errors.New("--since is empty: give the start of the report"))
	case !c.From.Before(end):
		return c, output.Usage(fmt.Errorf("--until %s: must be after --since, which is %s", end.Format(time.RFC3339), c.From.Format(time.RFC3339)))
	case end.Sub(c.From) > longestReport:
		return c, output.Usage(errors.New("--since is more than 366 days before --until: a report covers at most a year"))
	case !c.Compare.Before(c.From):
		return c, output.Usage(fmt.Errorf("--compare %s: must be before --since, which is %s", c.Compare.Format(time.RFC3339), c.From.Format(time.RFC3339)))
	}
	return c, nil
}

func (r *reportFlags) run(ctx context.Context, args []string) error {
	c, err := r.config(args)
	if err != nil {
		return err
	}
	price, err := parsePrice(r.price)
	if err != nil {
		return err
	}
	repository, err := r.settings.git.Open(ctx, invocation.Nearest)
	if err != nil {
		return err
	}
	look := history.Config{Overlays: c.Overlays}.Selection()
	c.Edits = func(commits []branch.Commit, trees map[string]string) ([]branch.Edits, error) {
		return repository.Edits(ctx, commits, trees, look)
	}
	progress := r.settings.program.Progress
	progress.Doing("reading the history")
	defer progress.Done()
	made, err := c.Read(ledger.Read(c.Overlays, invocation.ReadingAhead{Repository: repository}.Commits(ctx, "", branch.Limit{})))
	if err != nil {
		return err
	}
	if err := overlaysWithin(c.Names, made.Names); err != nil {
		return err
	}
	progress.Done()
	return r.write(made, price)
}

// write writes the report to the destination that the flags select.
func (r *reportFlags) write(made report.Report, price report.Price) error {
	p := r.settings.program
	var text bytes.Buffer
	if r.output == "md" {
		_, _ = io.WriteString(&output.Printable{To: &text}, made.Markdown(price)) // into memory
	} else if err := page.WriteReport(&text, made, price, r.settings.git.Shown); err != nil {
		return err
	}
	if r.out == "" {
		_, err := p.Output().Raw.Write(text.Bytes())
		return err
	}
	if err := p.WriteFile(r.out, text.Bytes()); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	p.PrintMessage("wrote %s, %d KB", r.out, (text.Len()+1023)/1024)
	return nil
}
