package wire

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// allocated returns the bytes that a call allocates.
func allocated(call func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// mostAllocated is how many bytes a decoder may allocate for a message of n bytes. Arrays of empty chunks are the worst
// case: [[],[],…] takes 24 bytes in memory for three in the document, and growing the slice leaves behind several times
// as much garbage. The constant covers the decoder itself and other goroutines.
func mostAllocated(n int) uint64 { return 64<<10 + 64*uint64(n) }

// FuzzDecodeClientToServer: the decoder never panics, allocates bounded memory, and returns only ErrMalformed and
// ErrShape. A decoded value survives a round trip.
func FuzzDecodeClientToServer(f *testing.F) {
	f.Add(encoded(f, reserve(preferDistinctOf(preferDistinctOf("Newest")))))
	f.Add(encoded(f, indefinite(f, complete(raw{0x9f, 1, 0x18, 200, 0xff}))))
	f.Add(encoded(f, tagged(f, 7, complete(raw{0x5f, 0x41, 1, 0xff}))))
	fuzzMessages(f, ClientToServer{})
}

// FuzzDecodeServerToClient has the properties of FuzzDecodeClientToServer.
func FuzzDecodeServerToClient(f *testing.F) { fuzzMessages(f, Init{}) }

func fuzzMessages(f *testing.F, like any) {
	for _, vector := range readVectors(f) {
		f.Add(vector)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		var got any
		var err error
		if n := allocated(func() { got, err = decodeMessage(like, message) }); n > mostAllocated(len(message)) {
			t.Fatalf("%d bytes take %d bytes of memory", len(message), n)
		}
		if err != nil {
			if isMalformed(err) == isShape(err) {
				t.Fatalf("%v has no kind", err)
			}
			return
		}
		again, err := decodeMessage(like, encodeMessage(got))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("%+v is decoded again as %+v, %v", got, again, err)
		}
	})
}

// FuzzDecodeJSON has the properties of FuzzDecodeClientToServer for the decoders of JSON.
func FuzzDecodeJSON(f *testing.F) {
	paths := testkit.Must(filepath.Glob("testdata/json/*.json"))(f)
	for _, path := range paths {
		document := testkit.Must(os.ReadFile(path))(f)
		f.Add(document)
	}
	for _, document := range []string{`{` + stored + `}{`, `{` + stored + `,"metadata":[ 1 , 2.5 ]}`, `{"chunk_contents":{"Direct":{"contents":[[],[],null]}}}`} {
		f.Add([]byte(document))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		for _, like := range []any{InsertSubmission{}, Metadata{}, int64(0), []SubmissionID{}, &SubmissionStatus{}, SubmissionNotCancellable{}} {
			var got any
			var err error
			if n := allocated(func() { got, err = decodeLike(like, document) }); n > mostAllocated(len(document)) {
				t.Fatalf("%T: %d bytes take %d bytes of memory", like, len(document), n)
			}
			if err != nil {
				if isMalformed(err) == isShape(err) {
					t.Fatalf("%T: %v has no kind", like, err)
				}
				continue
			}
			text := EncodeJSON(got)
			if again, err := decodeLike(like, text); err != nil || !reflect.DeepEqual(again, got) {
				t.Fatalf("%q is encoded as %q, which decodes to %+v, %v", document, text, again, err)
			}
		}
	})
}

// TestMemory: decoding and encoding byte vectors takes a small multiple of the message and the vector, in both formats.
func TestMemory(t *testing.T) {
	const size = 512 << 10
	content := bytes.Repeat([]byte{200}, size)
	client := ClientToServer{Contents: CompleteChunk{OutputContent: content}}
	insert := InsertSubmission{Chunks: ChunkContents{Direct: &Direct{[][]byte{content}}}}
	manyEmpty := []byte(`{"chunk_contents":{"Direct":{"contents":[[]` + strings.Repeat(",[]", size) + `]}}}`)
	array, document := EncodeClientToServer(client), EncodeJSON(insert)
	decodeInsert := func(document []byte) error { return DecodeJSON(document, new(InsertSubmission)) }
	for _, c := range []struct {
		name string
		most uint64 // in sizes of the vector
		call func() error
	}{
		{"decode an array of CBOR", 1, func() error { _, err := DecodeClientToServer(array); return err }},
		{"encode an array of CBOR, in a buffer that grows", 24, func() error { EncodeClientToServer(client); return nil }},
		{"decode an array of JSON", 16, func() error { return decodeInsert(document) }},
		{"encode an array of JSON", 32, func() error { EncodeJSON(insert); return nil }},
		{"decode many empty chunks, with what a slice that grows leaves behind", 24 * 7, func() error { return decodeInsert(manyEmpty) }},
	} {
		var err error
		n := allocated(func() { err = c.call() })
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if n > c.most*size+64<<10 {
			t.Errorf("%s of %d bytes takes %d bytes of memory, %.1f times as many", c.name, size, n, float64(n)/size)
		}
	}
}
