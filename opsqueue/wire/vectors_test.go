package wire

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
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
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
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
			if _, err := decodeMessage(want, append(bytes.Clone(vector), 0)[:n]); n != len(vector) && !isMalformed(err) {
				t.Fatalf("the first %d of %d bytes of %s: %v", n, len(vector), name, err)
			}
		}
	}
}
