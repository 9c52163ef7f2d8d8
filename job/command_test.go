package job

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/daybookq/daybook/job/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// commands has one command of each kind and form. Their texts are golden, because every journal must remain readable.
func commands() map[string]Command {
	at := func(line int) ID { return NewID(1670273606123, 812, line) }
	exit, negative := int64(137), int64(-1)
	usual := Group{Lines: 2, Client: "acme", Type: "resize", Attributes: Attributes{Kind: Text, Priority: 4, MaxAttempts: 3,
		Backoff: Backoff{InitialMs: 1000, FactorMilli: 2000, MaxMs: 3_600_000}, LeaseMs: 300_000, RetentionMs: 1_209_600_000}}
	deferred := Group{Lines: 1, Client: "acme", Type: "mail.send", Attributes: Attributes{Kind: Nothing, Priority: 9, RunAt: 1670273700000, MaxAttempts: 1, LeaseMs: 1000}}
	second := usual
	second.Lines, second.Kind = 1, JSON
	by := second
	by.By = "acme producer"
	wasi := usual
	wasi.Lines, wasi.Kind = 1, WASI
	full := usual
	full.ExpiresAt, full.TimeoutMs, full.Traceparent = 1670273700000, 60_000, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	full.Meta = mustMeta(map[string]string{"size": "4", "colour": "deep, red=yes", "empty": ""})
	for field := range reflect.TypeFor[Attributes]().NumField() {
		if name := reflect.TypeFor[Attributes]().Field(field).Name; name != "Kind" && name != "RunAt" && name != "OnComplete" && name != "Hops" && name != "By" && reflect.ValueOf(full.Attributes).Field(field).IsZero() {
			panic("create-all gives no " + name)
		}
	}
	follow := mustFollowOn(&Group{Type: "mail", Attributes: Attributes{MaxAttempts: 3, LeaseMs: 300_000, Meta: "a=b%20c"}}, 1000)
	next := mustFollowOn(&Group{Client: "b", Type: "thumb", Attributes: Attributes{MaxAttempts: 1, LeaseMs: 1000, OnComplete: follow}}, 0)
	followed := usual
	followed.OnComplete = next
	inherits := Group{Lines: 2, Type: "mail", Attributes: Attributes{Kind: Text, MaxAttempts: 3, LeaseMs: 300_000, OnComplete: follow}}
	once := Once{Scope: "claim r1", Key: "k 1", Digest: Digest{1, 2, 0xff}}
	zero, seven, now := 0, 7, int64(0)
	empty := usual
	empty.Lines, empty.Kind = 0, Nothing
	return map[string]Command{
		"create":         &Create{Groups: []Group{usual}, Frame: LineFrame, Longest: 13, Payloads: []byte("first payload\nsecond one\n")},
		"create-len":     &Create{Groups: []Group{second}, Frame: LenFrame, Longest: 9, Payloads: []byte("9\n{\"a\":\n1}\n\n")},
		"create-none":    &Create{Groups: []Group{deferred}, Frame: NoFrame},
		"create-groups":  &Create{Groups: []Group{usual, second}, Frame: LineFrame, Longest: 13, Payloads: []byte("first payload\nsecond one\n{}\n")},
		"create-joined":  &Create{Groups: []Group{usual, by}, Joined: true, Frame: LineFrame, Longest: 13, Payloads: []byte("first payload\nsecond one\n{}\n")},
		"create-wasi":    &Create{Groups: []Group{wasi}, Frame: LineFrame, Longest: 24, Payloads: []byte("sha256:1f s3://in%20put\n")},
		"claim":          Claim{Runner: "r1", Max: 1, MaxBytes: 8 << 20},
		"claim-filter":   Claim{Runner: "host 7, pid=3", Max: 100, Clients: []string{"acme", "b:c"}, Types: []string{"resize"}, LeaseMs: 30_000, MaxBytes: 65536},
		"tickle-job":     Tickle{IDs: []ID{at(0)}, Claim: at(0), Runner: "r1", LeaseMs: 60_000, Step: "half way", Progress: 500_000},
		"tickle-jobs":    Tickle{IDs: []ID{at(3), at(1 << 20)}, Progress: 0},
		"tickle-claim":   Tickle{Claim: at(0), Progress: -1},
		"tickle-runner":  Tickle{Runner: "r1", Progress: -1},
		"complete":       Complete{Outcomes: []Outcome{{ID: at(1), Code: OK, ExitCode: 200, DelayMs: -1}}},
		"complete-all":   Complete{Claim: at(0), Runner: "r1", All: &Outcome{Code: OK, ExitCode: 204, DelayMs: -1, Result: Result{OutputAddr: "s3://out"}}},
		"complete-addr":  Complete{Outcomes: []Outcome{{ID: at(1), Code: OK, ExitCode: 200, DelayMs: -1, Result: Result{OutputAddr: "s3://out", OutputAddrKind: JSON}}}},
		"complete-unget": Complete{Claim: at(0), All: &Outcome{Code: Unget, DelayMs: -1}},
		"complete-several": Complete{Claim: at(0), All: &Outcome{Code: Fail, ExitCode: 400, DelayMs: -1}, Outcomes: []Outcome{
			{ID: at(1), Code: Error, ExitCode: 500, DelayMs: 0, Error: "no luck,\n50% = bad", Result: Result{ProcessExit: &exit}},
			{ID: at(2), Code: Retry, ExitCode: 100, DelayMs: 5000, Result: Result{ProcessExit: &negative, OutputKind: Bytes, Output: []byte("two\nlines\x00")}},
			{ID: at(3), Code: OK, ExitCode: 200, DelayMs: -1, Result: Result{OutputKind: Text, Output: []byte{}}},
			{ID: at(4), Code: OK, ExitCode: 200, DelayMs: -1, Result: Result{OutputKind: JSON, Output: []byte(`{"a":1}`)}},
		}},
		"create-on-complete": &Create{Groups: []Group{followed}, Frame: LineFrame, Longest: 13, Payloads: []byte("first payload\nsecond one\n")},
		"complete-then": Complete{Claim: at(0), Outcomes: []Outcome{
			{ID: at(1), Code: OK, ExitCode: 200, DelayMs: -1, Result: Result{OutputKind: Text, Output: []byte("out")},
				Then: &Create{Groups: []Group{inherits, second}, Unique: []UniqueKey{{1, "k"}}, Frame: LenFrame, Longest: 5, Payloads: []byte("5\na\nb c\n0\n\n2\n{}\n")}},
			{ID: at(2), Code: Fail, ExitCode: 400, DelayMs: -1, Then: &Create{Groups: []Group{deferred}, Frame: LenFrame, Payloads: []byte("0\n\n")}},
		}},
		"complete-unclaimed": Complete{Unclaimed: true, Outcomes: []Outcome{
			{ID: at(1), Code: OK, ExitCode: 200, DelayMs: -1, Result: Result{OutputKind: Bytes, Output: []byte("out\n")}},
			{ID: at(2), Code: Error, ExitCode: 500, DelayMs: 0, Error: "no luck"},
		}},
		"complete-log": Complete{Claim: at(0), Outcomes: []Outcome{
			{ID: at(1), Code: Error, ExitCode: 500, DelayMs: -1, Error: "no", Result: Result{OutputAddr: "sha256:a", LogAddr: "sha256:b c"}},
		}},
		"create-submission": &Create{Groups: []Group{usual}, Frame: LineFrame, Longest: 1, Payloads: []byte("a\nb\n"),
			Submission: &Submission{Name: "nightly run", Meta: "model=a%20b,user:-42", OnFailure: CancelRest, ChunkSize: 20, Traceparent: full.Traceparent,
				Tracestate: "a=b,c=d", Baggage: "k=v", Metadata: []byte("opaque\n\x00"), Open: true, Paused: true}},
		"create-submission-empty": &Create{Groups: []Group{empty}, Submission: &Submission{}},
		"create-submission-unique": &Create{Groups: []Group{usual}, Unique: []UniqueKey{{1, "k"}}, Frame: LineFrame, Longest: 1, Payloads: []byte("a\nb\n"),
			Submission: &Submission{Metadata: []byte("line=1 key=k\n")}},
		"create-into":  &Create{Groups: []Group{usual}, Into: at(0), Frame: LineFrame, Longest: 1, Payloads: []byte("a\nb\n")},
		"close-batch":  ChangeBatch{Op: CloseBatch, Batch: at(0)},
		"resume-batch": ChangeBatch{Op: ResumeBatch, Batch: at(0)},

		"pause":      Pause{Client: "acme", Type: "resize", Paused: true},
		"resume":     Pause{Client: "acme", Type: "resize"},
		"tick":       Tick{},
		"tick-as-of": Tick{AsOf: 1670273606123},
		"tick-rows":  Tick{AsOf: 1670273606123, Rows: MaxTickRows},
		"grace":      Grace{},
		"mark":       Mark{},
		"level":      SetLevel{Level: 1},

		"history":      SetHistory{Bytes: 4 << 30, AgeMs: 14 * 86_400_000},
		"history-trim": SetHistory{Before: 7},

		"create-all": &Create{Groups: []Group{full}, Unique: []UniqueKey{{0, "order 7"}, {1, "a=b,c"}}, Once: once, Frame: LineFrame, Longest: 1,
			Payloads: []byte("a\nb\n")},
		"create-unique-groups": &Create{Groups: []Group{usual, second}, Unique: []UniqueKey{{2, "k"}}, Frame: LineFrame, Longest: 13,
			Payloads: []byte("first payload\nsecond one\n{}\n")},
		"claim-fair":            Claim{Runner: "r1", Max: 10, MaxBytes: 1, Strategy: Fair, Once: once},
		"claim-distinct":        Claim{Runner: "r1", Max: 10, MaxBytes: 1, Strategy: mustDistinct("user", Oldest), Once: once},
		"claim-distinct-nested": Claim{Runner: "r1", Max: 10, MaxBytes: 1, Strategy: mustDistinct("user", mustDistinct("a.b:c", Fair))},
		"claim-random":          Claim{Runner: "r1", Max: 10, MaxBytes: 1, Strategy: Random},
		"cancel":                Move{Op: Cancel, Job: at(1)},
		"cancel-batch":          Move{Op: Cancel, Batch: at(0)},
		"redrive-queue":         Move{Op: Redrive, Client: "acme", Type: "resize", Status: Failed},
		"run":                   Move{Op: Run, Job: at(1)},
		"delete-queue":          Move{Op: Delete, Client: "acme", Type: "resize", Status: Active},
		"patch":                 Patch{Job: at(1), Priority: &zero, RunAt: &now, MaxAttempts: &seven},
		"patch-one":             Patch{Job: at(1), MaxAttempts: &seven},
		"open-session":          OpenSession{Runner: "host 7, pid=3"},
		"open-nameless":         OpenSession{},
		"end-session":           EndSession{Session: at(0)},
		"put-handler": PutDocument{Kind: HandlerDocument, Client: "acme", Name: "resize", Summary: "http", By: "anna@host 7",
			Document: []byte(`{"kind":"http","url":"http://127.0.0.1:8080/"}`)},
		"put-handler-of-all": PutDocument{Kind: HandlerDocument, Name: "resize", Summary: "script", If: IfVersion(7), Document: []byte("{\"kind\":\"script\",\n\"lang\":\"sh\"}")},
		"put-key": PutDocument{Kind: KeyDocument, Name: "acme.producer", Summary: "producer", If: IfNone, By: "anna",
			Document: (&Key{Roles: RolesOf(RoleProducer), Generation: 1, Sum: KeySum{1}}).Document()},
		"put-login": PutDocument{Kind: LoginDocument, Name: "0a", Summary: "boss", If: IfNone, By: "boss",
			Document: (&Login{By: "boss", Until: MaxLoginMs, KeySum: KeySum{1}}).Document()},
		"put-login-of-issuer": PutDocument{Kind: LoginDocument, Name: "0a", If: IfNone,
			Document: (&Login{By: "oidc/corp/anna", Until: MaxLoginMs, Issuer: "corp", Rule: "operators"}).Document()},
		"delete-login":      DeleteDocument{Kind: LoginDocument, Name: "0a"},
		"put-quota":         PutDocument{Kind: QuotaDocument, Name: "acme", Summary: "1000/7/4096/2/30/5", Document: (&Quota{1000, 7, 4096, 2, 30, 5}).Document()},
		"delete-key":        DeleteDocument{Kind: KeyDocument, Name: "acme.producer"},
		"delete-handler":    DeleteDocument{Kind: HandlerDocument, Client: "acme", Name: "resize", If: Condition(DocumentDigest{1}.String()), By: "anna"},
		"put-fileset":       PutDocument{Kind: FilesetDocument, Client: "acme", Name: "input", Digest: DocumentDigest{1, 0xff}, Summary: FilesetSummary(100_000, 1<<50), If: IfExists},
		"put-fileset-empty": PutDocument{Kind: FilesetDocument, Name: "input_2026-11-23T04:00:00Z", Summary: FilesetSummary(0, 0), If: IfNone},
		"delete-fileset":    DeleteDocument{Kind: FilesetDocument, Name: "input"},
		"lose-runner":       LoseRunner{Runner: "host 7, pid=3", Through: 1 << 41},
		"lose-runner-early": LoseRunner{Runner: "r1"},
		"create-number": &Create{Groups: []Group{usual}, Once: Once{Session: at(0), Slot: 255, Number: MaxNumber, Digest: Digest{1}}, Frame: LineFrame, Longest: 1,
			Payloads: []byte("a\nb\n")},
		"claim-number": Claim{Runner: "r1", Max: 10, MaxBytes: 1, Once: Once{Session: at(0), Number: 7, Digest: Digest{1}}},
		"complete-number": Complete{Claim: at(0), All: &Outcome{Code: OK, ExitCode: 200, DelayMs: -1},
			Once: Once{Session: at(0), Slot: 1, Number: 8, Part: 99, Digest: Digest{1}}},
		"complete-key": Complete{Outcomes: []Outcome{{ID: at(1), Code: OK, ExitCode: 200, DelayMs: -1}}, Once: once},
		"stop":         Switch{Stopped: true},
		"start":        Switch{},
	}
}

