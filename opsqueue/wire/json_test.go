package wire

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the documents of testdata/json again")

func sampleSubmission() Submission {
	return Submission{
		ID: vectorID, Prefix: text("0198f0a0-0000-7000-8000-000000000000"), ChunksTotal: 5, ChunksDone: 2, ChunkSize: 20,
		Metadata: []byte{0, 9, 10, 99, 100, 255}, StrategicMetadata: Metadata{{"company", -7}, {"id", 42}},
		OtelTraceCarrier: `{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":""}`,
	}
}

// documents are the values of the files in testdata/json.
func documents() map[string]func([]byte) []byte {
	s := sampleSubmission()
	completed := &SubmissionCompleted{s.ID, nil, 5, 20, nil, nil, "{}", at("2026-08-19T10:00:00.5Z")}
	failed := &FailedWithChunk{
		SubmissionFailed{s.ID, s.Prefix, 5, number(2), 20, []byte{}, s.StrategicMetadata, "{}", at("2026-08-19T10:00:00.000000001Z"), 3},
		ChunkFailed{ChunkID{s.ID, 3}, []byte{1}, "Traceback:\n  \"boom\"", at("2026-08-19T10:00:00Z")},
	}
	unknown := *failed
	unknown.Submission.ChunksDone, unknown.Chunk.InputContent = nil, nil
	cancelled := &SubmissionCancelled{s.ID, s.Prefix, 5, 2, s.Metadata, s.StrategicMetadata, at("2026-08-19T12:00:00+02:00")}
	return map[string]func([]byte) []byte{
		"insert_stored":    (&InsertSubmission{SeeObjectStorage: &SeeObjectStorage{"0198…", 5}, StrategicMetadata: Metadata{{"id", 42}}, ChunkSize: number(20)}).AppendJSON,
		"insert_direct":    (&InsertSubmission{Direct: &Direct{[][]byte{{1, 200}, nil, {}}}, Metadata: []byte("m")}).AppendJSON,
		"lookup":           s.StrategicMetadata.AppendJSON,
		"id":               s.ID.AppendJSON,
		"ids":              func(b []byte) []byte { return AppendSubmissionIDs(b, []SubmissionID{1, s.ID}) },
		"too_many":         TooManyMatchingSubmissions(100000).AppendJSON,
		"server_error":     func(b []byte) []byte { return AppendServerError(b, "disk \"full\"") },
		"panic":            func(b []byte) []byte { return AppendPanic(b, "index out of range") },
		"status_unknown":   (*SubmissionStatus)(nil).AppendJSON,
		"status_running":   (&SubmissionStatus{InProgress: &s}).AppendJSON,
		"status_completed": (&SubmissionStatus{Completed: completed}).AppendJSON,
		"status_failed":    (&SubmissionStatus{Failed: failed}).AppendJSON,
		"status_cancelled": (&SubmissionStatus{Cancelled: cancelled}).AppendJSON,
		"ended_completed":  (&SubmissionNotCancellable{Completed: completed}).AppendJSON,
		"ended_failed":     (&SubmissionNotCancellable{Failed: &unknown}).AppendJSON,
		"ended_cancelled":  (&SubmissionNotCancellable{Cancelled: cancelled}).AppendJSON,
	}
}

// decodeAs decodes a document of testdata/json, with the decoder for its name, and encodes it again.
func decodeAs(name string, document []byte) ([]byte, error) {
	switch name, _, _ := strings.Cut(name, "_"); name {
	case "insert":
		got, err := DecodeInsertSubmission(document)
		if err != nil {
			return nil, err
		}
		return got.AppendJSON(nil), nil
	case "lookup":
		got, err := DecodeLookup(document)
		return got.AppendJSON(nil), err
	case "id", "too":
		got, err := DecodeNumber(document)
		return SubmissionID(got).AppendJSON(nil), err
	case "ids":
		got, err := DecodeSubmissionIDs(document)
		return AppendSubmissionIDs(nil, got), err
	case "status":
		got, err := DecodeSubmissionStatus(document)
		if err != nil {
			return nil, err
		}
		return got.AppendJSON(nil), nil
	case "ended":
		got, err := DecodeSubmissionNotCancellable(document)
		if err != nil {
			return nil, err
		}
		return got.AppendJSON(nil), nil
	}
	return document, nil // no client decodes it
}

