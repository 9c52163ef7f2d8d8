package container

import (
	"context"
	"io"
	"runtime"
	"testing"
	"time"

	daybook "github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/task"
)

// sink discards the blobs that it gets.
type sink struct{}

func (sink) Put(_ context.Context, _ string, r io.Reader) (string, error) {
	_, err := io.Copy(io.Discard, r)
	return "sha256:none", err
}

// BenchmarkRun runs containers that do nothing, and one that prints 128 MiB.
func BenchmarkRun(b *testing.B) {
	for _, name := range []string{"docker", "podman"} {
		e, err := realEngines[name]()
		if err != nil {
			b.Logf("%s cannot be used: %v", name, err)
			continue
		}
		for what, args := range map[string]string{"empty": `["exit","0"]`, "128MiB": `["spew","134217728"]`} {
			b.Run(name+"/"+what, func(b *testing.B) {
				images := testkit.Must(ParseImages([]string{guestImage}))(b)
				engine := testkit.Must(New(b.Context(), Settings{Engine: e.host, Workspaces: b.TempDir() + "/w", Images: images, Blobs: sink{}}))(b)
				defer engine.Close()
				x := testkit.Must(engine.Executor(Handler{Options: handler.Options{}}))(b)
				run := func() {
					var end task.End
					j := &daybook.Job{ID: "job-1", ClaimID: "claim-1", Payload: []byte(`{"Container":{"Config":{"Image":"` + guestImage + `","Cmd":` + args + `}}}`), Kind: daybook.JSON}
					x.Run([]*task.Task{task.New(b.Context(), j, func(e task.End) { end = e })})
					testkit.Equal(b, end.Code, "ok", end.Error)
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				began := time.Now()
				for b.Loop() {
					run()
				}
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(time.Since(began).Milliseconds())/float64(b.N), "ms/run")
				b.ReportMetric(float64(after.Sys-min(after.Sys, before.Sys))/(1<<20), "MiB-more")
			})
		}
	}
}