func mustMeta(m map[string]string) Meta {
	meta, err := NewMeta(m)
	if err != nil {
		panic(err)
	}
	return meta
}

func mustFollowOn(g *Group, delayMs int64) FollowOn {
	f, err := NewFollowOn(g, delayMs)
	if err != nil {
		panic(err)
	}
	return f
}

func TestGolden(t *testing.T) {
	for name, cmd := range commands() {
		t.Run(name, func(t *testing.T) {
			fields, body := cmd.Encode()
			text := append(append([]byte(cmd.Verb()+"\n"), fields...), '\n')
			text = append(text, body...)
			path := filepath.Join("testdata", "v1", name)
			if *rewrite {
				testkit.NoError(t, os.WriteFile(path, text, 0o644))
			}
			want := testkit.Must(os.ReadFile(path))(t)
			testkit.DeepEqual(t, text, want, "is written as", "and was once")
			parts := bytes.SplitN(want, []byte("\n"), 3)
			got := testkit.Must(Decode(string(parts[0]), parts[1], parts[2]))(t)
			if !reflect.DeepEqual(got, cmd) {
				c, ok := cmd.(*Create)
				testkit.Holds(t, ok && sameCreate(c, got.(*Create)), "is read as", got, "want", cmd)
			}
		})
	}
	files, err := os.ReadDir(filepath.Join("testdata", "v1"))
	testkit.Holds(t, err == nil && len(files) == len(commands()), len(files), "golden files of", len(commands()), "commands", err)
}

