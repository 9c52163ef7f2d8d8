package top

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/internal/testkit"
)

// fake is a source whose figures tests set.
type fake struct {
	next   snapshot
	paused []string
	jobs   []*client.Job
	err    error
}

func (f *fake) read() snapshot { return f.next }
func (f *fake) pause(q config.QueueName, pause bool) error {
	f.paused = append(f.paused, fmt.Sprintf("%s %v", q, pause))
	return f.err
}
func (f *fake) failed(config.QueueName) ([]*client.Job, error) { return f.jobs, f.err }

func (f *fake) at(seconds int64, queues ...client.Queue) {
	f.next = snapshot{at: time.Unix(1000+seconds, 0), queues: queues}
	f.next.stats.Ready, f.next.stats.Journal.UUID = true, "u"
	f.next.stats.Jobs = map[string]int64{}
	for _, q := range queues {
		for status, n := range q.Counts {
			f.next.stats.Jobs[status] += n
		}
	}
}

func queueOf(typ string, pending, completed, failed int64) client.Queue {
	return client.Queue{Client: "c", Type: typ, Counts: map[string]int64{"pending": pending, "completed": completed, "failed": failed}}
}

// send passes a message to the model, and the messages of its commands, except messages of timers.
func send(t *testing.T, m *model, msg tea.Msg) (quit bool) {
	t.Helper()
	_, cmd := m.Update(msg)
	if cmd == nil {
		return false
	}
	if _, ok := msg.(snapshot); ok { // a timer
		return false
	}
	next := cmd()
	if _, ok := next.(tea.QuitMsg); ok {
		return true
	}
	return send(t, m, next)
}

func press(t *testing.T, m *model, keys ...string) (quit bool) {
	t.Helper()
	special := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp, "end": tea.KeyEnd, "backspace": tea.KeyBackspace}
	for _, k := range keys {
		msg := tea.KeyPressMsg{Text: k, Code: []rune(k)[0]}
		switch {
		case special[k] != 0:
			msg = tea.KeyPressMsg{Code: special[k]}
		case k == "space":
			msg = tea.KeyPressMsg{Code: ' ', Text: " "}
		case k == "ctrl+c":
			msg = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
		}
		testkit.MustEqual(t, msg.String(), k, "the key")
		quit = send(t, m, msg)
	}
	return quit
}

// screen returns the view of the model, without escape sequences, and checks that it fits.
func screen(t *testing.T, m *model) string {
	t.Helper()
	text := ansi.Strip(m.View().Content)
	lines := strings.Split(text, "\n")
	testkit.Holds(t, len(lines) <= m.height, len(lines), "lines on", m.height)
	for _, line := range lines {
		testkit.Holds(t, ansi.StringWidth(line) <= m.width, ansi.StringWidth(line), "columns on", m.width, line)
	}
	return text
}

// order returns the types of the queues on the screen.
func order(t *testing.T, m *model) (types []string) {
	t.Helper()
	for _, match := range regexp.MustCompile(`(?m)^c/(\S+)`).FindAllStringSubmatch(screen(t, m), -1) {
		types = append(types, match[1])
	}
	return types
}

func newFake(t *testing.T) (*fake, *model) {
	t.Helper()
	f := &fake{}
	m := newModel(f, 0, time.Second, "http://server")
	m.now = func() time.Time { return time.Unix(2000, 0) }
	send(t, m, tea.WindowSizeMsg{Width: 120, Height: 24})
	f.at(0, queueOf("a", 5, 0, 1), queueOf("b", 9, 0, 0))
	send(t, m, m.Init()())
	return f, m
}

