package runs

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files")

const claimSeq = 900

var (
	claimAt = int64(1_790_000_000_000)
	claimID = job.NewID(claimAt, claimSeq, 0)
	aClaim  = Claim{ID: claimID, Runner: "runner 1", LeaseMs: 30_000}
)

// plain returns the first job of a usual run, with default values.
func plain(seq uint64, line int) job.Job {
	id := job.NewID(claimAt-5000, seq, line)
	return job.Job{
		ID: id, Batch: id.WithLine(0), Client: "acme", Type: "resize", Status: job.Active, RunAttempts: 1, Claim: claimID, Runner: aClaim.Runner,
		Attributes: job.Attributes{Kind: job.Text, Priority: job.DefaultPriority, MaxAttempts: job.DefaultMaxAttempts, LeaseMs: aClaim.LeaseMs},
		CreatedAt:  id.At(), UpdatedAt: claimAt, TickledAt: claimAt, DeadlineAt: claimAt + aClaim.LeaseMs, Progress: -1,
	}
}

// lines returns n framed payloads.
func lines(frame job.Frame, payloads ...string) (parts [][]byte) {
	var b []byte
	for _, p := range payloads {
		b = frame.Append(b, []byte(p))
	}
	return [][]byte{b}
}

// everything returns a run of one job with every field set.
func everything() Run {
	j := plain(8, 7)
	j.Kind, j.Priority, j.MaxAttempts, j.RunAt, j.ExpiresAt, j.TimeoutMs, j.LeaseMs = job.JSON, 0, 9, claimAt-1, claimAt+1, 60_000, 45_000
	j.RunAttempts, j.Redrives, j.TickledAt, j.DeadlineAt = 3, 2, claimAt+10, claimAt+60_000
	j.UniqueKey, j.Traceparent, j.Meta = "order 7, %", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "colour=deep%20red,size=4"
	j.By, j.Step, j.Progress, j.Error = "oidc/corp/a b", "käse", 0, "it\nbroke"
	j.Attempts = []job.Attempt{{At: claimAt - 100, Runner: "other", Code: job.Error, ExitCode: 503, Error: j.Error, Why: job.Reported}}
	return Run{First: j, N: 1, Frame: job.LenFrame, Parts: lines(job.LenFrame, "{\n}")}
}

func claimText() ([]byte, Claim, []Run) {
	nothing := plain(9, 0)
	nothing.Kind = job.Nothing
	abandoned := plain(10, 0)
	single := plain(11, 3)
	single.Batch = job.ID{}
	abandoned.RunAttempts, abandoned.Attempts = 2, []job.Attempt{{At: claimAt - 1, Why: job.Abandoned}}
	list := []Run{
		{First: plain(7, 0), N: 3, Frame: job.LineFrame, Parts: lines(job.LineFrame, "first", "", "third")},
		everything(),
		{First: nothing, N: 100},
		{First: abandoned, N: 1, Frame: job.LineFrame, Parts: lines(job.LineFrame, "x")},
		{First: single, N: 2, Frame: job.LineFrame, Parts: lines(job.LineFrame, "y", "z")},
	}
	c := aClaim
	c.Jobs, c.Runs = Jobs(list), len(list)
	b := AppendClaim(nil, &c)
	for i := range list {
		b = AppendRun(b, &c, &list[i])
	}
	return b, c, list
}

// handledText is a claim whose jobs have handlers.
func handledText() ([]byte, Claim) {
	c := aClaim
	r := Run{First: plain(7, 0), N: 1, Frame: job.LineFrame, Parts: lines(job.LineFrame, "x")}
	other := r
	other.First = plain(8, 0)
	other.First.Client = "other"
	c.Jobs, c.Runs = 2, 2
	c.Handlers = []Handler{
		{ID: job.NewID(claimAt, 3, 0), Client: "acme", Type: "resize", Kind: "script", Digest: job.DocumentDigest{1, 0xff}},
		{ID: job.NewID(claimAt, 4, 0), Type: "resize", Kind: "http"},
	}
	b := AppendRun(AppendClaim(nil, &c), &c, &r)
	return AppendRun(b, &c, &other), c
}