// sameCreate treats an empty body and a nil one as equal.
func sameCreate(a, b *Create) bool {
	x, y := *a, *b
	x.Payloads, y.Payloads = nil, nil
	return reflect.DeepEqual(x, y) && bytes.Equal(a.Payloads, b.Payloads)
}

func TestDecodeRefuses(t *testing.T) {
	id := NewID(1670273606123, 812, 1).String()
	const group = "client=a type=x kind=text max_attempts=3 lease_ms=1000"
	for name, test := range map[string]struct{ verb, fields, body, want string }{
		"no verb":                                   {"", "", "", "unknown verb"},
		"an unknown verb":                           {"conquer", "", "", "unknown verb"},
		"an unknown field":                          {"claim", "runner=r max=1 max_bytes=1 wait_ms=5", "", `unknown field "wait_ms"`},
		"a field twice":                             {"claim", "runner=r max=1 max_bytes=1 max=2", "", "twice"},
		"a body for a claim":                        {"claim", "runner=r max=1 max_bytes=1", "x", "unexpected body of 1 bytes"},
		"a claim without a runner":                  {"claim", "max=1 max_bytes=1", "", "is missing"},
		"a claim without max":                       {"claim", "runner=r max_bytes=1", "", "is missing"},
		"a claim without max_bytes":                 {"claim", "runner=r max=1", "", "is missing"},
		"a claim of a bad name":                     {"claim", "runner=r max=1 max_bytes=1 clients=a,..", "", "must not be"},
		"a claim of an empty name":                  {"claim", "runner=r max=1 max_bytes=1 clients=a,", "", "must have 1 to"},
		"a runner that is not UTF-8":                {"claim", "runner=\xff max=1 max_bytes=1", "", "UTF-8"},
		"a tickle of nothing":                       {"tickle", "lease_ms=1000", "", "neither jobs nor claim nor runner"},
		"a tickle of no id":                         {"tickle", "", "x\n", "line \"x\""},
		"a tickle of an id without end":             {"tickle", "", id, "line"},
		"a tickle of an empty line":                 {"tickle", "", id + "\n\n", "line \"\""},
		"a run of a queue":                          {"run", "client=a type=x", "", "is for one job"},
		"a run of a batch":                          {"run", "batch=018bcfe5-6800-7000-8000-000004000000", "", "is for one job"},
		"a step without jobs":                       {"tickle", "runner=r step=s", "", "want jobs"},
		"progress without jobs":                     {"tickle", "runner=r progress=0", "", "want jobs"},
		"a complete without outcome":                {"complete", "", "", "no outcome"},
		"all without outcome":                       {"complete", "claim=" + id + " all=true", "", "no outcome"},
		"all without a claim":                       {"complete", "all=true", "code=ok exit_code=200\n", "wants a claim"},
		"all is false":                              {"complete", "claim=" + id + " all=false", "code=ok exit_code=200\n", "unknown field"},
		"an outcome without a job":                  {"complete", "claim=" + id, "code=ok exit_code=200\n", "the job is missing"},
		"two outcomes for all":                      {"complete", "claim=" + id + " all=true", "code=ok exit_code=200\ncode=ok exit_code=200\n", "the job is missing"},
		"all behind others":                         {"complete", "claim=" + id + " all=true", "id=" + id + " code=ok exit_code=200\ncode=ok exit_code=200\n", "the job is missing"},
		"an outcome without an end":                 {"complete", "", "id=" + id + " code=ok exit_code=200", "does not end"},
		"an outcome without a code":                 {"complete", "", "id=" + id + " exit_code=200\n", "do not fit"},
		"an outcome of no code":                     {"complete", "", "id=" + id + " code=done exit_code=200\n", "not one of ok"},
		"an exit code of another class":             {"complete", "", "id=" + id + " code=ok exit_code=400\n", "do not fit"},
		"an outcome without exit code":              {"complete", "", "id=" + id + " code=ok\n", "do not fit"},
		"an unknown field in one":                   {"complete", "", "id=" + id + " code=ok exit_code=200 x=1\n", "unknown field"},
		"an output without a kind":                  {"complete", "", "id=" + id + " code=ok exit_code=200 output_bytes=1\nx\n", "without its kind"},
		"an output of no kind":                      {"complete", "", "id=" + id + " code=ok exit_code=200 output_kind=xml output_bytes=1\nx\n", "not one of"},
		"an output cut off":                         {"complete", "", "id=" + id + " code=ok exit_code=200 output_kind=text output_bytes=5\nabc\n", "cut off"},
		"an output without its newline":             {"complete", "", "id=" + id + " code=ok exit_code=200 output_kind=text output_bytes=3\nabc", "cut off"},
		"no jobs to create":                         {"complete", "", "id=" + id + " code=ok exit_code=200 then_bytes=1\n\n\n", "n, client, type"},
		"jobs to create cut off":                    {"complete", "", "id=" + id + " code=ok exit_code=200 then_bytes=9\nn=1\n", "cut off"},
		"jobs to create of a retry":                 {"complete", "", then(id, "retry exit_code=100", "n=1 frame=len "+group, "0\n\n"), "may run again"},
		"jobs to create in lines":                   {"complete", "", then(id, "ok exit_code=200", "n=1 frame=line longest=1 "+group, "x\n"), "their frame"},
		"jobs to create in one line":                {"complete", "", then(id, "ok exit_code=200", "n=1 frame=len "+group, ""), "payload length"},
		"jobs to create of no type":                 {"complete", "", then(id, "ok exit_code=200", "n=1 frame=len max_attempts=3 lease_ms=1000", "0\n\n"), "is missing"},
		"too many jobs to create":                   {"complete", "", then(id, "ok exit_code=200", "n=101 frame=len "+group, strings.Repeat("0\n\n", 101)), "the maximum is 100"},
		"joined jobs to create":                     {"complete", "", then(id, "ok exit_code=200", "n=1 joined=true frame=len "+group, "0\n\n"), "joined"},
		"too many jobs of a command":                {"complete", "", strings.Repeat(then(id, "ok exit_code=200", "n=100 frame=len "+group, strings.Repeat("0\n\n", 100)), 11), "1100 jobs"},
		"jobs to create for all":                    {"complete", "claim=" + id + " all=true", strings.TrimPrefix(then(id, "ok exit_code=200", "n=1 frame=len "+group, "0\n\n"), "id="+id+" "), "for all creates jobs"},
		"an on_complete of no type":                 {"create", "n=1 frame=none on_complete=kind%3Dnothing%20max_attempts%3D3%20lease_ms%3D1000 " + group, "", "is missing"},
		"an on_complete in no order":                {"create", "n=1 frame=none on_complete=max_attempts%3D3%20type%3Dx%20lease_ms%3D1000 " + group, "", "canonical"},
		"an on_complete with a time":                {"create", "n=1 frame=none on_complete=type%3Dx%20kind%3Dnothing%20run_at%3D5%20max_attempts%3D3%20lease_ms%3D1000 " + group, "", "a time"},
		"a long on_complete":                        {"create", "n=1 frame=none on_complete=" + strings.Repeat("x", MaxFollowOnBytes+1) + " " + group, "", "the maximum is 4096"},
		"unclaimed with a claim":                    {"complete", "unclaimed=true claim=" + id, "id=" + id + " code=ok exit_code=200\n", "has a claim"},
		"unclaimed with a runner":                   {"complete", "unclaimed=true runner=r", "id=" + id + " code=ok exit_code=200\n", "has a claim"},
		"unclaimed for all":                         {"complete", "unclaimed=true claim=" + id + " all=true", "code=ok exit_code=200\n", "has a claim"},
		"unclaimed for all of nothing":              {"complete", "unclaimed=true all=true", "code=ok exit_code=200\n", "has a claim"},
		"unclaimed is false":                        {"complete", "unclaimed=false", "id=" + id + " code=ok exit_code=200\n", "unknown field"},
		"unclaimed unget":                           {"complete", "unclaimed=true", "id=" + id + " code=unget\n", "is unget"},
		"unclaimed damaged":                         {"complete", "unclaimed=true", "id=" + id + " code=ok exit_code=200\nid=" + id + " code=damaged\n", "outcome 1 of an unclaimed completion is damaged"},
		"unclaimed without outcome":                 {"complete", "unclaimed=true", "", "no outcome"},
		"unclaimed that creates jobs":               {"complete", "unclaimed=true", then(id, "ok exit_code=200", "n=1 frame=len "+group, "0\n\n"), "creates jobs"},
		"an unclaimed claim":                        {"claim", "runner=r max=1 max_bytes=1 unclaimed=true", "", "unknown field"},
		"a pause without a type":                    {"pause", "client=a", "", "is missing"},
		"a tick with a field":                       {"tick", "n=1", "", "unknown field"},
		"a mark with a body":                        {"mark", "", "\n", "unexpected body"},
		"no level":                                  {"level", "", "", "level is missing"},
		"no bound of history":                       {"history", "", "", "bytes or before is missing"},
		"half a bound of history":                   {"history", "bytes=1048576", "", "are given together"},
		"the other half":                            {"history", "age_ms=3600000 before=1", "", "are given together"},
		"a cancel of nothing":                       {"cancel", "", "", "one job, or one batch"},
		"a cancel of two things":                    {"cancel", "id=" + id + " batch=" + id, "", "one job, or one batch"},
		"a cancel of half a queue":                  {"cancel", "client=a", "", "one job, or one batch"},
		"a cancel of what has ended":                {"cancel", "batch=" + id + " status=failed", "", "does not take"},
		"a cancel of one in a status":               {"cancel", "id=" + id + " status=pending", "", "does not take"},
		"a delete in no status":                     {"delete", "batch=" + id + " status=purged", "", "is not one of"},
		"a patch of nothing":                        {"patch", "id=" + id, "", "what to change"},
		"a patch of no job":                         {"patch", "priority=1", "", "what to change"},
		"a stop with a field":                       {"stop", "client=a", "", "unknown field"},
		"an unknown strategy":                       {"claim", "runner=r max=1 max_bytes=1 strategy=best", "", "not one of oldest"},
		"a strategy of no name":                     {"claim", "runner=r max=1 max_bytes=1 strategy=", "", "not key=value"},
		"a distinct of no strategy":                 {"claim", "runner=r max=1 max_bytes=1 strategy=prefer_distinct:user", "", "not one of oldest"},
		"a distinct of no key":                      {"claim", "runner=r max=1 max_bytes=1 strategy=prefer_distinct:/random", "", "1 to 64 bytes"},
		"a distinct of an odd key":                  {"claim", "runner=r max=1 max_bytes=1 strategy=prefer_distinct:a%20b/random", "", "may hold only"},
		"a distinct under nothing":                  {"claim", "runner=r max=1 max_bytes=1 strategy=user/random", "", "is not prefer_distinct:KEY"},
		"a distinct over a base":                    {"claim", "runner=r max=1 max_bytes=1 strategy=fair/random", "", "is not prefer_distinct:KEY"},
		"a key without a scope":                     {"claim", "runner=r max=1 max_bytes=1 key=k digest=" + strings.Repeat("00", 16), "", "go together"},
		"a number without a session":                {"claim", "runner=r max=1 max_bytes=1 number=1 digest=" + strings.Repeat("00", 16), "", "go together"},
		"a session without a number":                {"claim", "runner=r max=1 max_bytes=1 session=" + id, "", "go together"},
		"a slot without a session":                  {"claim", "runner=r max=1 max_bytes=1 slot=1", "", "go together"},
		"a key beside a number":                     {"claim", "runner=r max=1 max_bytes=1 scope=s key=k session=" + id + " number=1", "", "go together"},
		"a key beside a session":                    {"claim", "runner=r max=1 max_bytes=1 scope=s key=k session=" + id, "", "go together"},
		"a number beside a scope":                   {"claim", "runner=r max=1 max_bytes=1 scope=s number=1 session=" + id, "", "go together"},
		"a part of a claim":                         {"claim", "runner=r max=1 max_bytes=1 number=1 part=1 session=" + id, "", "only with a completion"},
		"a part of nothing":                         {"complete", "part=1", "id=" + id + " code=ok exit_code=200\n", "go together"},
		"an end of no session":                      {"endsession", "", "", "session is missing"},
		"an end with a runner":                      {"endsession", "session=" + id + " runner=r", "", "unknown field"},
		"a session with a field":                    {"opensession", "claim=" + id, "", "unknown field"},
		"a digest that is short":                    {"claim", "runner=r max=1 max_bytes=1 key=k scope=s digest=00", "", "not a digest"},
		"a digest in upper case":                    {"claim", "runner=r max=1 max_bytes=1 key=k scope=s digest=" + strings.Repeat("AA", 16), "", "not a digest"},
		"unique keys out of order":                  {"create", "n=2 unique=2 frame=none " + group, "line=1 key=a\nline=0 key=b\n", "after the one before"},
		"a unique key of no line":                   {"create", "n=1 unique=1 frame=none " + group, "line=1 key=a\n", "after the one before"},
		"a unique key of nothing":                   {"create", "n=1 unique=1 frame=none " + group, "line=0\n", "no key"},
		"a unique key too few":                      {"create", "n=1 unique=1 frame=none " + group, "", "is missing"},
		"an unknown field beside one":               {"create", "n=1 unique=1 frame=none " + group, "line=0 key=a x=1\n", "unknown field"},
		"meta in another order":                     {"create", "n=1 frame=none meta=b=1,a=2 " + group, "", "canonical"},
		"meta of one name twice":                    {"create", "n=1 frame=none meta=a=1,a=2 " + group, "", "canonical"},
		"meta with a raw escape":                    {"create", "n=1 frame=none meta=a=%41 " + group, "", "name=value"},
		"meta without a value":                      {"create", "n=1 frame=none meta=a " + group, "", "name=value"},
		"meta of a bad name":                        {"create", "n=1 frame=none meta=a/b=1 " + group, "", "may hold only"},
		"no traceparent":                            {"create", "n=1 frame=none traceparent=00-00-00-00 " + group, "", "version 00"},
		"a create of nothing":                       {"create", "frame=line " + group, "", "is missing"},
		"no client":                                 {"create", "n=1 frame=none type=x kind=text max_attempts=3 lease_ms=1000", "", "is missing"},
		"an unknown frame":                          {"create", "n=1 frame=box " + group, "x\n", "not one of none, line, len"},
		"an unknown kind":                           {"create", "n=1 frame=line client=a type=x kind=xml max_attempts=3 lease_ms=1000", "x\n", "not one of nothing"},
		"payloads without a frame":                  {"create", "n=1 frame=none " + group, "x\n", "without a frame"},
		"a backoff of two numbers":                  {"create", "n=1 frame=none backoff=1:2 " + group, "", "initial:factor:max"},
		"attributes beside groups":                  {"create", "n=2 frame=none groups=2 client=a", "", "beside groups"},
		"one group as several":                      {"create", "n=1 frame=none groups=1", "n=1 " + group + "\n", "not in 2"},
		"a group too few":                           {"create", "n=2 frame=none groups=2", "n=2 " + group + "\n", "group 1 is missing"},
		"an unknown field in a group":               {"create", "n=2 frame=none groups=2", strings.Repeat("n=1 x=1 "+group+"\n", 2), `group 0: unknown field "x"`},
		"a document of no kind":                     {"deletedocument", "name=a", "", "kind or name is missing"},
		"a document of no name":                     {"deletedocument", "kind=handler client=a", "", "kind or name is missing"},
		"a document of another kind":                {"deletedocument", "kind=job name=a", "", "no kind of documents"},
		"a document of a bad name":                  {"deletedocument", "kind=handler name=a/b", "", "may hold only"},
		"a delete with a digest":                    {"deletedocument", "kind=fileset name=a digest=sha256:" + strings.Repeat("ab", 32), "", "unknown field"},
		"a delete with a body":                      {"deletedocument", "kind=fileset name=a", "x", "unexpected body"},
		"an unknown condition":                      {"deletedocument", "kind=handler name=a if=newest", "", "neither the number of a version nor a digest"},
		"a condition on version 0":                  {"deletedocument", "kind=handler name=a if=0", "", "neither the number of a version nor a digest"},
		"a condition on +1":                         {"deletedocument", "kind=handler name=a if=+1", "", "neither the number of a version nor a digest"},
		"a long name of a person":                   {"deletedocument", "kind=handler name=a author=" + strings.Repeat("x", MaxByBytes+1), "", "1 to 128 bytes"},
		"a handler without a kind":                  {"putdocument", "kind=handler name=a", "{}", "summary"},
		"a handler without a document":              {"putdocument", "kind=handler name=a summary=exec", "", "document"},
		"a handler that is a blob":                  {"putdocument", "kind=handler name=a summary=exec digest=sha256:" + strings.Repeat("ab", 32), "{}", "if and only if it is a blob"},
		"a fileset without a manifest":              {"putdocument", "kind=fileset name=a summary=1/2", "", "if and only if it is a blob"},
		"a fileset with a document":                 {"putdocument", "kind=fileset name=a summary=1/2 digest=sha256:" + strings.Repeat("ab", 32), "x", "unexpected body"},
		"a fileset of no size":                      {"putdocument", "kind=fileset name=a digest=sha256:" + strings.Repeat("ab", 32), "", "not the number of files/bytes"},
		"a fileset of negative size":                {"putdocument", "kind=fileset name=a summary=1/-2 digest=sha256:" + strings.Repeat("ab", 32), "", "not the number of files/bytes"},
		"a fileset of an odd size":                  {"putdocument", "kind=fileset name=a summary=1/02 digest=sha256:" + strings.Repeat("ab", 32), "", "not the number of files/bytes"},
		"a manifest that is short":                  {"putdocument", "kind=fileset name=a digest=sha256:ab", "", "64 hexadecimal digits"},
		"a manifest that is long":                   {"putdocument", "kind=fileset name=a digest=sha256:" + strings.Repeat("ab", 33), "", "64 hexadecimal digits"},
		"a manifest in upper case":                  {"putdocument", "kind=fileset name=a digest=sha256:" + strings.Repeat("AB", 32), "", "64 hexadecimal digits"},
		"joined with a key":                         {"create", "n=1 unique=1 joined=true frame=none " + group, "line=0 key=a\n", "has keys"},
		"an actor of a group that shares no record": {"create", "n=1 by=k frame=none " + group, "", "does not share a record"},
		"joined or not":                             {"create", "n=1 joined=false frame=none " + group, "", "can only be true"},
		"groups of fewer lines":                     {"create", "n=3 frame=none groups=2", strings.Repeat("n=1 "+group+"\n", 2), "the groups have 2 lines"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, err := Decode(test.verb, []byte(test.fields), []byte(test.body))
			testkit.MustHold(t, err != nil, "is read as", cmd)
			testkit.Failed(t, err, test.want)
		})
	}
}

