package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/daybookq/daybook/bench/peers/measure"
)

// table is a header and rows of cells, and sentences below them.
type table struct {
	title string
	head  []string
	rows  [][]string
	notes []string
}

// base is the driver whose results are 1 in the ratios of the tables.
const base = "redis"

// baseWork returns the work of the base with which a work is compared: the same work, or the reference of the block.
func baseWork(b measure.Block, w string) string {
	for _, also := range b.Also[base] {
		return also.Name
	}
	return w
}

func blockTable(r *measure.Report, b measure.Block) table {
	t := table{title: b.Title, head: []string{
		"work", "driver", "jobs/s", "least – most", "× " + base, "p50 ms", "p99 ms", "server µs/job", "load µs/job",
	}}
	if also := b.Also[base]; len(also) > 0 {
		t.title += ", compared with " + base + ": " + also[0].Title
	}
	for _, result := range r.Results {
		if result.Block != b.Name {
			continue
		}
		if len(result.Turns) == 0 {
			t.rows = append(t.rows, []string{result.Work, result.Driver, "failed", "", "", "", "", "", ""})
		}
		if result.Error != "" {
			t.notes = append(t.notes, fmt.Sprintf("%s of %s failed: %s", result.Work, result.Driver, oneLine(result.Error)))
		}
		if len(result.Turns) == 0 {
			continue
		}
		rate := result.Over(measure.TurnResult.Rate)
		row := []string{result.Work, result.Driver, count(rate.Median), count(rate.Min) + " – " + count(rate.Max)}
		row = append(row, ratioToBase(r, b, result))
		p50, p99 := result.Over(func(t measure.TurnResult) float64 { return t.P50 }), result.Over(func(t measure.TurnResult) float64 { return t.P99 })
		if p99.Max == 0 {
			row = append(row, "", "")
		} else {
			row = append(row, short(p50.Median), short(p99.Median))
		}
		row = append(row, short(result.Over(measure.TurnResult.ServerMicros).Median), short(result.Over(measure.TurnResult.LoadMicros).Median))
		t.rows = append(t.rows, row)
	}
	return t
}

func ratioToBase(r *measure.Report, b measure.Block, result *measure.Result) string {
	theirs := r.Find(b.Name, base, baseWork(b, result.Work))
	if theirs == nil || theirs == result {
		return ""
	}
	ratio, ok := measure.Ratio(result, theirs)
	if !ok {
		return ""
	}
	return spread(ratio)
}

func targetTable(r *measure.Report) table {
	t := table{title: "Targets", head: []string{"Daybook over a peer, in jobs/s", "measured", "target", "reached"}}
	for _, o := range r.Targets {
		row := []string{o.Title, "not measured", target(o.Target), ""}
		if o.Measured {
			row[1], row[3] = spread(o.Ratio), "no"
			if o.P99 > 0 {
				row[1] += fmt.Sprintf(", p99 %s ms", short(o.OurP99.Median))
			}
			if o.Met {
				row[3] = "yes"
			}
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func target(t measure.Target) string {
	text := fmt.Sprintf("≥ %s ×", short(t.Least))
	if t.P99 > 0 {
		text += fmt.Sprintf(", p99 ≤ %s ms", short(t.P99))
	}
	return text
}

func driverTable(r *measure.Report) table {
	t := table{title: "What was measured", head: []string{"driver", "system", "client", "on disk before the answer", "syncs a call", "usage"}}
	for _, d := range r.Drivers {
		durable := d.Durable
		if d.Weaker != "" {
			durable += ". **Weaker than Daybook:** " + d.Weaker
		}
		t.rows = append(t.rows, []string{d.Driver, d.System, d.Client, durable, syncs(d), d.Usage})
	}
	for _, m := range r.Missing {
		t.rows = append(t.rows, []string{m.Driver, "not measured: " + oneLine(m.Reason), "", "", "", ""})
	}
	return t
}

// syncs says how often a server synced its files for a call.
func syncs(d measure.Description) string {
	var parts []string
	for _, call := range []string{"create", "claim", "complete"} {
		if n, ok := d.Syncs[call]; ok {
			parts = append(parts, call+" "+short(n))
		}
	}
	return strings.Join(parts, ", ")
}

// Text writes everything for a terminal.
func Text(w io.Writer, r *measure.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", stamp(r))
	for _, d := range r.Drivers {
		fmt.Fprintf(&b, "%s: %s; %s\n    on disk before the answer: %s\n", d.Driver, d.System, d.Client, d.Durable)
		if text := syncs(d); text != "" {
			fmt.Fprintf(&b, "    syncs a call: %s\n", text)
		}
		if d.Weaker != "" {
			fmt.Fprintf(&b, "    WEAKER than Daybook: %s\n", d.Weaker)
		}
	}
	for _, m := range r.Missing {
		fmt.Fprintf(&b, "%s: NOT MEASURED: %s\n", m.Driver, oneLine(m.Reason))
	}
	for _, block := range r.Blocks {
		blockTable(r, block).text(&b)
	}
	targetTable(r).text(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// Markdown returns the tables for the page of documentation.
func Markdown(r *measure.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", stamp(r))
	targetTable(r).markdown(&b)
	for _, block := range r.Blocks {
		blockTable(r, block).markdown(&b)
	}
	driverTable(r).markdown(&b)
	return b.String()
}

func stamp(r *measure.Report) string {
	m := r.Machine
	return fmt.Sprintf("Measured on %s at commit %s: %d rounds, turns of about %s s, payloads of %d bytes. Machine: %s, %d cores, %d GiB, "+
		"Linux %s, %s; appending 128 bytes to a file and syncing it takes %.0f µs. The load average was %.1f before and %.1f after the run.",
		r.Date.Format("2006-01-02"), r.Commit, r.Settings.Rounds, short(r.Settings.TurnSeconds), r.Settings.PayloadBytes,
		m.Processor, m.Cores, m.MemoryGiB, m.Kernel, m.Directory, m.SyncMicros, m.Load[0], m.Load[1])
}

func (t table) text(b *strings.Builder) {
	if len(t.rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n\n", t.title)
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.head}, t.rows...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // a strings.Builder has no errors
	for _, note := range t.notes {
		fmt.Fprintf(b, "\n%s\n", note)
	}
}

func (t table) markdown(b *strings.Builder) {
	if len(t.rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n**%s**\n\n| %s |\n|%s\n", t.title, strings.Join(t.head, " | "), strings.Repeat("---|", len(t.head)))
	for _, row := range t.rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
	for _, note := range t.notes {
		fmt.Fprintf(b, "\n%s\n", note)
	}
}

func spread(s measure.Spread) string {
	if s.Min == s.Max {
		return short(s.Median)
	}
	return fmt.Sprintf("%s (%s – %s)", short(s.Median), short(s.Min), short(s.Max))
}

// count writes a number of jobs with a separator before thousands.
func count(x float64) string {
	digits := fmt.Sprintf("%.0f", x)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// short writes a figure with three digits.
func short(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return trim(fmt.Sprintf("%.1f", x))
	case x >= 1:
		return trim(fmt.Sprintf("%.2f", x))
	}
	return fmt.Sprintf("%.2g", x)
}

func trim(digits string) string { return strings.TrimSuffix(strings.TrimRight(digits, "0"), ".") }

func oneLine(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", "/")
}