func resultsText() ([]byte, Results, []ResultRun) {
	list := []ResultRun{
		{First: job.NewID(claimAt, 7, 0), N: 100, Status: job.Completed},
		{First: job.NewID(claimAt, 7, 100), N: 1, Refusal: Refusal{"claim_lost", "the claim does not hold the job"}},
		{First: job.NewID(claimAt, 8, 0), N: 2, Status: job.Purged},
	}
	r := Results{Ended: 4, Jobs: 103, Runs: 3}
	b := AppendResults(nil, &r)
	for i := range list {
		b = AppendResultRun(b, &list[i])
	}
	return b, r, list
}

func completionText() ([]byte, Completion, []OutcomeRun) {
	exit := int64(-1)
	all := job.Outcome{Code: job.Retry, ExitCode: 101, DelayMs: 0, Result: job.Result{OutputKind: job.Text, Output: []byte("a\nb")}}
	c := Completion{Claim: claimID, Runner: "r", All: &all}
	first := func(seq uint64, code job.Code) job.Outcome {
		return job.Outcome{ID: job.NewID(claimAt, seq, 5), Code: code, ExitCode: code.DefaultExitCode(), DelayMs: -1}
	}
	outputs, rich := first(7, job.OK), first(8, job.Error)
	outputs.OutputKind = job.JSON
	rich.ExitCode, rich.ProcessExit, rich.Error, rich.DelayMs, rich.OutputAddr, rich.LogAddr = 502, &exit, "no, not again", 1000, "s3://x/y", "sha256:z"
	list := []OutcomeRun{
		{Claim: claimID, Runner: "r", Outcome: outputs, N: 2, Frame: job.LineFrame, Outputs: []byte("1\n{\"a\":2}\n")},
		{Claim: job.NewID(claimAt, 901, 0), Runner: "s", Outcome: rich, N: 1},
		{Claim: claimID, Runner: "r", Outcome: first(9, job.Fail), N: 1000},
	}
	for i := range list {
		c.Jobs += list[i].N
	}
	c.Runs = len(list)
	b := AppendCompletion(nil, &c)
	for i := range list {
		b = AppendOutcomeRun(b, &c, &list[i])
	}
	return b, c, list
}

func creationText() ([]byte, Creation, []NewRun) {
	full := NewRun{
		N: 2, Client: "acme", Type: "resize", NewAttributes: NewAttributes{Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Meta: "colour=deep%20red,size=4"},
		Kind: job.JSON, Frame: job.LenFrame, Payloads: job.LenFrame.Append(job.LenFrame.Append(nil, []byte("{\n}")), []byte("7")),
	}
	for i, key := range NumberKeys {
		full.Numbers = append(full.Numbers, Number{key, int64(i) * 1000})
	}
	list := []NewRun{
		{N: 3, Kind: job.Text, Frame: job.LineFrame, Payloads: []byte("first\n\nthird\n")},
		full,
		{N: 100, Type: "empty"},
		{N: 1, Type: "bytes", NewAttributes: NewAttributes{Numbers: []Number{{"priority", 0}}}, Kind: job.Bytes, Frame: job.LineFrame, Payloads: []byte{0, 255, '\n'}},
	}
	c := Creation{Jobs: 106, Runs: len(list)}
	b := AppendCreation(nil, &c)
	for i := range list {
		b = AppendNewRun(b, &list[i])
	}
	return b, c, list
}

