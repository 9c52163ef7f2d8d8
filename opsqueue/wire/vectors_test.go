package wire

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

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

// clientVectors and serverVectors are the values of the files in testdata/vectors, which contain the original's bytes.
var clientVectors = map[string]ClientToServer{
	"reserve_random":          {0, WantToReserveChunks{1, Strategy{Base: Random}}},
	"reserve_prefer_distinct": {1, WantToReserveChunks{5, Strategy{[]string{"id"}, Oldest}}},
	"complete_null":           {2, CompleteChunk{ID: vectorChunk}},
	"complete_bytes":          {2, CompleteChunk{vectorChunk, []byte{1, 200}}},
	"fail":                    {3, FailChunk{vectorChunk, "boom"}},
}

var serverVectors = map[string]ServerToClient{
	"init": Init{3, 10 * time.Second, "v0.40.1", "red"},
	"reserved_one": ChunksReserved{Chunks: []ReservedChunk{{
		Chunk{ID: vectorChunk},
		Submission{
			ID: vectorID, Prefix: text("p"), ChunksTotal: 2, ChunkSize: 20,
			StrategicMetadata: Metadata{{"id", 42}}, OtelTraceCarrier: "{}",
		},
	}}},
	"reserved_error": ChunksReserved{MaxIsZero: true},
	"expired":        ChunkReservationExpired{vectorChunk},
}

func readVectors(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/vectors/*.hex")
	if err != nil {
		t.Fatal(err)
	}
	vectors := map[string][]byte{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		vectors[strings.TrimSuffix(filepath.Base(path), ".hex")], err = hex.DecodeString(strings.TrimSpace(string(content)))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	return vectors
}

// TestVectors: each vector decodes to its value, and the value encodes to the vector, byte for byte.
func TestVectors(t *testing.T) {
	vectors := readVectors(t)
	if len(vectors) != len(clientVectors)+len(serverVectors) {
		t.Errorf("there are %d files and %d values", len(vectors), len(clientVectors)+len(serverVectors))
	}
	for name, want := range clientVectors {
		got, err := DecodeClientToServer(vectors[name])
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s decodes to %+v, %v; want %+v", name, got, err, want)
		}
		if encoded := want.AppendCBOR(nil); !bytes.Equal(encoded, vectors[name]) {
			t.Errorf("%s encodes to %x, want %x", name, encoded, vectors[name])
		}
	}
	for name, want := range serverVectors {
		got, err := DecodeServerToClient(vectors[name])
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s decodes to %+v, %v; want %+v", name, got, err, want)
		}
		if encoded := want.AppendCBOR(nil); !bytes.Equal(encoded, vectors[name]) {
			t.Errorf("%s encodes to %x, want %x", name, encoded, vectors[name])
		}
	}
}

// TestVectorsCut: a vector with its last bytes missing, or with an extra byte, is malformed.
func TestVectorsCut(t *testing.T) {
	for name, vector := range readVectors(t) {
		_, client := clientVectors[name]
		for n := range len(vector) + 2 {
			if n == len(vector) {
				continue
			}
			message := append(bytes.Clone(vector), 0)[:n]
			var err error
			if client {
				_, err = DecodeClientToServer(message)
			} else {
				_, err = DecodeServerToClient(message)
			}
			if !isMalformed(err) {
				t.Fatalf("the first %d of %d bytes of %s: %v", n, len(vector), name, err)
			}
		}
	}
}
