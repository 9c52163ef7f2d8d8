package wire

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

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
	testkit.Holds(t, *rewrite || len(files) == len(values), "there are", len(files), "files and", len(values), "values")
	for name, value := range values {
		path := filepath.Join("testdata/json", name+".json")
		got := EncodeJSON(value)
		if *rewrite {
			testkit.NoError(t, os.WriteFile(path, append(got, '\n'), 0o644))
		}
		want := testkit.Must(os.ReadFile(path))(t)
		want = bytes.TrimSuffix(want, []byte("\n"))
		testkit.EqualSlices(t, got, want, name)
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
		got, err := decodeLike(InsertSubmission{}, []byte(document))
		testkit.Holds(t, isMalformed(err), document, "is", got, err, "it is no JSON")
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
		got, err := decodeLike(InsertSubmission{}, []byte(document))
		testkit.Holds(t, isShape(err) && strings.Contains(err.Error(), says), document, "is", got, err, "want", says)
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
				testkit.Holds(t, err == nil || isShape(err) && strings.Contains(err.Error(), "has no field "+field.name),
					name, "without", field.name, err)
				if err != nil && field.required {
					required++
				}
			}
		}
	}
	testkit.Holds(t, required >= 30, "only", required, "missing fields were refused")
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
		got, err := decodeLike(like, []byte(document))
		testkit.Holds(t, isShape(err), document, "is", got, err)
	}
}

func text(s string) *string { return &s }
func number(n int64) *int64 { return &n }
func at(text string) (t time.Time) {
	if err := t.UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return t.UTC()
}

const vectorID SubmissionID = 7340000000000000000

var vectorChunk = ChunkID{SubmissionID: vectorID}

// vectorValues are the values of the files in testdata/vectors, which contain the original's bytes.
var vectorValues = map[string]any{
	"reserve_random":          ClientToServer{0, WantToReserveChunks{1, Strategy{Base: Random}}},
	"reserve_prefer_distinct": ClientToServer{1, WantToReserveChunks{5, Strategy{[]string{"id"}, Oldest}}},
	"complete_null":           ClientToServer{2, CompleteChunk{ID: vectorChunk}},
	"complete_bytes":          ClientToServer{2, CompleteChunk{vectorChunk, []byte{1, 200}}},
	"fail":                    ClientToServer{3, FailChunk{vectorChunk, "boom"}},
	"init":                    Init{3, Duration(10 * time.Second), "v0.40.1", "red"},
	"reserved_one": ChunksReserved{Chunks: []ReservedChunk{{
		Chunk: Chunk{ChunkID: vectorChunk},
		Submission: Submission{
			ID: vectorID, Prefix: text("p"), ChunksTotal: 2, ChunkSize: 20,
			StrategicMetadata: Metadata{"id": 42}, OtelTraceCarrier: "{}",
		},
	}}},
	"reserved_error": ChunksReserved{MaxIsZero: true},
	"expired":        ChunkReservationExpired{vectorChunk},
}

// encodeMessage encodes a ClientToServer or a ServerToClient.
func encodeMessage(m any) []byte {
	if m, ok := m.(ClientToServer); ok {
		return EncodeClientToServer(m)
	}
	return EncodeServerToClient(m.(ServerToClient))
}

// decodeMessage decodes a message of the type of like.
func decodeMessage(like any, message []byte) (any, error) {
	if _, ok := like.(ClientToServer); ok {
		return DecodeClientToServer(message)
	}
	return DecodeServerToClient(message)
}

func readVectors(t testing.TB) map[string][]byte {
	t.Helper()
	paths := testkit.Must(filepath.Glob("testdata/vectors/*.hex"))(t)
	vectors := map[string][]byte{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		testkit.NoError(t, err)
		vectors[strings.TrimSuffix(filepath.Base(path), ".hex")], err = hex.DecodeString(strings.TrimSpace(string(content)))
		testkit.NoError(t, err, path)
	}
	return vectors
}

// TestVectors: each vector decodes to its value, and the value encodes to the vector, byte for byte. A vector without its
// last bytes, or with an extra byte, is malformed.
func TestVectors(t *testing.T) {
	vectors := readVectors(t)
	testkit.Equal(t, len(vectors), len(vectorValues))
	for name, want := range vectorValues {
		vector := vectors[name]
		testkit.DeepEqual(t, testkit.Must(decodeMessage(want, vector))(t), want, name, "decodes to")
		testkit.EqualSlices(t, encodeMessage(want), vector, name, "encodes to")
		for n := range len(vector) + 2 {
			_, err := decodeMessage(want, append(bytes.Clone(vector), 0)[:n])
			testkit.MustHold(t, n == len(vector) || isMalformed(err), "the first", n, "of", len(vector), "bytes of", name, err)
		}
	}
}