// then returns the text of an outcome that creates jobs.
func then(id, code, fields, body string) string {
	jobs := fields + "\n" + body
	return fmt.Sprintf("id=%s code=%s then_bytes=%d\n%s\n", id, code, len(jobs), jobs)
}

func FuzzDecode(f *testing.F) {
	for _, cmd := range commands() {
		fields, body := cmd.Encode()
		f.Add(cmd.Verb(), []byte(fields), body)
	}
	f.Fuzz(func(t *testing.T, verb string, fields, body []byte) {
		cmd, err := Decode(verb, fields, body)
		if err != nil {
			return
		}
		again, rest := cmd.Encode()
		back, err := Decode(cmd.Verb(), again, rest)
		testkit.NoError(t, err, verb, string(fields), "with", string(body), "is read as", cmd, "written as",
			string(again), "with", string(rest), "and then refused")
		if c, ok := cmd.(*Create); ok && sameCreate(c, back.(*Create)) {
			return
		}
		testkit.MustHold(t, reflect.DeepEqual(cmd, back), verb, string(fields), "with", string(body), "is read as", cmd, "and again as", back)
	})
}

// BenchmarkCommands measures encoding a command, and decoding it again before it is proposed.
func BenchmarkCommands(b *testing.B) {
	id := NewID(1670273606123, 812, 3)
	list := map[string]Command{
		"claim": Claim{Runner: "host 7, pid=3", Max: 1, Clients: []string{"acme"}, Types: []string{"resize"}, LeaseMs: 30_000, MaxBytes: 8 << 20, Announced: true},
		"complete": Complete{Claim: id, Runner: "host 7, pid=3", Outcomes: []Outcome{
			{ID: id, Code: OK, ExitCode: 200, DelayMs: -1, Result: Result{OutputKind: Text, Output: []byte("two\nlines")}},
		}},
		"create":        commands()["create"],
		"create/groups": thousandGroups(),
	}
	for name, cmd := range list {
		fields, body := cmd.Encode()
		b.Run("encode/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fields, body = cmd.Encode()
			}
		})
		b.Run("decode/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				testkit.Must(Decode(cmd.Verb(), fields, body))(b)
			}
		})
	}
}

