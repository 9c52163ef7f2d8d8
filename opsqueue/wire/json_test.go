package wire

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write the documents of testdata/json again")

func sampleSubmission() Submission {
	return Submission{
		ID: vectorID, Prefix: text("0198f0a0-0000-7000-8000-000000000000"), ChunksTotal: 5, ChunksDone: 2, ChunkSize: 20,
		Metadata: []byte{0, 9, 10, 99, 100, 255}, StrategicMetadata: Metadata{"company": -7, "id": 42},
		OtelTraceCarrier: `{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":""}`,
	}
}

// documents are the values of the files in testdata/json.
func documents() map[string]any {
	s := sampleSubmission()
	completed := &SubmissionCompleted{s.ID, nil, 5, 20, nil, nil, at("2026-08-19T10:00:00.5Z"), "{}"}
	failed := &FailedWithChunk{
		SubmissionFailed{s.ID, s.Prefix, 5, number(2), 20, []byte{}, s.StrategicMetadata, at("2026-08-19T10:00:00.000000001Z"), 3, "{}"},
		ChunkFailed{ChunkID{s.ID, 3}, []byte{1}, "Traceback:\n  \"boom\"", at("2026-08-19T10:00:00Z")},
	}
	unknown := *failed
	unknown.Submission.ChunksDone, unknown.Chunk.InputContent = nil, nil
	cancelled := &SubmissionCancelled{s.ID, s.Prefix, 5, 2, s.Metadata, s.StrategicMetadata, at("2026-08-19T12:00:00+02:00")}
	return map[string]any{
		"insert_stored":    InsertSubmission{Chunks: ChunkContents{SeeObjectStorage: &SeeObjectStorage{"0198…", 5}}, StrategicMetadata: Metadata{"id": 42}, ChunkSize: number(20)},
		"insert_direct":    InsertSubmission{Chunks: ChunkContents{Direct: &Direct{[][]byte{{1, 200}, nil, {}}}}, Metadata: []byte("m")},
		"lookup":           s.StrategicMetadata,
		"id":               s.ID,
		"ids":              []SubmissionID{1, s.ID},
		"too_many":         int64(100000),
		"server_error":     "disk \"full\"",
		"panic":            NewPanic("index out of range"),
		"status_unknown":   (*SubmissionStatus)(nil),
		"status_running":   &SubmissionStatus{InProgress: &s},
		"status_completed": &SubmissionStatus{Completed: completed},
		"status_failed":    &SubmissionStatus{Failed: failed},
		"status_cancelled": &SubmissionStatus{Cancelled: cancelled},
		"ended_completed":  SubmissionNotCancellable{Completed: completed},
		"ended_failed":     SubmissionNotCancellable{Failed: &unknown},
		"ended_cancelled":  SubmissionNotCancellable{Cancelled: cancelled},
	}
}

// decodeLike decodes a document into a value of the type of like.
func decodeLike(like any, document []byte) (any, error) {
	into := reflect.New(reflect.TypeOf(like))
	err := DecodeJSON(document, into.Interface())
	return into.Elem().Interface(), err
}

// TestDocuments: each value is encoded exactly as its document, and is decoded from it.
func TestDocuments(t *testing.T) {
	files := testkit.Must(filepath.Glob("testdata/json/*.json"))(t)
	values := documents()
	if !*rewrite && len(files) != len(values) {
		t.Errorf("there are %d files and %d values", len(files), len(values))
	}
	for name, value := range values {
		path := filepath.Join("testdata/json", name+".json")
		got := EncodeJSON(value)
		if *rewrite {
			testkit.NoError(t, os.WriteFile(path, append(got, '\n'), 0o644))
		}
		want := testkit.Must(os.ReadFile(path))(t)
		if want = bytes.TrimSuffix(want, []byte("\n")); !bytes.Equal(got, want) {
			t.Errorf("%s is\n%s, want\n%s", name, got, want)
		}
		testkit.DeepEqual(t, testkit.Must(decodeLike(value, want))(t), value, name, "decodes to")
	}
}

const stored = `"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":5}}`