// TestDocuments: each value is encoded exactly as its document, and its decoder reads the document.
func TestDocuments(t *testing.T) {
	files, err := filepath.Glob("testdata/json/*.json")
	if err != nil {
		t.Fatal(err)
	}
	values := documents()
	if !*rewrite && len(files) != len(values) {
		t.Errorf("there are %d files and %d values", len(files), len(values))
	}
	for name, appendTo := range values {
		path := filepath.Join("testdata/json", name+".json")
		got := appendTo(nil)
		if *rewrite {
			if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want = bytes.TrimSuffix(want, []byte("\n")); !bytes.Equal(got, want) {
			t.Errorf("%s is\n%s, want\n%s", name, got, want)
		}
		if again, err := decodeAs(name, want); err != nil || !bytes.Equal(again, want) {
			t.Errorf("%s decodes to\n%s, %v", name, again, err)
		}
	}
}

const stored = `"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":5}}`

func TestInsertAccepted(t *testing.T) {
	plain := InsertSubmission{SeeObjectStorage: &SeeObjectStorage{"p", 5}}
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
			s.StrategicMetadata = Metadata{{"a", -1 << 63}, {"b", 1<<63 - 1}}
		}),
		`{` + stored + `,"strategic_metadata":{"a":1,"a":2}}`:                                              with(func(s *InsertSubmission) { s.StrategicMetadata = Metadata{{"a", 2}} }),
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"","count":9223372036854775807}}}`:                {SeeObjectStorage: &SeeObjectStorage{"", 1<<63 - 1}},
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"\ud83d\udc93\u0041","count":9007199254740993}}}`: {SeeObjectStorage: &SeeObjectStorage{"💓A", 9007199254740993}},
		`{"chunk_contents":{"Direct":{"contents":[]}}}`:                                                    {Direct: &Direct{[][]byte{}}},
		`{"chunk_contents":{"Direct":{"contents":[null,[],[7,8]]}}}`:                                       {Direct: &Direct{[][]byte{nil, {}, {7, 8}}}},
	} {
		if got, err := DecodeInsertSubmission([]byte(document)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, %v", document, got, err)
		}
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
		if got, err := DecodeInsertSubmission([]byte(document)); !isMalformed(err) {
			t.Errorf("%q is %+v, %v; it is no JSON", document, got, err)
		}
	}
	for document, says := range map[string]string{
		`null`: "InsertSubmission must be an object, not null",
		`5`:    "not a number",
		`[]`:   "not an array",
		`{}`:   "InsertSubmission has no field chunk_contents",
		`{"Chunk_Contents":{"Direct":{"contents":[]}}}`:                                       "no field chunk_contents",
		`{"chunk_contents":null}`:                                                             "chunk_contents must be an object, not null",
		`{"chunk_contents":"Direct"}`:                                                         "not a string",
		`{"chunk_contents":{}}`:                                                               "has no variant",
		`{"chunk_contents":{"Stolen":{}}}`:                                                    `no variant "Stolen"`,
		`{"chunk_contents":{"Direct":{"contents":[]},"Direct":{"contents":[]}}}`:              "more than one entry",
		`{"chunk_contents":{"Direct":{}}}`:                                                    "Direct has no field contents",
		`{"chunk_contents":{"Direct":{"contents":null}}}`:                                     "contents must be an array",
		`{"chunk_contents":{"Direct":{"contents":["a"]}}}`:                                    "must be null or an array of numbers",
		`{"chunk_contents":{"Direct":{"contents":[1]}}}`:                                      "must be null or an array of numbers",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p"}}}`:                              "no field count",
		`{"chunk_contents":{"SeeObjectStorage":{"count":1}}}`:                                 "no field prefix",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":null,"count":1}}}`:                   "prefix must be a string",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":-1}}}`:                   "count is -1",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":1.0}}}`:                  "count is 1.0",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":1e3}}}`:                  "count is 1e3",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":"1"}}}`:                  "count must be a number",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":null}}}`:                 "count must be a number",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":9223372036854775808}}}`:  "2^63-1",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":18446744073709551617}}}`: "2^63-1",
		`{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":1,"count":1}}}`:          "count twice",
		`{` + stored + `,` + stored + `}`:                                                     "chunk_contents twice",
		`{` + stored + `,"metadata":"AQI="}`:                                                  "metadata must be null or an array",
		`{` + stored + `,"metadata":[256]}`:                                                   "element 0 of metadata",
		`{` + stored + `,"metadata":[1,-1]}`:                                                  "element 1 of metadata",
		`{` + stored + `,"metadata":[1,2,-0]}`:                                                "element 2 of metadata",
		`{` + stored + `,"metadata":[1.5]}`:                                                   "element 0 of metadata",
		`{` + stored + `,"metadata":[1e1]}`:                                                   "element 0 of metadata",
		`{` + stored + `,"metadata":[99999999999999999999999]}`:                               "element 0 of metadata",
		`{` + stored + `,"metadata":[null]}`:                                                  "element 0 of metadata",
		`{` + stored + `,"metadata":[[1]]}`:                                                   "element 0 of metadata",
		`{` + stored + `,"metadata":["]"]}`:                                                   "element 0 of metadata",
		`{` + stored + `,"strategic_metadata":null}`:                                          "strategic_metadata must be an object",
		`{` + stored + `,"strategic_metadata":{"a":"1"}}`:                                     "must be a number",
		`{` + stored + `,"strategic_metadata":{"a":1.5}}`:                                     "1.5",
		`{` + stored + `,"strategic_metadata":{"a":9223372036854775808}}`:                     "9223372036854775808",
		`{` + stored + `,"chunk_size":true}`:                                                  "chunk_size must be a number, not true",
	} {
		if got, err := DecodeInsertSubmission([]byte(document)); !isShape(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s is %+v, %v; want %q", document, got, err, says)
		}
	}
}

