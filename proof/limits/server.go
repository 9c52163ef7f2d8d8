package limits

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/testkit"
)

// server is a server in a memory cgroup.
type server struct {
	*daybooktest.Process
	t     *testing.T
	http  *http.Client
	log   testkit.Log
	table strings.Builder // has a row for each step
	slow  []string        // steps in which commands took too long
}

// mostHeld is how long a command may hold the applier. The server's metrics count commands up to and over this time.
const mostHeld = 20 * time.Millisecond

// How many requests are outstanding at a time while the server is filled: bulk creates, and requests for one thing.
const (
	bulk   = 2
	single = 32
)

// newServer starts a server in a cgroup with this much memory.
func newServer(t *testing.T, memory int64) *server {
	t.Helper()
	program, err := rig.Limited(t, memory, 0)
	if err != nil {
		t.Skipf("this test needs a memory cgroup, and the right to make one: %v", err)
	}
	s := &server{t: t, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: single}}}
	s.Process = &daybooktest.Process{Binary: program, Data: t.TempDir(), Args: []string{"--log-level", "warn"}, Log: &s.log}
	t.Cleanup(func() {
		testkit.Check(t, s.Kill())
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	if err := s.Start(t.Context()); err != nil {
		t.Fatalf("%v: %s", err, s.log.String())
	}
	if limit := s.metrics()["go_gc_gomemlimit_bytes"]; limit > float64(memory) {
		t.Fatalf("the soft memory limit of the server is %.0f, and its cgroup has %d", limit, memory)
	}
	return s
}

// send sends a request, and returns the status and the body of the answer.
func (s *server) send(method, path, kind string, body []byte, header ...string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL()+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", kind)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// ask sends a request, which must succeed, with a JSON document unless body is nil. It decodes and returns the answer, if the answer
// has a body.
func (s *server) ask(method, path string, body any) (answer map[string]any) {
	s.t.Helper()
	var text []byte
	if body != nil {
		text = testkit.Must(json.Marshal(body))(s.t)
	}
	status, got, err := s.send(method, path, "application/json", text)
	if err != nil || status >= 300 {
		s.t.Fatalf("%s %s: %d %.300s, %v", method, path, status, got, err)
	}
	if len(got) > 0 {
		if err := json.Unmarshal(got, &answer); err != nil {
			s.t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	return answer
}

// resident returns the server's highest resident memory since it was started.
func (s *server) resident() (peak int64) {
	s.t.Helper()
	_, peak = testkit.Must2(rig.Resident(s.Pid()))(s.t)
	return peak
}

// create posts jobs. While the server has too much to apply, it retries. It reports whether the server took the jobs: the
// server refuses jobs that would make too many queues.
func (s *server) create(path, kind string, body []byte, header ...string) bool {
	for {
		status, answer, err := s.send(http.MethodPost, path, kind, body, header...)
		switch {
		case err != nil:
			s.t.Errorf("%s: %v", path, err)
			return false
		case status == http.StatusCreated || status == http.StatusOK:
			return true
		case status == http.StatusTooManyRequests && bytes.Contains(answer, []byte(`"too_many_queues"`)):
			return false
		case status != http.StatusTooManyRequests:
			s.t.Errorf("%s: %d %.300s", path, status, answer)
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// errEnough ends the calls of each.
var errEnough = errors.New("the server takes no more")

// each calls do for 0 … n-1, from this many concurrent callers, until a call returns false. It returns how many returned
// true.
func (s *server) each(n, callers int, do func(i int) bool) int {
	s.t.Helper()
	var next, done atomic.Int64
	_ = load.Share(s.t.Context(), callers, n, func(context.Context, int) error {
		if !do(int(next.Add(1)) - 1) {
			return errEnough
		}
		done.Add(1)
		return nil
	})
	if s.t.Failed() {
		s.t.FailNow()
	}
	return int(done.Load())
}

// metrics reads the server's metrics, by name and labels.
func (s *server) metrics() map[string]float64 {
	s.t.Helper()
	return testkit.Must(load.Metrics(s.t.Context(), s.http, s.URL(), ""))(s.t)
}

// commandTime says how long commands of a verb have held the applier since the server was started.
type commandTime struct {
	commands, long int // long are those that took over mostHeld
	total          time.Duration
}

func (t commandTime) since(before commandTime) commandTime {
	return commandTime{t.commands - before.commands, t.long - before.long, t.total - before.total}
}

func (t commandTime) mean() time.Duration {
	return (t.total / time.Duration(t.commands)).Round(10 * time.Microsecond)
}

// tooLong says that more than a share of the commands took over mostHeld, or returns "".
func (t commandTime) tooLong(what, verb string, share float64) string {
	if float64(t.long) <= share*float64(t.commands) {
		return ""
	}
	return fmt.Sprintf("%s: %d of %d commands %s took over %v, and the mean is %v", what, t.long, t.commands, verb, mostHeld, t.mean())
}

// commandTimes reads the metrics of commands, by verb, when all commands so far are applied.
func (s *server) commandTimes() map[string]commandTime {
	s.t.Helper()
	page := s.metrics()
	for page["daybook_lag_commands"] > 0 {
		time.Sleep(10 * time.Millisecond)
		page = s.metrics()
	}
	times := map[string]commandTime{}
	for name, value := range page {
		of, labels, _ := strings.Cut(name, "{")
		_, verb, _ := strings.Cut(labels, `verb="`)
		verb, _, _ = strings.Cut(verb, `"`)
		t := times[verb]
		switch of {
		case "daybook_command_seconds_bucket":
			if !strings.Contains(labels, fmt.Sprintf(`le="%g"`, mostHeld.Seconds())) {
				continue
			}
			t.long -= int(value)
		case "daybook_command_seconds_sum":
			t.total = time.Duration(value * float64(time.Second))
		case "daybook_command_seconds_count":
			t.commands = int(value)
			t.long += int(value)
		default:
			continue
		}
		times[verb] = t
	}
	return times
}

// attempts is how often a step is repeated in which a command held the applier for too long. A busy machine may hold up
// any command, but only a slow command takes too long each time.
const attempts = 5

// step runs a step that can be repeated, and notes how long its commands held the applier.
func (s *server) step(what string, do func()) {
	s.t.Helper()
	for attempt := 1; ; attempt++ {
		slow := s.measured(what, do, 0)
		if len(slow) == 0 {
			return
		}
		if attempt == attempts {
			s.slow = append(s.slow, slow...)
			return
		}
	}
}

// once is step for requests that cannot be repeated. Six of a hundred commands of a verb may be held up, because Pebble's
// compactions share two processors with the applier, which sometimes waits for ten milliseconds.
func (s *server) once(what string, do func()) {
	s.t.Helper()
	s.slow = append(s.slow, s.measured(what, do, 0.06)...)
}

// filled is once for requests that keep all processors busy, so that the applier waits for a processor. Only the mean of
// its commands counts.
func (s *server) filled(what string, do func()) {
	s.t.Helper()
	before := s.commandTimes()
	s.measured(what, do, 1)
	for verb, after := range s.commandTimes() {
		if t := after.since(before[verb]); t.commands > 0 && t.mean() > mostHeld {
			s.slow = append(s.slow, fmt.Sprintf("%s: the mean of %d commands %s is %v", what, t.commands, verb, t.mean()))
		}
	}
}

// measured calls do, and returns the verbs of which more than a share of the commands held the applier for too long.
func (s *server) measured(what string, do func(), share float64) (slow []string) {
	s.t.Helper()
	before := s.commandTimes()
	do()
	after := s.commandTimes()
	row := what // the first row of a step has its name
	for _, verb := range slices.Sorted(maps.Keys(after)) {
		t := after[verb].since(before[verb])
		if t.commands == 0 {
			continue
		}
		fmt.Fprintf(&s.table, "| %s | %s | %d | %v | %d |\n", row, verb, t.commands, t.mean(), t.long)
		row = ""
		if long := t.tooLong(what, verb, share); long != "" {
			slow = append(slow, long)
		}
	}
	return slow
}