func TestModel(t *testing.T) {
	t.Run("rates, new queues and another journal", func(t *testing.T) {
		f, m := newFake(t)
		text := screen(t, m)
		testkit.Holds(t, regexp.MustCompile(`(?m)^c/a +5 +0 +1 +- +- +- +- +0 +0 +0$`).MatchString(text), text)
		f.at(2, queueOf("a", 3, 10, 2), queueOf("b", 9, 0, 0), queueOf("new", 4, 0, 0))
		press(t, m, "space")
		text = screen(t, m)
		for _, want := range []string{`c/a +3 +0 +2 +- +4\.5 +5\.0 +0\.5 +0 +10 +0`, `c/b +9 +0 +0 +- +0 +0 +0 `, `c/new +4 +0 +0 +- +2\.0 +0 +0 `, `.*per second: created 6\.5, completed 5\.0, failed 0\.5`} {
			testkit.Holds(t, regexp.MustCompile(`(?m)^`+want).MatchString(text), want, "is missing in", text)
		}
		f.at(4, queueOf("a", 0, 0, 0)) // a purge: no negative rates
		press(t, m, "space")
		text = screen(t, m)
		testkit.Holds(t, regexp.MustCompile(`(?m)^c/a +0 +0 +0 +- +0 +0 +0`).MatchString(text), text)
		for range 2 * rateWindow {
			press(t, m, "space")
		}
		testkit.Equal(t, len(m.snaps), rateWindow)
		f.next.stats.Journal.UUID = "another"
		press(t, m, "space")
		testkit.Equal(t, len(m.snaps), 1, "counts of two journals are compared")
	})
	t.Run("order", func(t *testing.T) {
		_, m := newFake(t)
		for _, step := range []struct {
			keys []string
			want string
		}{{nil, "[a b]"}, {[]string{"s"}, "[b a]"}, {[]string{"r"}, "[a b]"}, {[]string{"s", "s"}, "[b a]"}, {[]string{"r"}, "[a b]"}} {
			press(t, m, step.keys...)
			testkit.Equal(t, fmt.Sprint(order(t, m)), step.want, "after", step.keys)
		}
	})
	t.Run("filter", func(t *testing.T) {
		_, m := newFake(t)
		press(t, m, "/", "q", "backspace", "B")
		text := screen(t, m)
		testkit.Holds(t, fmt.Sprint(order(t, m)) == "[b]" && strings.Contains(text, "/B_"), text)
		press(t, m, "enter")
		press(t, m, "esc")
		testkit.Equal(t, fmt.Sprint(order(t, m)), "[a b]")
		press(t, m, "/", "z", "enter", "p", "enter")
		testkit.Contains(t, screen(t, m), "no queues")
		testkit.Equal(t, m.shown, queuesPage)
	})
	t.Run("pause and resume, after a question", func(t *testing.T) {
		f, m := newFake(t)
		press(t, m, "down", "p")
		testkit.Contains(t, screen(t, m), "pause c/b? [y/N]")
		testkit.Holds(t, !press(t, m, "q") && len(f.paused) == 0, f.paused)
		testkit.Contains(t, screen(t, m), "nothing was changed")
		press(t, m, "p")
		f.at(1, queueOf("0", 1, 0, 0), queueOf("a", 5, 0, 1), client.Queue{Client: "c", Type: "b", Paused: true}) // the order changes before the answer
		send(t, m, f.next)
		press(t, m, "y")
		testkit.Equal(t, fmt.Sprint(f.paused), "[c/b true]") // the question was to pause, although somebody has paused the queue since
		testkit.Contains(t, screen(t, m), "c/b (paused)")
		f.paused = nil
		press(t, m, "p")
		gone := f.next
		f.at(2, queueOf("a", 5, 0, 1))
		send(t, m, f.next)
		if press(t, m, "y"); fmt.Sprint(f.paused) != "[c/b false]" { // the server reports that the queue is gone; another queue is not changed
			t.Errorf("the queue of the question is gone: %v", f.paused)
		}
		f.next = gone
		send(t, m, f.next)
		press(t, m, "down")
		f.paused, f.err = nil, errors.New("it broke")
		press(t, m, "p", "y")
		text := screen(t, m)
		testkit.Holds(t, fmt.Sprint(f.paused) == "[c/b false]" && strings.Contains(text, "c/b: it broke"), f.paused, text)
	})
	t.Run("failed jobs", func(t *testing.T) {
		f, m := newFake(t)
		for i := range 100 {
			f.jobs = append(f.jobs, &client.Job{ID: fmt.Sprintf("id%d", i), Error: "line one\nline two \x1b[2J"})
		}
		press(t, m, "enter")
		if text := screen(t, m); !strings.Contains(text, "failed jobs of c/a") || !strings.Contains(text, `"line one\nline two \x1b[2J"`) || strings.Contains(text, "id99 ") {
			t.Error(text)
		}
		press(t, m, "end")
		testkit.Contains(t, screen(t, m), "id99 ")
		if press(t, m, "esc"); fmt.Sprint(order(t, m)) != "[a b]" {
			t.Error(screen(t, m))
		}
		f.jobs, f.err = nil, errors.New("it broke")
		press(t, m, "enter")
		testkit.Contains(t, screen(t, m), "it broke")
	})
	t.Run("the server is away", func(t *testing.T) {
		f, m := newFake(t)
		f.next = snapshot{err: errors.New("refused\x1b[2J")}
		press(t, m, "space")
		m.now = func() time.Time { return time.Unix(2075, 0) }
		testkit.Contains(t, screen(t, m), `no figures for 1m15s, trying again: "refused\x1b[2J"`)
		testkit.Equal(t, fmt.Sprint(order(t, m)), "[a b]")
		f.at(9, queueOf("a", 1, 0, 0))
		press(t, m, "space")
		testkit.Lacks(t, screen(t, m), "no figures")
	})
	t.Run("only the newest wait makes a refresh", func(t *testing.T) {
		_, m := newFake(t)
		old := tickMsg(m.waits)
		press(t, m, "space")
		_, cmd := m.Update(old)
		testkit.Holds(t, cmd == nil, "an old timer makes a refresh")
		_, cmd = m.Update(tickMsg(m.waits))
		testkit.Holds(t, cmd != nil, "a timer makes no refresh")
		_, cmd = m.Update(tickMsg(m.waits))
		testkit.Holds(t, cmd == nil, "two refreshes at a time")
	})
	t.Run("sizes", func(t *testing.T) {
		f, m := newFake(t)
		var queues []client.Queue
		for i := range 500 {
			queues = append(queues, queueOf(fmt.Sprintf("a-queue-with-a-long-name-%d", i), 1_234_567, 0, 3))
		}
		f.at(1, queues...)
		press(t, m, "space", "down", "end")
		for width := 1; width < 140; width += 3 {
			for _, height := range []int{1, 2, 3, 8, 12, 40} {
				send(t, m, tea.WindowSizeMsg{Width: width, Height: height})
				for _, key := range []string{"", "?", "?", "p", "n", "enter", "esc"} {
					if key != "" {
						press(t, m, key)
					}
					screen(t, m)
				}
			}
		}
		send(t, m, tea.WindowSizeMsg{Width: 40, Height: 12})
		testkit.Contains(t, screen(t, m), "1.23M", "QUEUE", "FAILED")
	})
	t.Run("help and end", func(t *testing.T) {
		_, m := newFake(t)
		press(t, m, "?")
		testkit.Contains(t, screen(t, m), "pause or resume")
		press(t, m, "x")
		testkit.Holds(t, press(t, m, "q") && press(t, m, "ctrl+c"), "it does not end")
		press(t, m, "/")
		testkit.Holds(t, !press(t, m, "q") && press(t, m, "ctrl+c"), "q is a letter of the filter, and Ctrl-C is not")
	})
}

func TestTexts(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 99_999: "99999", 100_000: "100k", 1_234_567: "1.23M", 12_345_678: "12.3M", 999_999: "1.00M", 999_499: "999k", 5e12: "5.00T"} {
		testkit.Equal(t, shortCount(n), want, n)
	}
	for ms, want := range map[int64]string{0: "0ms", 999: "999ms", 59_999: "59.9s", 61_000: "1m01s", 3_661_000: "1h01m", 200 * 3_600_000: "8d"} {
		testkit.Equal(t, shortAge(time.Duration(ms)*time.Millisecond), want, ms)
	}
}
