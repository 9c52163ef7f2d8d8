package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// The program leaves out colours that the terminal does not support, and all colours with NO_COLOR.
var (
	bold        = lipgloss.NewStyle().Bold(true)
	faint       = lipgloss.NewStyle().Faint(true)
	reverse     = lipgloss.NewStyle().Reverse(true)
	red         = lipgloss.NewStyle().Foreground(lipgloss.Red)
	yellow      = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	minQueueCol = 12
)

// column is a column, by which queues can be sorted.
type column struct {
	key, title string
	width      int
	isRate     bool
	rank       int                     // a narrow terminal drops the columns with the highest ranks first
	ofQueue    func(*queueRow) float64 // nil: the column with the name
}

func countColumn(key, title string, rank int) column {
	return column{key, title, 6, false, rank, func(r *queueRow) float64 { return float64(r.Counts[key]) }}
}

var allColumns = []column{
	{key: "name"},
	countColumn("pending", "PEND", 1),
	countColumn("active", "ACTIVE", 1),
	countColumn("failed", "FAILED", 1),
	{"oldest", "OLDEST", 7, false, 2, func(r *queueRow) float64 {
		if r.OldestPendingAgeMs == nil {
			return -1
		}
		return float64(*r.OldestPendingAgeMs)
	}},
	{"created/s", "NEW/s", 6, true, 4, func(r *queueRow) float64 { return r.created }},
	{"completed/s", "DONE/s", 6, true, 3, func(r *queueRow) float64 { return r.completed }},
	{"failed/s", "FAIL/s", 6, true, 5, func(r *queueRow) float64 { return r.failed }},
	countColumn("deferred", "DEFER", 6),
	countColumn("completed", "DONE", 7),
	countColumn("cancelled", "CANCEL", 8),
}

const maxRank = 8

// SortKeys returns the names of the columns by which queues can be sorted; the first is the default.
func SortKeys() []string {
	keys := make([]string, len(allColumns))
	for i, c := range allColumns {
		keys[i] = c.key
	}
	return keys
}

// text returns the cell of a queue.
func (c *column) text(r *queueRow) string {
	v := c.ofQueue(r)
	switch {
	case v < 0:
		return "-"
	case c.key == "oldest":
		return shortAge(time.Duration(v) * time.Millisecond)
	case c.isRate:
		return shortRate(v)
	}
	return shortCount(int64(v))
}