// TestGolden: writing the sections gives the texts in testdata/runs, and reading those texts gives the sections.
func TestGolden(t *testing.T) {
	claim, claimHead, jobs := claimText()
	results, resultsHead, resultRuns := resultsText()
	completion, completionHead, outcomes := completionText()
	creation, creationHead, newRuns := creationText()
	handled, handledHead := handledText()
	refused := AppendClaim(AppendResults(nil, &Results{Refusal: Refusal{"claim_lost", "gone"}}), &Claim{Refusal: Refusal{"too_many_parked_claims", "later"}})
	for name, text := range map[string][]byte{
		"creation": creation, "claim": claim, "results": results, "completion": completion, "complete_and_claim": append(bytes.Clone(results), claim...), "refused": refused,
		"handlers": handled,
	} {
		path := filepath.Join("..", "..", "testdata", "runs", name+".runs")
		if *rewrite {
			testkit.NoError(t, os.WriteFile(path, text, 0o644))
		}
		testkit.DeepEqual(t, testkit.Must(os.ReadFile(path))(t), text, path, "written")
	}
	same := func(what string, got, want any) {
		t.Helper()
		testkit.DeepEqual(t, got, want, what, "is read as", "was")
	}
	must := func(err error) { t.Helper(); testkit.NoError(t, err) }
	d := NewDecoder(append(bytes.Clone(results), claim...))
	r := testkit.Must(d.Results())(t)
	same("results", r, resultsHead)
	for i := range resultRuns {
		r := testkit.Must(d.Result())(t)
		same("result", r, resultRuns[i])
	}
	c := testkit.Must(d.Claim())(t)
	same("claim", c, claimHead)
	for i := range jobs {
		r := testkit.Must(d.Run(&c))(t)
		same("run", r, jobs[i])
	}
	must(d.End())
	h := testkit.Must(NewDecoder(handled).Claim())(t)
	same("claim with handlers", h, handledHead)
	d = NewDecoder(completion)
	o := testkit.Must(d.Completion())(t)
	same("completion", o, completionHead)
	for i := range outcomes {
		r := testkit.Must(d.Outcomes(&o))(t)
		same("outcomes", r, outcomes[i])
	}
	must(d.End())
	d = NewDecoder(creation)
	n := testkit.Must(d.Creation())(t)
	same("creation", n, creationHead)
	for i := range newRuns {
		r := testkit.Must(d.NewRun())(t)
		same("new run", r, newRuns[i])
	}
	must(d.End())
}

// read reads a whole text, and writes it again.
func read(text []byte) (again []byte, err error) {
	d := NewDecoder(text)
	if d.Is("batch") {
		return readBatch(bytes.NewReader(text))
	}
	if d.Is("complete") {
		c, err := d.Completion()
		if err != nil {
			return nil, err
		}
		again = AppendCompletion(again, &c)
		for range c.Runs {
			r, err := d.Outcomes(&c)
			if err != nil {
				return nil, err
			}
			n := 0
			if err := r.Each(func(job.Outcome) error { n++; return nil }); err != nil || n != r.N {
				return nil, fmt.Errorf("%d of %d outcomes: %w", n, r.N, err)
			}
			again = AppendOutcomeRun(again, &c, &r)
		}
		return again, d.End()
	}
	if d.Is("create") {
		c, err := d.Creation()
		if err != nil {
			return nil, err
		}
		again = AppendCreation(again, &c)
		for range c.Runs {
			r, err := d.NewRun()
			if err != nil {
				return nil, err
			}
			again = AppendNewRun(again, &r)
		}
		return again, d.End()
	}
	if d.Is("results") {
		c, err := d.Results()
		if err != nil {
			return nil, err
		}
		again = AppendResults(again, &c)
		for range c.Runs {
			r, err := d.Result()
			if err != nil {
				return nil, err
			}
			again = AppendResultRun(again, &r)
		}
		if err := d.End(); err == nil {
			return again, nil
		}
	}
	c, err := d.Claim()
	if err != nil {
		return nil, err
	}
	again = AppendClaim(again, &c)
	for range c.Runs {
		r, err := d.Run(&c)
		if err != nil {
			return nil, err
		}
		docs, err := r.Documents(nil)
		if err != nil || len(docs) != r.N {
			return nil, fmt.Errorf("%d of %d documents: %w", len(docs), r.N, err)
		}
		again = AppendRun(again, &c, &r)
	}
	return again, d.End()
}