// TestStatusRejected: a submission of any kind without a required field is refused.
func TestStatusRejected(t *testing.T) {
	required := 0
	for _, name := range []string{"status_running", "status_completed", "status_failed", "status_cancelled", "ended_failed"} {
		document, err := os.ReadFile(filepath.Join("testdata/json", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []fields{submissionFields, completedFields, failedFields, cancelledFields, chunkFailedFields} {
			for i, field := range f.names {
				renamed := bytes.Replace(document, []byte(`"`+field+`":`), []byte(`"x":`), 1)
				_, err := decodeAs(name, renamed)
				if err != nil && (!isShape(err) || !strings.Contains(err.Error(), "has no field "+field)) {
					t.Errorf("%s without %s: %v", name, field, err)
				}
				if err != nil && i < f.required {
					required++
				}
			}
		}
	}
	if required < 30 {
		t.Errorf("only %d missing fields were refused", required)
	}
	for _, document := range []string{
		`{"Failed":[]}`, `{"Failed":{}}`, `{"Paused":{}}`, `{"InProgress":null}`, `5`, `{}`,
		`{"Cancelled":{"id":1,"chunks_total":1,"chunks_done":1,"cancelled_at":"yesterday"}}`,
		`{"Cancelled":{"id":1,"chunks_total":1,"chunks_done":1,"cancelled_at":5}}`,
		`{"Cancelled":{"id":1,"chunks_total":1,"chunks_done":null,"cancelled_at":"2026-01-01T00:00:00Z"}}`,
	} {
		if got, err := DecodeSubmissionStatus([]byte(document)); !isShape(err) {
			t.Errorf("%s is %+v, %v", document, got, err)
		}
	}
	if got, err := DecodeSubmissionNotCancellable([]byte(`{"InProgress":{}}`)); !isShape(err) {
		t.Errorf("a submission in progress: %+v, %v", got, err)
	}
	for _, document := range []string{`-1`, `1.5`, `"1"`, `null`, `9223372036854775808`} {
		if got, err := DecodeNumber([]byte(document)); !isShape(err) {
			t.Errorf("%s is %d, %v", document, got, err)
		}
	}
	for _, document := range []string{`{}`, `[null]`, `[-1]`, `1`} {
		if got, err := DecodeSubmissionIDs([]byte(document)); !isShape(err) {
			t.Errorf("%s is %v, %v", document, got, err)
		}
	}
	for _, document := range []string{`[]`, `{"a":null}`, `"a"`} {
		if got, err := DecodeLookup([]byte(document)); !isShape(err) {
			t.Errorf("%s is %v, %v", document, got, err)
		}
	}
}