// shortCount returns a number in at most 5 characters, such as 98765 or 1.23M.
func shortCount(n int64) string {
	if n < 100_000 {
		return fmt.Sprint(n)
	}
	v, unit := float64(n)/1000, 0
	for v >= 999.5 && unit < len(countUnits)-1 {
		v, unit = v/1000, unit+1
	}
	digits := 0
	switch {
	case v < 9.995:
		digits = 2
	case v < 99.95:
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + countUnits[unit:unit+1]
}

const countUnits = "kMGTP"

// shortRate returns a number per second in at most 5 characters.
func shortRate(v float64) string {
	if v > 0 && v < 99.95 {
		return fmt.Sprintf("%.1f", v)
	}
	return shortCount(int64(v + 0.5))
}

// shortAge returns a duration in at most 6 characters.
func shortAge(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// header returns the lines about the server, without styles.
func (m *model) header() []string {
	if len(m.snaps) == 0 {
		return []string{"daybook " + m.address}
	}
	s := &m.snaps[len(m.snaps)-1]
	state := "ready"
	if !s.stats.Ready {
		state = "not ready: " + s.stats.Reason
	}
	if s.stats.Stopped {
		state += ", stopped: no jobs are handed out"
	}
	if s.stats.DiskLow {
		state += ", the disk is almost full: creates are refused"
	}
	var jobs []string
	for _, status := range job.Statuses {
		jobs = append(jobs, fmt.Sprintf("%s %s", status, shortCount(s.stats.Jobs[status.String()])))
	}
	created, completed, failed := m.totals()
	return []string{
		fmt.Sprintf("daybook %s  %s  %s  %s", s.version.Version, m.address, s.at.Format(time.TimeOnly), state),
		"jobs: " + strings.Join(jobs, ", "),
		fmt.Sprintf("per second: created %s, completed %s, failed %s; runners alive %d; parked claims %d; queues %d", created, completed, failed,
			s.stats.Runners.Alive, s.stats.Parked, s.stats.Queues),
		fmt.Sprintf("watermarks: appended %d, synced %d, applied %d, flushed %d; lag %d commands, %s", s.stats.Appended, s.stats.Synced, s.stats.Applied,
			s.stats.Flushed, s.stats.LagCommands, terminal.SizeText(s.stats.LagBytes)),
		fmt.Sprintf("disk free %s; fsync p99 %.2f ms; journal %s; store %s", terminal.SizeText(int64(s.stats.DiskFree)), float64(s.stats.Journal.SyncP99Us)/1000,
			terminal.SizeText(s.stats.Journal.Bytes), terminal.SizeText(int64(s.stats.Store.Bytes))),
	}
}

// totals returns the rates of all queues, also of queues that were not read.
func (m *model) totals() (created, completed, failed string) {
	first, last := &m.snaps[0], &m.snaps[len(m.snaps)-1]
	seconds := last.at.Sub(first.at).Seconds()
	if len(m.snaps) < 2 || seconds <= 0 {
		return "-", "-", "-"
	}
	a, b, c := ratesOf(first.stats.Jobs, last.stats.Jobs, seconds)
	return shortRate(a), shortRate(b), shortRate(c)
}

// heads is how many lines of the header are shown. A low terminal shows only some.
func (m *model) heads() int { return min(5, max(m.height-7, 1)) }

// body is how many rows fit between the titles at the top and the line with keys.
func (m *model) body() int { return max(m.height-m.heads()-3, 1) }

func (m *model) View() tea.View {
	lines := m.lines()
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, m.width, "")
	}
	v := tea.NewView(strings.Join(lines[:min(len(lines), m.height)], "\n"))
	v.AltScreen = true
	v.WindowTitle = "daybook top"
	return v
}

