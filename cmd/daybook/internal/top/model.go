package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// rateWindow is over how many refreshes rates are measured.
const rateWindow = 5

// model is the state of `daybook top`. Keys and time change it.
type model struct {
	source  source
	every   time.Duration
	address string
	now     func() time.Time

	width, height int
	snaps         []snapshot // the newest rateWindow, the oldest first
	lost          error      // the error of the last read; nil if it succeeded
	lostAt        time.Time  // of the first read that failed since
	reading       bool
	waits         int // the number of the last wait for a refresh

	list     []queueRow // the result of rows, unless it is stale
	stale    bool
	sort     int // of allColumns
	reversed bool
	filter   string
	typing   bool             // the filter is being typed
	selected config.QueueName // the zero value: the first queue
	top      int              // the first row on the screen
	shown    page
	note     string // the outcome of the last key
	failed   []*client.Job
	failedOf config.QueueName
	asked    queueRow // the queue of the question, as it was at that time
	loading  bool
}

// page is the page that the screen shows.
type page int

const (
	queuesPage page = iota
	helpPage
	confirmPage // the question whether to pause or resume a queue
	failedPage
)

// Messages.
type (
	tickMsg   int // the number of the wait
	pausedMsg struct {
		queue  config.QueueName
		paused bool
		err    error
	}
	failedMsg struct {
		queue config.QueueName
		jobs  []*client.Job
		err   error
	}
)

func newModel(source source, sort int, every time.Duration, address string) *model {
	return &model{source: source, sort: sort, every: every, address: address, now: time.Now, width: terminal.DefaultWidth, height: 24}
}

func (m *model) Init() tea.Cmd { return m.refresh() }

// refresh reads the figures, unless they are being read.
func (m *model) refresh() tea.Cmd {
	if m.reading {
		return nil
	}
	m.reading = true
	return func() tea.Msg { return m.source.read() }
}

// wait schedules the next refresh. It cancels an earlier wait.
func (m *model) wait() tea.Cmd {
	m.waits++
	number := tickMsg(m.waits)
	return tea.Tick(m.every, func(time.Time) tea.Msg { return number })
}

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 1), max(msg.Height, 1)
	case snapshot:
		m.reading = false
		m.add(msg)
		return m, m.wait()
	case tickMsg:
		if int(msg) == m.waits {
			return m, m.refresh()
		}
	case pausedMsg:
		switch {
		case msg.err != nil:
			m.note = msg.queue.String() + ": " + msg.err.Error()
		case msg.paused:
			m.note = msg.queue.String() + " is paused"
		default:
			m.note = msg.queue.String() + " is not paused"
		}
		return m, m.refresh()
	case failedMsg:
		if m.shown == failedPage && msg.queue == m.failedOf {
			if m.failed, m.loading = msg.jobs, false; msg.err != nil {
				m.note = msg.err.Error()
			}
		}
	case tea.PasteMsg:
		if m.typing {
			m.filter, m.stale = m.filter+onLine(msg.Content), true
		}
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// onLine returns a text without control characters.
func onLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
}

// add adds the figures of a read.
func (m *model) add(s snapshot) {
	if s.err != nil {
		if m.lost == nil {
			m.lostAt = m.now()
		}
		m.lost = s.err
		return
	}
	m.lost, m.stale = nil, true
	// Rates are measured within one server: the counts of another journal cannot be compared.
	if n := len(m.snaps); n > 0 && m.snaps[n-1].stats.Journal.UUID != s.stats.Journal.UUID {
		m.snaps = nil
	}
	if m.snaps = append(m.snaps, s); len(m.snaps) > rateWindow {
		m.snaps = slices.Delete(m.snaps, 0, 1)
	}
}

func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	if name == "ctrl+c" {
		return tea.Quit
	}
	m.stale = m.stale || m.typing || slices.Contains([]string{"esc", "s", "r"}, name)
	if m.typing {
		m.typeFilter(k)
		return nil
	}
	m.note = ""
	switch m.shown {
	case helpPage:
		m.shown = queuesPage
		if name == "q" {
			return tea.Quit
		}
		return nil
	case confirmPage:
		return m.confirm(name)
	case failedPage:
		return m.failedKey(name)
	}
	switch name {
	case "q":
		return tea.Quit
	case "?", "h":
		m.shown = helpPage
	case "/":
		m.typing = true
	case "esc":
		m.filter = ""
	case "s":
		m.sort = (m.sort + 1) % len(allColumns)
	case "r":
		m.reversed = !m.reversed
	case "space":
		return m.refresh()
	case "p":
		if row, ok := m.current(); ok {
			m.shown, m.asked = confirmPage, row
		}
	case "enter":
		if row, ok := m.current(); ok {
			m.shown, m.failedOf, m.failed, m.loading, m.top = failedPage, row.queue, nil, true, 0
			return m.readFailed()
		}
	default:
		m.move(name)
	}
	return nil
}

