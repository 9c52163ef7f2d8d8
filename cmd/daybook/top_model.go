package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// topWindow is over how many refreshes rates are measured.
const topWindow = 5

// topModel is the state of `daybook top`. Keys and time change it.
type topModel struct {
	source  topSource
	every   time.Duration
	address string
	now     func() time.Time

	width, height int
	snaps         []topSnapshot // the newest topWindow, the oldest first
	lost          error         // the error of the last read; nil if it succeeded
	lostAt        time.Time     // of the first read that failed since
	reading       bool
	waits         int // the number of the last wait for a refresh

	list     []topRow // the result of rows, unless it is stale
	stale    bool
	sort     int // of topColumns
	reversed bool
	filter   string
	typing   bool      // the filter is being typed
	selected queueName // the zero value: the first queue
	top      int       // the first row on the screen
	shown    topPage
	note     string // the outcome of the last key
	failed   []*client.Job
	failedOf queueName
	asked    topRow // the queue of the question, as it was at that time
	loading  bool
}

// topPage is the page that the screen shows.
type topPage int

const (
	topQueues topPage = iota
	topHelp
	topConfirm // the question whether to pause or resume a queue
	topFailed
)

// Messages.
type (
	topTick   int // the number of the wait
	topPaused struct {
		queue  queueName
		paused bool
		err    error
	}
	topFailedRead struct {
		queue queueName
		jobs  []*client.Job
		err   error
	}
)

func newTopModel(source topSource, sort int, every time.Duration, address string) *topModel {
	return &topModel{source: source, sort: sort, every: every, address: address, now: time.Now, width: terminal.DefaultWidth, height: 24}
}

func (m *topModel) Init() tea.Cmd { return m.refresh() }

// refresh reads the figures, unless they are being read.
func (m *topModel) refresh() tea.Cmd {
	if m.reading {
		return nil
	}
	m.reading = true
	return func() tea.Msg { return m.source.read() }
}

// wait schedules the next refresh. It cancels an earlier wait.
func (m *topModel) wait() tea.Cmd {
	m.waits++
	number := topTick(m.waits)
	return tea.Tick(m.every, func(time.Time) tea.Msg { return number })
}

func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 1), max(msg.Height, 1)
	case topSnapshot:
		m.reading = false
		m.add(msg)
		return m, m.wait()
	case topTick:
		if int(msg) == m.waits {
			return m, m.refresh()
		}
	case topPaused:
		switch {
		case msg.err != nil:
			m.note = msg.queue.String() + ": " + msg.err.Error()
		case msg.paused:
			m.note = msg.queue.String() + " is paused"
		default:
			m.note = msg.queue.String() + " is not paused"
		}
		return m, m.refresh()
	case topFailedRead:
		if m.shown == topFailed && msg.queue == m.failedOf {
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
func (m *topModel) add(s topSnapshot) {
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
	if m.snaps = append(m.snaps, s); len(m.snaps) > topWindow {
		m.snaps = slices.Delete(m.snaps, 0, 1)
	}
}

func (m *topModel) key(k tea.KeyPressMsg) tea.Cmd {
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
	case topHelp:
		m.shown = topQueues
		if name == "q" {
			return tea.Quit
		}
		return nil
	case topConfirm:
		return m.confirm(name)
	case topFailed:
		return m.failedKey(name)
	}
	switch name {
	case "q":
		return tea.Quit
	case "?", "h":
		m.shown = topHelp
	case "/":
		m.typing = true
	case "esc":
		m.filter = ""
	case "s":
		m.sort = (m.sort + 1) % len(topColumns)
	case "r":
		m.reversed = !m.reversed
	case "space":
		return m.refresh()
	case "p":
		if row, ok := m.current(); ok {
			m.shown, m.asked = topConfirm, row
		}
	case "enter":
		if row, ok := m.current(); ok {
			m.shown, m.failedOf, m.failed, m.loading, m.top = topFailed, row.queue, nil, true, 0
			return m.readFailed()
		}
	default:
		m.move(name)
	}
	return nil
}

func (m *topModel) readFailed() tea.Cmd {
	q := m.failedOf
	return func() tea.Msg {
		jobs, err := m.source.failed(q)
		return topFailedRead{q, jobs, err}
	}
}

// typeFilter handles a key while the filter is typed.
func (m *topModel) typeFilter(k tea.KeyPressMsg) {
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
func (m *topModel) confirm(name string) tea.Cmd {
	m.shown = topQueues
	if name != "y" && name != "Y" {
		m.note = "nothing was changed"
		return nil
	}
	q, pause := m.asked.queue, !m.asked.Paused
	return func() tea.Msg { return topPaused{q, pause, m.source.pause(q, pause)} }
}

func (m *topModel) failedKey(name string) tea.Cmd {
	switch name {
	case "q":
		return tea.Quit
	case "esc", "enter", "left", "backspace":
		m.shown, m.top = topQueues, 0
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
func (m *topModel) move(name string) {
	rows := m.rows()
	if to, ok := moved(name, m.place(rows), len(rows), m.body()); ok && len(rows) > 0 {
		m.selected = rows[to].queue
	}
}

// place returns the index of the selected row.
func (m *topModel) place(rows []topRow) int {
	return max(slices.IndexFunc(rows, func(r topRow) bool { return r.queue == m.selected }), 0)
}

func (m *topModel) current() (row topRow, ok bool) {
	rows := m.rows()
	if len(rows) == 0 {
		return row, false
	}
	row = rows[m.place(rows)]
	m.selected = row.queue // the question and the page are about this queue, even if the order changes
	return row, true
}

// topRow is a queue. Rates are per second, and negative if they are not known.
type topRow struct {
	client.Queue
	queue                      queueName
	name                       string
	created, completed, failed float64
}

// rows returns the visible queues in their order. It computes them only after a change, since there may be many.
func (m *topModel) rows() []topRow {
	if m.stale {
		m.list, m.stale = m.makeRows(), false
	}
	return m.list
}

func (m *topModel) makeRows() []topRow {
	if len(m.snaps) == 0 {
		return nil
	}
	first, last := &m.snaps[0], &m.snaps[len(m.snaps)-1]
	seconds := last.at.Sub(first.at).Seconds()
	before := map[queueName]map[string]int64{}
	if len(m.snaps) > 1 {
		for i := range first.queues {
			q := &first.queues[i]
			before[queueName{q.Client, q.Type}] = q.Counts
		}
	}
	filter := strings.ToLower(m.filter)
	var rows []topRow
	for _, q := range last.queues {
		r := topRow{Queue: q, queue: queueName{q.Client, q.Type}, created: -1, completed: -1, failed: -1}
		if r.name = r.queue.String(); !strings.Contains(strings.ToLower(r.name), filter) {
			continue
		}
		if len(m.snaps) > 1 && seconds > 0 {
			r.created, r.completed, r.failed = ratesOf(before[r.queue], q.Counts, seconds)
		}
		rows = append(rows, r)
	}
	column := &topColumns[m.sort]
	slices.SortStableFunc(rows, func(a, b topRow) int {
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