func TestInsertAccepted(t *testing.T) {
	inStore := func(prefix string, count int64) InsertSubmission {
		return InsertSubmission{Chunks: ChunkContents{SeeObjectStorage: &SeeObjectStorage{prefix, count}}}
	}
	direct := func(contents ...[]byte) InsertSubmission {
		return InsertSubmission{Chunks: ChunkContents{Direct: &Direct{contents}}}
	}
	plain := inStore("p", 5)
	with := func(change func(*InsertSubmission)) InsertSubmission { s := plain; change(&s); return s }
	for document, want := range map[string]InsertSubmission{
		`{` + stored + `}`: plain,
		`{` + stored + `,"metadata":null,"strategic_metadata":{},"chunk_size":null}`: plain,
		` {"new":[1,{"a":[]}],` + stored + `,"new":"\u00e9"}` + "\n":                 plain,
		`{"chunk_contents":{"SeeObjectStorage":{"count":5,"prefix":"p","new":1}}}`:   plain,
		`{` + stored + `,"metadata":[0,1 , 255 ]}`:                                   with(func(s *InsertSubmission) { s.Metadata = []byte{0, 1, 255} }),
		`{` + stored + `,"metadata":[ ]}`:                                            with(func(s *InsertSubmission) { s.Metadata = []byte{} }),
		`{` + stored + `,"chunk_size":-3}`:                                           with(func(s *InsertSubmission) { s.ChunkSize = number(-3) }),
		`{` + stored + `,"strategic_metadata":{"b":9223372036854775807,"a":-9223372036854775808}}`: with(func(s *InsertSubmission) {
			s.StrategicMetadata = Metadata{"a": -1 << 63, "b": 1<<63 - 1}
		}),
		`{` + stored + `,"strategic_metadata":{"a":1,"a":2}}`:                                              with(func(s *InsertSubmission) { s.StrategicMetadata = Metadata{"a": 2} }),
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"","count":9223372036854775807}}}`:                inStore("", 1<<63-1),
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"\ud83d\udc93\u0041","count":9007199254740993}}}`: inStore("💓A", 9007199254740993),
		`{"chunk_contents":{"Direct":{"contents":[]}}}`:                                                    direct([][]byte{}...),
		`{"chunk_contents":{"Direct":{"contents":[null,[],[7,8]]}}}`:                                       direct(nil, []byte{}, []byte{7, 8}),
	} {
		testkit.DeepEqual(t, testkit.Must(decodeLike(plain, []byte(document)))(t), any(want), document)
	}
}

// TestInsertRejected: documents that are not JSON get status 400, and documents of the wrong shape get 422.
func TestInsertRejected(t *testing.T) {
	for _, document := range []string{
		``, ` `, `{`, `{"a"}`, `{"a":}`, `[1,]`, `{` + stored, `{` + stored + `}}`, `{` + stored + `} {}`, `{` + stored + `,}`, `nul`,
		`{` + stored + `,"metadata":[1,]}`, `{` + stored + `,"metadata":[01]}`, `{` + stored + `,"metadata":[1`, `{` + stored + `,"metadata":[+1]}`,
		"{" + stored + `,"x":"` + "\xff" + `"}`, `{` + stored + `,"x":"\ud800"}`, "{" + stored + ",\"x\":\"\n\"}",
		`{"chunk_contents":5,"x":}`, `{"metadata":[256],"x":nul}`, `5 5`, `{"chunk_contents":{"Stolen":{}},"x":[}`, `[] {`, "\ufeff{}",
	} {
		if got, err := decodeLike(InsertSubmission{}, []byte(document)); !isMalformed(err) {
			t.Errorf("%q is %+v, %v; it is no JSON", document, got, err)
		}
	}
	for document, says := range map[string]string{
		`null`: "the value is not an object",
		`5`:    "is not an object",
		`[]`:   "is not an object",
		`{}`:   "the value has no field chunk_contents",
		`{"Chunk_Contents":{"Direct":{"contents":[]}}}`:                                       "no field chunk_contents",
		`{"chunk_contents":null}`:                                                             "chunk_contents is not an object",
		`{"chunk_contents":"Direct"}`:                                                         `no variant "Direct" without a payload`,
		`{"chunk_contents":{}}`:                                                               "one entry",
		`{"chunk_contents":{"Stolen":{}}}`:                                                    `no variant "Stolen"`,
		`{"chunk_contents":{"Direct":{"contents":[]},"Direct":{"contents":[]}}}`:              "one entry",
		`{"chunk_contents":{"Direct":{}}}`:                                                    "Direct has no field contents",
		`{"chunk_contents":{"Direct":{"contents":null}}}`:                                     "contents is not an array",
		`{"chunk_contents":{"Direct":{"contents":["a"]}}}`:                                    "must be null or an array of whole numbers",
		`{"chunk_contents":{"Direct":{"contents":[1]}}}`:                                      "must be null or an array of whole numbers",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p"}}}`:                              "no field count",
		`{"chunk_contents":{"SeeObjectStorage":{"count":1}}}`:                                 "no field prefix",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":null,"count":1}}}`:                   "prefix must be a text",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":-1}}}`:                   "count must be a whole number",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":1.0}}}`:                  "count must be a whole number",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":1e3}}}`:                  "count must be a whole number",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":"1"}}}`:                  "count must be a whole number",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":null}}}`:                 "count must be a whole number",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":9223372036854775808}}}`:  "2^63-1",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":18446744073709551617}}}`: "2^63-1",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":1,"count":1}}}`:          "count twice",
		`{` + stored + `,` + stored + `}`:                                                     "chunk_contents twice",
		`{` + stored + `,"metadata":"AQI="}`:                                                  "metadata must be null or an array",
		`{` + stored + `,"metadata":[256]}`:                                                   "element 0 of metadata",
		`{` + stored + `,"metadata":[1,-1]}`:                                                  "metadata must be",
		`{` + stored + `,"metadata":[1,2,-0]}`:                                                "metadata must be",
		`{` + stored + `,"metadata":[1.5]}`:                                                   "metadata must be",
		`{` + stored + `,"metadata":[1e1]}`:                                                   "metadata must be",
		`{` + stored + `,"metadata":[99999999999999999999999]}`:                               "metadata must be",
		`{` + stored + `,"metadata":[null]}`:                                                  "metadata must be",
		`{` + stored + `,"metadata":[[1]]}`:                                                   "metadata must be",
		`{` + stored + `,"metadata":["]"]}`:                                                   "metadata must be",
		`{` + stored + `,"strategic_metadata":null}`:                                          "strategic_metadata is not an object",
		`{` + stored + `,"strategic_metadata":{"a":"1"}}`:                                     "a value of strategic_metadata must be a whole number",
		`{` + stored + `,"strategic_metadata":{"a":1.5}}`:                                     "must be a whole number",
		`{` + stored + `,"strategic_metadata":{"a":9223372036854775808}}`:                     "from -2^63",
		`{` + stored + `,"chunk_size":true}`:                                                  "chunk_size must be a whole number",
	} {
		if got, err := decodeLike(InsertSubmission{}, []byte(document)); !isShape(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s is %+v, %v; want %q", document, got, err, says)
		}
	}
}