// thousandGroups is the create with the longest header: a thousand groups, each with as much meta as a job may have.
func thousandGroups() *Create {
	c := &Create{Frame: LineFrame, Longest: 1}
	for i := range MaxGroups {
		meta := map[string]string{}
		for entry := range MaxMeta {
			meta[fmt.Sprint("k", entry)] = fmt.Sprintf("%0250d", i)
		}
		c.Groups = append(c.Groups, Group{Client: "acme", Type: "groups", Lines: 1, Attributes: Attributes{MaxAttempts: 3, LeaseMs: 1000, Meta: mustMeta(meta)}})
		c.Payloads = c.Frame.Append(c.Payloads, []byte("p"))
	}
	return c
}

// TestTexts: the texts of attributes are all counted and copied.
func TestTexts(t *testing.T) {
	var a Attributes
	v := reflect.ValueOf(&a).Elem()
	texts := 0
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.String && f.Type() != reflect.TypeFor[Kind]() {
			f.SetString(strings.Repeat("x", 10))
			texts++
		}
	}
	before := a
	a.CloneTexts()
	testkit.Holds(t, a.Texts() == 10*texts && a == before, a.Texts(), "bytes in", texts, "texts", a)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.String && unsafe.StringData(f.String()) == unsafe.StringData(reflect.ValueOf(before).Field(i).String()) {
			t.Errorf("%s is not copied", v.Type().Field(i).Name)
		}
	}
}