// lines returns the screen. They may be longer than the screen is wide.
func (m *model) lines() []string {
	if m.shown == helpPage {
		return m.help()
	}
	lines := m.header()
	for i := range lines {
		lines[i] = terminal.PlainCell(lines[i])
	}
	lines[0] = bold.Render(lines[0])
	lines = lines[:min(len(lines), m.heads())]
	for len(lines) < m.heads() {
		lines = append(lines, "")
	}
	lines = append(lines, m.message())
	if m.shown == failedPage {
		lines = append(lines, m.failedLines()...)
	} else {
		lines = append(lines, m.queueLines()...)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return append(lines[:max(m.height-1, 0)], faint.Render(m.keys()))
}

// message returns the line with the most urgent message.
func (m *model) message() string {
	switch {
	case m.shown == confirmPage:
		change := "pause"
		if m.asked.Paused {
			change = "resume"
		}
		return yellow.Render(fmt.Sprintf("%s %s? [y/N] ", change, m.asked.name))
	case m.typing:
		return "/" + m.filter + "_"
	case m.lost != nil:
		return red.Render(fmt.Sprintf("no figures for %s, trying again: %s", shortAge(m.now().Sub(m.lostAt).Truncate(time.Second)), terminal.PlainCell(m.lost.Error())))
	case m.note != "":
		return yellow.Render(terminal.PlainCell(m.note))
	case len(m.snaps) == 0:
		return "reading the figures of the server …"
	case m.shown == queuesPage && m.filter != "":
		return fmt.Sprintf("queues with %q; Esc shows all", m.filter)
	case m.snaps[len(m.snaps)-1].more:
		return yellow.Render(fmt.Sprintf("only the first %d queues are shown", maxQueues))
	}
	return ""
}

func (m *model) keys() string {
	switch {
	case m.typing:
		return "Enter: done  Esc: show all"
	case m.shown == confirmPage:
		return "y: yes  any other key: no"
	case m.shown == failedPage:
		return "q quit  Esc back  Space refresh"
	}
	return "q quit  ? help  s sort (" + allColumns[m.sort].key + ")  r reverse  / filter  p pause  Enter failed jobs"
}

// columns returns the columns that fit, and the width of the column with the names.
func (m *model) columns() (list []column, nameWidth int) {
	for rank := maxRank; ; rank-- {
		list, nameWidth = nil, m.width
		for _, c := range allColumns {
			if c.ofQueue != nil && c.rank <= rank {
				list = append(list, c)
				nameWidth -= c.width + 1
			}
		}
		if nameWidth >= minQueueCol || rank == 1 {
			return list, max(nameWidth, 1)
		}
	}
}

func (m *model) queueLines() []string {
	columns, width := m.columns()
	// The title of the column by which the queues are sorted is highlighted.
	title := func(c *column, width int, right bool) string {
		text := padded(c.title, width, right)
		if c.key != allColumns[m.sort].key {
			return bold.Render(text)
		}
		return reverse.Render(text)
	}
	line := title(&column{key: allColumns[0].key, title: "QUEUE"}, width, false)
	for _, c := range columns {
		line += " " + title(&c, c.width, true)
	}
	lines := []string{line}
	rows := m.rows()
	place := m.place(rows)
	n := m.body()
	m.top = max(min(m.top, place, len(rows)-n), place-n+1, 0)
	for i := m.top; i < min(len(rows), m.top+n); i++ {
		r := &rows[i]
		text := r.name
		if r.Paused {
			text += " (paused)"
		}
		line := padded(text, width, false)
		for _, c := range columns {
			line += " " + padded(c.text(r), c.width, true)
		}
		switch {
		case i == place:
			line = reverse.Render(line)
		case r.Paused:
			line = yellow.Render(line)
		case r.failed > 0:
			line = red.Render(line)
		}
		lines = append(lines, line)
	}
	if len(rows) == 0 && len(m.snaps) > 0 {
		lines = append(lines, "no queues")
	}
	return lines
}

// padded returns a text with exactly this width.
func padded(text string, width int, right bool) string {
	text = ansi.Truncate(text, width, "…")
	space := strings.Repeat(" ", max(width-ansi.StringWidth(text), 0))
	if right {
		return space + text
	}
	return text + space
}

func (m *model) failedLines() []string {
	head := fmt.Sprintf("failed jobs of %s, the newest first", m.failedOf)
	switch {
	case m.loading && m.failed == nil:
		return []string{bold.Render(head), "reading …"}
	case len(m.failed) == 0:
		return []string{bold.Render(head), "none"}
	}
	lines := []string{bold.Render(head)}
	m.top = max(min(m.top, len(m.failed)-m.body()), 0)
	for _, j := range m.failed[m.top:min(len(m.failed), m.top+m.body())] {
		reason := j.Error
		if reason == "" {
			reason = j.Why
		}
		lines = append(lines, fmt.Sprintf("%s %s %s", j.ID, time.UnixMilli(j.CompletedAt).Format("01-02 15:04:05"), terminal.PlainCell(reason)))
	}
	return lines
}

func (m *model) help() []string {
	return strings.Split(`keys of daybook top

up, down, j, k   select a queue
PgUp, PgDn       one page
Home, End        first, last
s, r             sort by the next column, reverse
/                only queues with a text
Esc              all queues
p                pause or resume the queue
Enter            its newest failed jobs
Space            refresh now
q, Ctrl-C        end

PEND pending, DEFER deferred, DONE completed.
NEW/s, DONE/s, FAIL/s: created, completed and
failed per second. OLDEST: how long the next
pending job has been waiting.

any key: back`, "\n")
}