// TestStatusRejected: a submission of any kind without a required field is refused.
func TestStatusRejected(t *testing.T) {
	values, required := documents(), 0
	for _, name := range []string{"status_running", "status_completed", "status_failed", "status_cancelled", "ended_failed"} {
		document := EncodeJSON(values[name])
		for _, of := range []any{Submission{}, SubmissionCompleted{}, SubmissionFailed{}, SubmissionCancelled{}, ChunkFailed{}} {
			for _, field := range fieldsOf(reflect.TypeOf(of)) {
				renamed := bytes.Replace(document, []byte(`"`+field.name+`":`), []byte(`"x":`), 1)
				_, err := decodeLike(values[name], renamed)
				if err != nil && (!isShape(err) || !strings.Contains(err.Error(), "has no field "+field.name)) {
					t.Errorf("%s without %s: %v", name, field.name, err)
				}
				if err != nil && field.required {
					required++
				}
			}
		}
	}
	if required < 30 {
		t.Errorf("only %d missing fields were refused", required)
	}
	status := &SubmissionStatus{}
	for document, like := range map[string]any{
		`{"Failed":[]}`: status, `{"Failed":{}}`: status, `{"Paused":{}}`: status, `{"InProgress":null}`: status, `5`: status, `{}`: status,
		`{"Cancelled":{"id":1,"chunks_total":1,"chunks_done":1,"cancelled_at":"yesterday"}}`:               status,
		`{"Cancelled":{"id":1,"chunks_total":1,"chunks_done":1,"cancelled_at":5}}`:                         status,
		`{"Cancelled":{"id":1,"chunks_total":1,"chunks_done":null,"cancelled_at":"2026-01-01T00:00:00Z"}}`: status,
		`{"InProgress":{}}`: SubmissionNotCancellable{},
		`-1`:                int64(0), `1.5`: int64(0), `"1"`: int64(0), `null`: int64(0), `9223372036854775808`: SubmissionID(0),
		`{ }`: []SubmissionID{}, `[null]`: []SubmissionID{}, `[-1]`: []SubmissionID{}, `1`: []SubmissionID{},
		`[]`: Metadata{}, `{"a":null}`: Metadata{}, `{"a":-0}`: Metadata{}, `"a"`: Metadata{},
	} {
		if got, err := decodeLike(like, []byte(document)); !isShape(err) {
			t.Errorf("%s is %+v, %v", document, got, err)
		}
	}
}
