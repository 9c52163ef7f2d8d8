package wire

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
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
	for _, vector := range readVectors(f) {
		f.Add(vector)
	}
	f.Add(encoded(f, reserve(preferDistinct(preferDistinct("Newest")))))
	f.Add(encoded(f, indefinite(f, complete(raw{0x9f, 1, 0x18, 200, 0xff}))))
	f.Add(encoded(f, tagged(f, 7, complete(raw{0x5f, 0x41, 1, 0xff}))))
	f.Fuzz(func(t *testing.T, message []byte) {
		var got ClientToServer
		var err error
		if n := allocated(func() { got, err = DecodeClientToServer(message) }); n > mostAllocated(len(message)) {
			t.Fatalf("%d bytes take %d bytes of memory", len(message), n)
		}
		if err != nil {
			if isMalformed(err) == isShape(err) {
				t.Fatalf("%v has no kind", err)
			}
			return
		}
		again, err := DecodeClientToServer(got.AppendCBOR(nil))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("%+v is decoded again as %+v, %v", got, again, err)
		}
	})
}

// FuzzDecodeServerToClient has the properties of FuzzDecodeClientToServer.
func FuzzDecodeServerToClient(f *testing.F) {
	for _, vector := range readVectors(f) {
		f.Add(vector)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		var got ServerToClient
		var err error
		if n := allocated(func() { got, err = DecodeServerToClient(message) }); n > mostAllocated(len(message)) {
			t.Fatalf("%d bytes take %d bytes of memory", len(message), n)
		}
		if err != nil {
			if isMalformed(err) == isShape(err) {
				t.Fatalf("%v has no kind", err)
			}
			return
		}
		again, err := DecodeServerToClient(got.AppendCBOR(nil))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("%+v is decoded again as %+v, %v", got, again, err)
		}
	})
}

// FuzzDecodeJSON has the properties of FuzzDecodeClientToServer for the decoders of JSON.
func FuzzDecodeJSON(f *testing.F) {
	paths, err := filepath.Glob("testdata/json/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		document, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(document)
	}
	for _, document := range []string{`{` + stored + `}{`, `{` + stored + `,"metadata":[ 1 , 2.5 ]}`, `{"chunk_contents":{"Direct":{"contents":[[],[],null]}}}`} {
		f.Add([]byte(document))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		for _, name := range []string{"insert", "lookup", "id", "ids", "status", "ended"} {
			var text []byte
			var err error
			if n := allocated(func() { text, err = decodeAs(name, document) }); n > mostAllocated(len(document)) {
				t.Fatalf("%s: %d bytes take %d bytes of memory", name, len(document), n)
			}
			if err != nil {
				if isMalformed(err) == isShape(err) {
					t.Fatalf("%s: %v has no kind", name, err)
				}
				continue
			}
			if again, err := decodeAs(name, text); err != nil || !bytes.Equal(again, text) {
				t.Fatalf("%s: %q is encoded as %q, which decodes to %q, %v", name, document, text, again, err)
			}
		}
	})
}

// TestMemory: decoding and encoding byte vectors takes about as much memory as the message and the vector, in both
// formats.
func TestMemory(t *testing.T) {
	const size = 512 << 10
	content := bytes.Repeat([]byte{200}, size)
	client := ClientToServer{Contents: CompleteChunk{OutputContent: content}}
	insert := InsertSubmission{Direct: &Direct{[][]byte{content}}}
	manyEmpty := []byte(`{"chunk_contents":{"Direct":{"contents":[[]` + strings.Repeat(",[]", size) + `]}}}`)
	array, document := client.AppendCBOR(nil), insert.AppendJSON(nil)
	buffer := make([]byte, 0, 6*size)
	for _, c := range []struct {
		name string
		most uint64 // in sizes of message and vector
		call func() error
	}{
		{"decode an array of CBOR", 1, func() error { _, err := DecodeClientToServer(array); return err }},
		{"encode an array of CBOR into a buffer", 0, func() error { client.AppendCBOR(buffer[:0]); return nil }},
		{"decode an array of JSON", 1, func() error { _, err := DecodeInsertSubmission(document); return err }},
		{"encode an array of JSON into a buffer", 0, func() error { insert.AppendJSON(buffer[:0]); return nil }},
		{"encode an array of JSON", 5, func() error { insert.AppendJSON(nil); return nil }},
		{"decode many empty chunks, with what a slice that grows leaves behind", 24 * 7, func() error { _, err := DecodeInsertSubmission(manyEmpty); return err }},
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
