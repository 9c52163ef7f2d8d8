package wire

import (
	"bytes"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// BenchmarkCycle encodes and decodes the messages for reserving and completing one chunk. A goal of 10,000 such cycles a
// second on one core leaves 100 µs for each. Most of that must remain for the store and the sockets.
func BenchmarkCycle(b *testing.B) {
	s := sampleSubmission()
	reply := ChunksReserved{Nonce: 1000, Chunks: []ReservedChunk{{Chunk: Chunk{ChunkID: ChunkID{s.ID, 3}}, Submission: s}}}
	request := EncodeClientToServer(ClientToServer{1000, WantToReserveChunks{1, Strategy{[]string{"id"}, Random}}})
	report := EncodeClientToServer(ClientToServer{1001, CompleteChunk{ID: ChunkID{vectorID, 3}}})
	b.ReportAllocs()
	for b.Loop() {
		for _, message := range [][]byte{request, report} {
			testkit.Must(DecodeClientToServer(message))(b)
		}
		EncodeServerToClient(reply)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cycles/s")
}

// BenchmarkDecodeOutput decodes a completion with an output of 100 KB, as an array of numbers.
func BenchmarkDecodeOutput(b *testing.B) {
	message := EncodeClientToServer(ClientToServer{1001, CompleteChunk{ChunkID{vectorID, 3}, bytes.Repeat([]byte("output 9\xff"), 11111)}})
	b.ReportAllocs()
	b.SetBytes(int64(len(message)))
	for b.Loop() {
		testkit.Must(DecodeClientToServer(message))(b)
	}
}

// BenchmarkInsert decodes an insert of 500 KB in chunks of 1 KB, the largest that the original accepts.
func BenchmarkInsert(b *testing.B) {
	s := InsertSubmission{Chunks: ChunkContents{Direct: &Direct{}}}
	for range 500 {
		s.Chunks.Direct.Contents = append(s.Chunks.Direct.Contents, bytes.Repeat([]byte("chunk 77\xff\x00"), 102))
	}
	document := EncodeJSON(s)
	b.ReportAllocs()
	b.SetBytes(int64(len(document)))
	for b.Loop() {
		var got InsertSubmission
		testkit.NoError(b, DecodeJSON(document, &got))
	}
}