func FuzzDecoder(f *testing.F) {
	claim, _, _ := claimText()
	results, _, _ := resultsText()
	completion, _, _ := completionText()
	creation, _, _ := creationText()
	handled, _ := handledText()
	batch, _, _, _ := batchText()
	one := Creation{NoBatch: true, Jobs: 1, Runs: 1}
	for _, text := range [][]byte{batch, unendedText(), claim, handled, results, completion, creation, AppendNewRun(AppendCreation(nil, &one), &NewRun{N: 1}), append(bytes.Clone(results), claim...), nil} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		again, err := read(text)
		testkit.MustHold(t, bytes.Equal(text, before), "the text was changed")
		testkit.MustHold(t, err != nil || bytes.Equal(again, text), string(text), "was accepted, and is written as", string(again))
	})
}

// FuzzRuns: documents that become runs become the same documents again.
func FuzzRuns(f *testing.F) {
	f.Add([]byte("abc"), []byte("first\nsecond"), "key", uint8(2))
	f.Add([]byte{0, 1, 2, 3, 255}, []byte("\n\n"), "", uint8(0))
	f.Fuzz(func(t *testing.T, shape, payload []byte, key string, cut uint8) {
		if len(shape) > job.MaxClaimJobs || job.CheckText("key", key, 1, job.MaxKeyBytes) != nil {
			return
		}
		var docs []job.Job
		line := 0
		for i, b := range shape {
			line += 1 + int(b>>7)
			j := plain(7, line)
			j.Payload = payload[min(len(payload), i*int(cut)):]
			j.Priority = int(b & 1)
			if b&0x30 == 0x30 {
				j.UniqueKey = key
			}
			if b&0x42 == 0x42 {
				j.Error, j.Attempts = key, []job.Attempt{{At: int64(b), Runner: key, Code: job.Retry, ExitCode: 100, Error: key, Why: job.Reported}}
			}
			docs = append(docs, j)
		}
		list := Of(docs)
		c := aClaim
		c.Jobs, c.Runs = Jobs(list), len(list)
		b := AppendClaim(nil, &c)
		for i := range list {
			b = AppendRun(b, &c, &list[i])
		}
		d := NewDecoder(b)
		c, err := d.Claim()
		if err != nil {
			if strings.Contains(err.Error(), "runner") {
				return
			}
			t.Fatal(err)
		}
		var got []job.Job
		for range c.Runs {
			r, err := d.Run(&c)
			testkit.NoError(t, err, "in", string(b))
			got = testkit.Must(r.Documents(got))(t)
		}
		err = d.End()
		testkit.MustHold(t, err == nil && len(got) == len(docs), len(got), "of", len(docs), "documents", err)
		for i := range docs {
			testkit.MustHold(t, bytes.Equal(got[i].Payload, docs[i].Payload), "payload", i, "is", string(got[i].Payload),
				"was", string(docs[i].Payload))
			got[i].Payload, docs[i].Payload = nil, nil
			testkit.MustHold(t, reflect.DeepEqual(got[i], docs[i]), "document", i, "is", got[i], "was", docs[i])
		}
	})
}

