package bench

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job"
)

// TestPythonOfFormatRuns runs the Python programs of docs/reference/format-runs.md against a server: one reads a claim, the other
// the results of a batch.
func TestPythonOfFormatRuns(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to run the programs of docs/reference/format-runs.md:", err)
	}
	text, err := os.ReadFile("../docs/reference/format-runs.md")
	if err != nil {
		t.Fatal(err)
	}
	programs := regexp.MustCompile("(?s)```python\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(programs) != 2 {
		t.Fatalf("docs/reference/format-runs.md has %d programs, want 2", len(programs))
	}
	s := serve(t)
	l := NewLoad(s.URL(), 1)
	defer l.Close()
	post := func(path, kind, body string, status int) (answer []byte) {
		t.Helper()
		err := l.post(t.Context(), path, kind, []byte(body), func(got int, text []byte) error {
			if answer = bytes.Clone(text); got != status {
				return fmt.Errorf("%d %s", got, text)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	var want strings.Builder
	expect := func(path, kind, body string, payloads ...string) (first job.ID) {
		t.Helper()
		answer := post(path, kind, body, http.StatusCreated)
		first, err := job.ParseID(regexp.MustCompile(`"(?:first_id|job_id)":"([^"]*)"`).FindSubmatch(answer)[1])
		if err != nil {
			t.Fatal(err)
		}
		for i, payload := range payloads {
			fmt.Fprintf(&want, "%s 1 b'%s'\n", first.WithLine(i), payload)
		}
		return first
	}
	run := func(program string, want string, args ...string) {
		t.Helper()
		out, err := exec.Command(python, append([]string{"-c", program, s.URL()}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := string(out); got != want {
			t.Errorf("the program prints\n%s\nwant\n%s", got, want)
		}
	}
	batch := expect("/add", "text/plain", "first\nsecond one\nthird\n", "first", "second one", "third")
	expect("/jobs/create", "application/json", `{"payload":"two\nlines"}`, `two\nlines`)
	expect("/jobs/create", "application/json", `{}`, "")
	run(programs[0][1], want.String())

	post("/jobs/complete", "application/json", fmt.Sprintf(`{"runner_id":"python","outcomes":[{"job_id":"%s","code":"ok","output":"a b"},{"job_id":"%s","code":"ok","output":"two\nlines"},{"job_id":"%s","code":"failed"}]}`,
		batch, batch.WithLine(1), batch.WithLine(2)), http.StatusOK)
	run(programs[1][1], "0 completed b'a b'\n1 completed b'two\\nlines'\n2 failed b''\n", batch.String())
}
