package answer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// TestJobsInARow: copying from the previous document gives the same text as encoding the job.
func TestJobsInARow(t *testing.T) {
	exit := int64(3)
	base := job.Job{ID: job.NewID(5, 6, 0), Batch: job.NewID(5, 6, 0), Client: "c", Type: "t", Status: job.Active, Payload: []byte("p"), Progress: -1,
		Attributes: job.Attributes{Kind: job.Text, MaxAttempts: 3, LeaseMs: 4},
		Runner:     "r", Claim: job.NewID(8, 9, 0), RunAttempts: 1, CreatedAt: 6, UpdatedAt: 7, DeadlineAt: 9}
	list := []job.Job{base, base, base}
	list[1].Payload = []byte("other \"p\"")
	list[2].Kind = job.JSON
	for _, change := range []func(*job.Job){
		func(j *job.Job) { j.Batch = job.NewID(1, 1, 0) }, func(j *job.Job) { j.Client = "d" }, func(j *job.Job) { j.Type = "d" },
		func(j *job.Job) { j.Status = job.Pending }, func(j *job.Job) { j.Priority = 5 }, func(j *job.Job) { j.Code = job.Error },
		func(j *job.Job) { j.ExitCode = 5 }, func(j *job.Job) { j.ProcessExit = &exit }, func(j *job.Job) { j.OutputAddr = "a" }, func(j *job.Job) { j.LogAddr = "a" },
		func(j *job.Job) { j.OutputKind, j.Output = job.Text, []byte("o") }, func(j *job.Job) { j.Error = "e" },
		func(j *job.Job) { j.Attempts = []job.Attempt{{At: 1, Why: job.Reported}} }, func(j *job.Job) { j.Step = "s" }, func(j *job.Job) { j.Progress = 5 },
		func(j *job.Job) { j.Runner = "s" }, func(j *job.Job) { j.Claim = job.ID{} }, func(j *job.Job) { j.RunAttempts = 2 }, func(j *job.Job) { j.MaxAttempts = 2 },
		func(j *job.Job) { j.LeaseMs = 2 }, func(j *job.Job) { j.RunAt = 2 }, func(j *job.Job) { j.CreatedAt = 2 }, func(j *job.Job) { j.UpdatedAt = 2 },
		func(j *job.Job) { j.CompletedAt = 2 }, func(j *job.Job) { j.DeadlineAt = 2 }, func(j *job.Job) { j.ID = job.NewID(5, 6, 1) },
	} {
		changed := base
		change(&changed)
		list = append(list, changed, changed, base)
	}
	var documents Jobs
	var b []byte
	for i := range list {
		at := len(b)
		b = documents.Append(b, &list[i], InJSON)
		alone := AppendJob(nil, &list[i], InJSON)
		testkit.Equal(t, string(b[at:]), string(alone), "document", i, "alone")
	}
}

func TestPlain(t *testing.T) {
	text := []byte(strings.Repeat("x", 24))
	for i := range text {
		for c := range 256 {
			text[i] = byte(c)
			plain := c >= ' ' && c < 0x80 && c != '"' && c != '\\'
			testkit.MustEqual(t, isPlain(text), plain, "byte", c, "at", i)
			testkit.MustEqual(t, isPlain(text[:i+1]), plain, "byte", c, "at", i)
		}
		text[i] = 'x'
	}
}

func TestProgress(t *testing.T) {
	for millionths, text := range map[int64]string{-1: "null", 0: "0", 1: "0.000001", 100: "0.0001", 250_000: "0.25", 500_000: "0.5", 999_999: "0.999999", 1_000_000: "1"} {
		testkit.Equal(t, string(appendProgress(nil, millionths)), text, millionths)
	}
}

// FuzzContent: for any bytes of a payload, the document is JSON, and the payload can be restored from it.
func FuzzContent(f *testing.F) {
	for _, seed := range []string{"", "plain", "\x00\x1f\x7f\"\\/", "caf\u00e9 \u2028 \U0001f600", "\xff\xfe", "\xed\xa0\x80", "line\nbreak\r"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, kind := range []job.Kind{job.Text, job.Bytes} {
			j := job.Job{Attributes: job.Attributes{Kind: kind}, Payload: payload, Status: job.Pending, Progress: -1, Runner: string(payload), Error: string(payload), Step: string(payload)}
			text := AppendJob(nil, &j, InLines)
			testkit.Holds(t, !bytes.ContainsAny(text, "\n\r"), "a line break in", text)
			var o struct {
				Payload    *string `json:"payload"`
				PayloadB64 *[]byte `json:"payload_b64"`
			}
			testkit.NoError(t, json.Unmarshal(text, &o), text)
			if kind == job.Text && utf8.Valid(payload) {
				testkit.Holds(t, o.Payload != nil && *o.Payload == string(payload) && o.PayloadB64 == nil, payload, "became", text)
			} else if o.Payload != nil || o.PayloadB64 == nil || !bytes.Equal(*o.PayloadB64, payload) {
				t.Errorf("%q became %q, want %s", payload, text, base64.StdEncoding.EncodeToString(payload))
			}
		}
	})
}
