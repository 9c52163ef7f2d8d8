package bench

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job"
)

// TestPythonOfFormatRuns runs the Python program of docs/format-runs.md against a server.
func TestPythonOfFormatRuns(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to run the program of docs/format-runs.md:", err)
	}
	text, err := os.ReadFile("../docs/format-runs.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```python\n(.*?)```").FindStringSubmatch(string(text))
	if block == nil {
		t.Fatal("docs/format-runs.md has no program")
	}
	s := serve(t)
	l := NewLoad(s.URL(), 1)
	defer l.Close()
	var want strings.Builder
	expect := func(path, kind, body string, payloads ...string) {
		t.Helper()
		var first job.ID
		err := l.post(t.Context(), path, kind, []byte(body), func(status int, answer []byte) error {
			if status != http.StatusCreated {
				return fmt.Errorf("%d %s", status, answer)
			}
			first, err = job.ParseID(regexp.MustCompile(`"(?:first_id|job_id)":"([^"]*)"`).FindSubmatch(answer)[1])
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, payload := range payloads {
			fmt.Fprintf(&want, "%s 1 b'%s'\n", first.WithLine(i), payload)
		}
	}
	expect("/add", "text/plain", "first\nsecond one\nthird\n", "first", "second one", "third")
	expect("/jobs/create", "application/json", `{"payload":"two\nlines"}`, `two\nlines`)
	expect("/jobs/create", "application/json", `{}`, "")
	program := exec.Command(python, "-c", block[1], s.URL())
	out, err := program.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := string(out); got != want.String() {
		t.Errorf("the program prints\n%s\nwant\n%s", got, want.String())
	}
}
