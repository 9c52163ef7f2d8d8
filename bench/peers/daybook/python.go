package daybook

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/daybookq/daybook/bench/peers/measure"
)

//go:embed load.py
var loadScript string

// python is a session through load.py, which does all kinds of work itself.
type python struct{ *server }

func openPython(s *server) measure.Session { return python{s} }

func (python) Dial(context.Context, int) (measure.Conn, error) { return nil, measure.ErrUnsupported }

func (python) Runs(measure.Work) bool { return true }

// Run lets the script do the jobs. The script measures the time, so that the start of Python does not count.
func (p python) Run(ctx context.Context, t *measure.Turn) error {
	// -S and -I leave out site packages: the script needs only the standard library.
	cmd := exec.CommandContext(ctx, "python3", "-I", "-S", "-c", loadScript, p.process.Listen, string(t.Work.Kind),
		strconv.Itoa(t.Work.Callers), strconv.Itoa(t.Work.Batch), strconv.Itoa(t.Jobs))
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	t.Begin()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("load.py: %w: %s", err, said.Bytes())
	}
	t.AddLoadTime(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
	t.End()
	var answer struct {
		Seconds   float64   `json:"seconds"`
		Latencies []float64 `json:"latencies"` // in seconds
	}
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		return fmt.Errorf("load.py printed %.200q: %w", out.Bytes(), err)
	}
	t.Took(seconds(answer.Seconds))
	for _, l := range answer.Latencies {
		t.Add(seconds(l))
	}
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
