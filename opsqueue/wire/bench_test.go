package wire

import (
	"bytes"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// These are the messages for reserving and completing one chunk. A goal of 10,000 such cycles a second on one core leaves
// 100 µs for each. Most of that must remain for the store and the sockets.

var benchReply = func() ChunksReserved {
	s := sampleSubmission()
	return ChunksReserved{Nonce: 1000, Chunks: []ReservedChunk{{Chunk{ID: ChunkID{s.ID, 3}}, s}}}
}()

// BenchmarkCycle encodes and decodes all that the server needs for one chunk.
func BenchmarkCycle(b *testing.B) {
	request := ClientToServer{1000, WantToReserveChunks{1, Strategy{[]string{"id"}, Random}}}.AppendCBOR(nil)
	report := ClientToServer{1001, CompleteChunk{ID: ChunkID{vectorID, 3}}}.AppendCBOR(nil)
	var buffer []byte
	b.ReportAllocs()
	for b.Loop() {
		for _, message := range [][]byte{request, report} {
			if _, err := DecodeClientToServer(message); err != nil {
				b.Fatal(err)
			}
		}
		buffer = benchReply.AppendCBOR(buffer[:0])
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cycles/s")
}

// reflectedEnvelope is decoded by the library's reflection, for comparison with DecodeClientToServer. It is less strict.
type reflectedEnvelope struct {
	Nonce    uint64 `cbor:"nonce"`
	Contents struct {
		Reserve *struct {
			Max      uint64          `cbor:"max"`
			Strategy cbor.RawMessage `cbor:"strategy"`
		} `cbor:"WantToReserveChunks"`
		Complete *struct {
			ID struct {
				SubmissionID int64 `cbor:"submission_id"`
				Index        int64 `cbor:"chunk_index"`
			} `cbor:"id"`
			OutputContent []uint8 `cbor:"output_content"`
		} `cbor:"CompleteChunk"`
	} `cbor:"contents"`
}

func benchDecode(b *testing.B, message []byte) {
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(message)))
		for b.Loop() {
			if _, err := DecodeClientToServer(message); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("reflection", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(message)))
		for b.Loop() {
			var into reflectedEnvelope
			if err := wellFormed.Unmarshal(message, &into); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecodeReserve(b *testing.B) {
	benchDecode(b, ClientToServer{1000, WantToReserveChunks{1, Strategy{Base: Random}}}.AppendCBOR(nil))
}

func BenchmarkDecodeComplete(b *testing.B) {
	benchDecode(b, ClientToServer{1001, CompleteChunk{ID: ChunkID{vectorID, 3}}}.AppendCBOR(nil))
}

// BenchmarkDecodeOutput decodes a completion with an output of 100 KB, as an array of numbers.
func BenchmarkDecodeOutput(b *testing.B) {
	benchDecode(b, ClientToServer{1001, CompleteChunk{ChunkID{vectorID, 3}, bytes.Repeat([]byte("output 9\xff"), 11111)}}.AppendCBOR(nil))
}

func BenchmarkEncodeReply(b *testing.B) {
	var buffer []byte
	b.ReportAllocs()
	for b.Loop() {
		buffer = benchReply.AppendCBOR(buffer[:0])
	}
	b.SetBytes(int64(len(buffer)))
}

// BenchmarkInsert decodes and encodes an insert of 500 KB in chunks of 1 KB, the largest that the original accepts.
func BenchmarkInsert(b *testing.B) {
	s := InsertSubmission{Direct: &Direct{}}
	for range 500 {
		s.Direct.Contents = append(s.Direct.Contents, bytes.Repeat([]byte("chunk 77\xff\x00"), 102))
	}
	document := s.AppendJSON(nil)
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(document)))
		for b.Loop() {
			if _, err := DecodeInsertSubmission(document); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(document)))
		for b.Loop() {
			document = s.AppendJSON(document[:0])
		}
	})
}