// TestRefused: the decoder accepts one spelling of each text, and refuses contradictory texts.
func TestRefused(t *testing.T) {
	claim, _, _ := claimText()
	completion, _, _ := completionText()
	results, _, _ := resultsText()
	creation, _, _ := creationText()
	handled, _ := handledText()
	for _, c := range []struct {
		name     string
		text     []byte
		old, new string
		want     string
	}{
		{"empty", nil, "", "", "the text ends where a line #:claim is expected"},
		{"another section", claim, "#:claim", "#:claims", "is not a line #:claim"},
		{"another version", claim, "v=1", "v=2", "v=2 is not in 1 … 1"},
		{"no version", claim, " v=1", "", "field v is missing"},
		{"unknown field", claim, " jobs=", " x=1 jobs=", "field jobs is missing, or is not in its place"},
		{"unknown last field", claim, "lease_ms=30000 jobs=107 runs=5", "lease_ms=30000 jobs=107 runs=5 x=1", `field "x=1" is unknown`},
		{"field twice", claim, " v=1", " v=1 v=1", "jobs is missing"},
		{"field without a value", claim, "client=acme", "client=", "client has no value"},
		{"two spaces", claim, " client", "  client", "client is missing"},
		{"id in capitals", completion, "claim_id=", "claim_id=A", "claim_id"},
		{"number with zeros", claim, "n=3", "n=03", "not a whole number"},
		{"number too high", claim, "n=3", "n=4194305", "is not in 1 … 4194304"},
		{"more jobs than said", claim, "n=3", "n=4", "payload does not end in a newline"},
		{"fewer jobs than said", claim, "n=100", "n=99", "do not have as many jobs"},
		{"jobs without runs", claim, "jobs=107 runs=5", "jobs=107 runs=0", "cannot be in 0 runs"},
		{"a default", claim, "frame=line bytes=13", "frame=line bytes=13 priority=4", "priority=4 has its default"},
		{"a frame that is the default", claim, "frame=line", "frame=none", "frame=none has its default"},
		{"bytes that are not there", claim, "bytes=13", "bytes=999999", "more than the"},
		{"bytes that cut a payload", claim, "bytes=13", "bytes=12", "payload does not end in a newline"},
		{"bytes that have another payload", claim, "bytes=13", "bytes=19", "is not the length of 3 texts"},
		{"a name that is none", claim, "client=acme", "client=a/b", "client may hold only"},
		{"a raw comma", claim, "unique_key=order%207", "unique_key=order,7", "raw"},
		{"meta out of order", claim, "colour=deep%20red,size=4", "size=4,colour=deep%20red", "canonical"},
		{"an error without an attempt", claim, " attempt_at=1789999999900", "", "attempt_at is missing"},
		{"another batch", claim, "batch=none", "batch=x", "batch=x must be none"},
		{"a key of several jobs", claim, "bytes=13", "bytes=13 unique_key=k", "require n=1"},
		{"rest", append(bytes.Clone(claim), 'x'), "", "", "1 bytes follow the last run"},
		{"result without a status", results, " status=completed", "", "one of the fields status and code"},
		{"result with both", results, "status=completed", "status=completed code=x", "one of the fields status and code"},
		{"outcome without a code", completion, "n=1000 code=failed", "n=1000", "code is missing"},
		{"unget", completion, "n=1000 code=failed", "n=1000 code=unget", "must be ok, failed, retry or error"},
		{"exit code of another class", completion, "exit_code=502", "exit_code=402", "does not belong to code=error"},
		{"delay of a failed job", completion, "n=1000 code=failed", "n=1000 code=failed delay_ms=1", "delay_ms requires"},
		{"outputs without a kind", completion, "kind=json frame=line", "frame=line", "kind, frame and bytes"},
		{"outputs of kind wasi", completion, "kind=json", "kind=wasi", "not wasi"},
		{"outcome for all without a claim", completion, "#:complete v=1 claim_id=" + claimID.String(), "#:complete v=1", "requires the field claim_id"},
		{"too many outcomes", completion, "jobs=1003", "jobs=10001", "jobs=10001 is not in 0 … 10000"},
		{"no outcome", []byte("#:complete v=1 jobs=0 runs=0\n"), "", "", "no outcome"},
		{"more handlers than said", handled, "handlers=2", "handlers=1", "is not a line #:run"},
		{"fewer handlers than said", handled, "runs=2 handlers=2", "runs=2 handlers=3", "2 runs cannot have 3 handlers"},
		{"a missing handler", handled, "#:handler handler_id", "#:handle handler_id", "is not a line #:handler"},
		{"a handler without an id", handled, "#:handler handler_id=", "#:handler x=", "handler_id is missing"},
		{"a handler without a kind", handled, " kind=script", "", "kind is missing"},
		{"a handler of a client that is none", handled, "client=acme", "client=a/b", "client may hold only"},
		{"a digest of another length", handled, "digest=sha256:01", "digest=sha256:0101", "64 hexadecimal digits"},
		{"a digest in capitals", handled, "digest=sha256:01ff", "digest=sha256:01FF", "64 hexadecimal digits"},
		{"a handler without a digest", handled, " digest=sha256:01ff" + strings.Repeat("0", 60), "", "digest is missing"},
		{"batch that is not none", creation, "#:create v=1", "#:create v=1 batch=x", "batch=x must be none"},
		{"no new jobs", creation, "jobs=106", "jobs=0", "jobs=0 is not in 1 …"},
		{"new jobs without a run", creation, "runs=4", "runs=0", "runs=0 is not in 1 …"},
		{"fewer new jobs than said", creation, "jobs=106", "jobs=107", "do not have as many jobs"},
		{"a job id of a new job", creation, "#:run n=3", "#:run job_id=" + claimID.String() + " n=3", "n is missing"},
		{"numbers out of order", creation, "run_at=0 delay_ms=1000", "delay_ms=1000 run_at=0", `field "run_at=0"`},
		{"a negative number", creation, "delay_ms=1000", "delay_ms=-1000", "is not in 0"},
		{"payloads without a kind", creation, "kind=json frame=len", "frame=len", "kind, frame and bytes"},
		{"the claim of the head again", completion, "n=1000 code", "n=1000 claim_id=" + claimID.String() + " code", "claim_id has its default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := bytes.Replace(c.text, []byte(c.old), []byte(c.new), 1)
			testkit.MustHold(t, c.old == "" || !bytes.Equal(text, c.text), c.old, "is not in the text")
			_, err := read(text)
			at, placed := errors.AsType[*Error](err)
			testkit.MustHold(t, err != nil && placed && strings.Contains(err.Error(), c.want), "error", err, "want", c.want)
			testkit.Holds(t, at.Offset >= len(text) || bytes.HasPrefix(text[at.Offset:], []byte("#:")) || c.name == "rest",
				"the error names byte", at.Offset, "which does not begin a head line")
		})
	}
	t.Run("long line", func(t *testing.T) {
		o := job.Outcome{ID: claimID, Code: job.Error, ExitCode: 500, DelayMs: -1, Error: strings.Repeat(" ", job.MaxErrorBytes)}
		c := Completion{Jobs: 1, Runs: 1}
		longest := AppendOutcomeRun(AppendCompletion(nil, &c), &c, &OutcomeRun{Outcome: o, N: 1})
		_, err := read(longest)
		testkit.NoError(t, err, "an error of", job.MaxErrorBytes, "bytes")
		o.Error += " "
		testkit.Fails(read(AppendOutcomeRun(AppendCompletion(nil, &c), &c, &OutcomeRun{Outcome: o, N: 1})))(t)
		line := append([]byte("#:claim v=1"), bytes.Repeat([]byte{'x'}, maxHeadBytes-10)...)
		testkit.Fails(read(line))(t, "the line is longer than")
	})
	t.Run("cut off", func(t *testing.T) {
		for n := range claim {
			_, err := read(claim[:n])
			testkit.MustHold(t, err != nil, n, "of", len(claim), "bytes are accepted")
		}
	})
}

// TestOverhead: besides its payloads, a run takes at most 200 bytes, and 2 more for each job.
func TestOverhead(t *testing.T) {
	r := Run{First: plain(7, 0), N: 1000, Frame: job.LineFrame}
	payloads := 0
	for range r.N {
		r.Parts = append(r.Parts, []byte("0123456789\n"))
		payloads += 10
	}
	c := aClaim
	c.Jobs, c.Runs = r.N, 1
	n := len(AppendRun(AppendClaim(nil, &c), &c, &r)) - payloads
	testkit.Holds(t, n <= 2*r.N+200+120, n, "bytes beside the payloads of", r.N, "jobs")
	n = len(AppendRun(nil, &c, &r)) - payloads
	testkit.Holds(t, n <= 2*r.N+200 && n >= r.N, "a run has", n, "bytes beside the payloads of", r.N, "jobs")
}