func (m *model) readFailed() tea.Cmd {
	q := m.failedOf
	return func() tea.Msg {
		jobs, err := m.source.failed(q)
		return failedMsg{q, jobs, err}
	}
}

// typeFilter handles a key while the filter is typed.
func (m *model) typeFilter(k tea.KeyPressMsg) {
	switch k.String() {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		if text := []rune(m.filter); len(text) > 0 {
			m.filter = string(text[:len(text)-1])
		}
	default:
		m.filter += onLine(k.Text)
	}
}

// confirm handles the answer to the question about a queue. Only y means yes.
func (m *model) confirm(name string) tea.Cmd {
	m.shown = queuesPage
	if name != "y" && name != "Y" {
		m.note = "nothing was changed"
		return nil
	}
	q, pause := m.asked.queue, !m.asked.Paused
	return func() tea.Msg { return pausedMsg{q, pause, m.source.pause(q, pause)} }
}

func (m *model) failedKey(name string) tea.Cmd {
	switch name {
	case "q":
		return tea.Quit
	case "esc", "enter", "left", "backspace":
		m.shown, m.top = queuesPage, 0
	case "space":
		m.loading = true
		return m.readFailed()
	default:
		if to, ok := moved(name, m.top, len(m.failed), m.body()); ok {
			m.top = to
		}
	}
	return nil
}

// moved returns the position in a list after a key.
func moved(name string, at, length, page int) (to int, ok bool) {
	switch name {
	case "up", "k":
		at--
	case "down", "j":
		at++
	case "pgup":
		at -= page
	case "pgdown":
		at += page
	case "home", "g":
		at = 0
	case "end", "G":
		at = length - 1
	default:
		return 0, false
	}
	return max(min(at, length-1), 0), true
}

// move selects another queue.
func (m *model) move(name string) {
	rows := m.rows()
	if to, ok := moved(name, m.place(rows), len(rows), m.body()); ok && len(rows) > 0 {
		m.selected = rows[to].queue
	}
}

// place returns the index of the selected row.
func (m *model) place(rows []queueRow) int {
	return max(slices.IndexFunc(rows, func(r queueRow) bool { return r.queue == m.selected }), 0)
}

func (m *model) current() (row queueRow, ok bool) {
	rows := m.rows()
	if len(rows) == 0 {
		return row, false
	}
	row = rows[m.place(rows)]
	m.selected = row.queue // the question and the page are about this queue, even if the order changes
	return row, true
}

// queueRow is a queue. Rates are per second, and negative if they are not known.
type queueRow struct {
	client.Queue
	queue                      config.QueueName
	name                       string
	created, completed, failed float64
}

// rows returns the visible queues in their order. It computes them only after a change, since there may be many.
func (m *model) rows() []queueRow {
	if m.stale {
		m.list, m.stale = m.makeRows(), false
	}
	return m.list
}

func (m *model) makeRows() []queueRow {
	if len(m.snaps) == 0 {
		return nil
	}
	first, last := &m.snaps[0], &m.snaps[len(m.snaps)-1]
	seconds := last.at.Sub(first.at).Seconds()
	before := map[config.QueueName]map[string]int64{}
	if len(m.snaps) > 1 {
		for i := range first.queues {
			q := &first.queues[i]
			before[config.QueueName{Client: q.Client, Type: q.Type}] = q.Counts
		}
	}
	filter := strings.ToLower(m.filter)
	var rows []queueRow
	for _, q := range last.queues {
		r := queueRow{Queue: q, queue: config.QueueName{Client: q.Client, Type: q.Type}, created: -1, completed: -1, failed: -1}
		if r.name = r.queue.String(); !strings.Contains(strings.ToLower(r.name), filter) {
			continue
		}
		if len(m.snaps) > 1 && seconds > 0 {
			r.created, r.completed, r.failed = ratesOf(before[r.queue], q.Counts, seconds)
		}
		rows = append(rows, r)
	}
	column := &allColumns[m.sort]
	slices.SortStableFunc(rows, func(a, b queueRow) int {
		c := 0
		if column.ofQueue != nil {
			c = cmp.Compare(column.ofQueue(&b), column.ofQueue(&a)) // the largest first
		}
		if c == 0 {
			c = cmp.Compare(a.name, b.name)
		}
		if m.reversed {
			return -c
		}
		return c
	})
	return rows
}

// ratesOf returns how many jobs were created, completed and failed per second between two counts. A new queue is not in
// the first count.
func ratesOf(before, after map[string]int64, seconds float64) (created, completed, failed float64) {
	more := int64(0)
	for status, n := range after {
		more += n - before[status]
	}
	per := func(n int64) float64 { return float64(max(n, 0)) / seconds }
	return per(more), per(after["completed"] - before["completed"]), per(after["failed"] - before["failed"])
}
