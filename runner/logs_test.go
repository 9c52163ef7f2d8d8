package runner

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestLogs: with log_bytes, a program's stderr is the log of its job, during the run and afterwards, however the run
// ends. Without log_bytes, the server keeps no log.
func TestLogs(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r := start(t)
	dir := t.TempDir()
	s := r.settings(map[string]string{
		"follow": fmt.Sprintf("echo output; echo begun >&2; while [ ! -e %s/go ]; do sleep 0.05; done; echo end >&2; exit 3", dir),
		"long":   "i=0; while [ $i -lt 3000 ]; do echo \"line $i of a long log, which is longer than it may be\" >&2; i=$((i+1)); done",
		"silent": "echo output",
		"none":   "echo text >&2",
	})
	for _, typ := range []string{"follow", "long", "silent"} {
		s.Handlers[typ].Program.LogBytes = 64 << 10
	}
	s.Handlers["follow"].Program.ReadOnly = []string{dir}
	ids := map[string]string{}
	for typ := range s.Handlers {
		ids[typ] = r.create(client.NewJob{Client: "ada", Type: typ, Attributes: client.Attributes{MaxAttempts: 1}}).ID
	}
	s.UntilIdle = 0
	w, stop := r.begin(s)
	log := testkit.Must(r.JobLog(t.Context(), ids["follow"], true))(t)
	defer log.Close()
	lines := bufio.NewReader(log)
	line, err := lines.ReadString('\n')
	testkit.Holds(t, line == "begun\n" && err == nil, line, err)
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	rest, err := io.ReadAll(lines)
	testkit.Holds(t, string(rest) == "end\n" && err == nil, string(rest), err)
	r.until("all jobs have ended", func() bool {
		n := int64(0)
		for _, ended := range w.Totals().Ended {
			n += ended
		}
		return n == 4
	})
	stop()
	kept := map[string]string{}
	for typ, id := range ids {
		j := testkit.Must(r.Job(t.Context(), id))(t)
		if has := j.LogAddr != ""; has != (typ == "follow" || typ == "long") {
			t.Errorf("%s has the log %q", typ, j.LogAddr)
		} else if has {
			log := testkit.Must(r.JobLog(t.Context(), id, false))(t)
			text, err := io.ReadAll(log)
			testkit.Check(t, err)
			kept[typ] = string(text)
			log.Close()
		}
	}
	testkit.Equal(t, kept["follow"], "begun\nend\n", "the log")
	if text := kept["long"]; len(text) < 64<<10 || len(text) > 65<<10 || !strings.HasPrefix(text, "line 0 of") || !strings.HasSuffix(text, "line 2999 of a long log, which is longer than it may be\n") || !strings.Contains(text, " bytes are left out here]\n") {
		t.Errorf("%d bytes: %.50q … %q", len(text), text, text[max(0, len(text)-100):])
	}
	page := httptest.NewRecorder()
	w.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	want := fmt.Sprintf("daybook_runner_log_kept_bytes_total{kind=\"exec\"} %d\n", 64<<10+len("begun\nend\n"))
	testkit.Holds(t, strings.Contains(page.Body.String(), want), "the metrics lack", want)
	testkit.Equal(t, len(testkit.Must(filepath.Glob(filepath.Join(os.TempDir(), "daybook-log-*")))(t)), 0, "are left")
	for typ, frames := range map[string]string{"long": "lines", "silent": ""} {
		set := s.Handlers[typ]
		if set.Program.Frames = frames; frames == "" {
			set.Program.LogBytes = 1
		}
		_, err := New(s)
		testkit.Holds(t, err != nil && strings.Contains(err.Error(), "log_bytes must be 0 "), typ, err)
		set.Program.Frames, set.Program.LogBytes = "", 0
	}
}

// TestMetricsAreDocumented: docs/reference/runners.md lists exactly the metrics of a runner.
func TestMetricsAreDocumented(t *testing.T) {
	text := testkit.Must(os.ReadFile("../docs/reference/runners.md"))(t)
	name := regexp.MustCompile("[`\"](daybook_runner_[a-z_]+)")
	documented := map[string]bool{}
	for _, m := range name.FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = true
	}
	files := testkit.Must(filepath.Glob("*.go"))(t)
	made := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source := testkit.Must(os.ReadFile(file))(t)
		for _, m := range name.FindAllStringSubmatch(string(source), -1) {
			made[m[1]] = true
			testkit.Holds(t, documented[m[1]], "docs/reference/runners.md lacks", m[1])
		}
	}
	for name := range documented {
		testkit.Holds(t, made[name], "docs/reference/runners.md has", name, "which a runner has not")
	}
	testkit.Holds(t, len(made) >= 15, "only", len(made), "metrics were found")
}
