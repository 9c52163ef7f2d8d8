package wire

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// random generates values for the tests of properties below. It prefers the limits of each type.
type random struct{ *rand.Rand }

func (r random) number() int64 {
	switch r.IntN(4) {
	case 0:
		return []int64{0, 23, 24, 255, 256, 65535, 65536, 1<<32 - 1, 1 << 32, 1<<53 + 1, math.MaxInt64}[r.IntN(11)]
	case 1:
		return r.Int64()
	}
	return r.Int64N(1000)
}

func (r random) signed() int64 {
	if n := r.number(); r.IntN(2) == 0 {
		return -1 - n
	} else {
		return n
	}
}

func (r random) text() string {
	letters := []rune("ab\"\\/\n\x00\u2028é💓 {}")
	b := make([]rune, r.IntN(30))
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}

func (r random) nullable() *string {
	if r.IntN(3) == 0 {
		return nil
	}
	return text(r.text())
}

func (r random) bytes() []byte {
	switch r.IntN(4) {
	case 0:
		return nil
	case 1:
		return []byte{}
	}
	b := make([]byte, r.IntN(400))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (r random) metadata() (m Metadata) {
	for range r.IntN(6) {
		if m == nil {
			m = Metadata{}
		}
		m[r.text()] = r.signed()
	}
	return m
}

func (r random) chunkID() ChunkID { return ChunkID{SubmissionID(r.number()), r.number()} }

func (r random) time() time.Time { return time.Unix(r.Int64N(1<<33), r.Int64N(1e9)).UTC() }

func (r random) submission() Submission {
	return Submission{SubmissionID(r.number()), r.nullable(), r.number(), r.number(), r.signed(), r.bytes(), r.metadata(), r.text()}
}

func (r random) strategy() (s Strategy) {
	for range r.IntN(MaxPreferDistinct + 1) {
		s.PreferDistinct = append(s.PreferDistinct, r.text())
	}
	s.Base = Base(r.IntN(len(baseNames)))
	return s
}

func (r random) clientMessage() ClientToServer {
	m := ClientToServer{Nonce: r.Uint64() >> r.IntN(64)}
	switch r.IntN(3) {
	case 0:
		m.Contents = WantToReserveChunks{r.Uint64() >> r.IntN(64), r.strategy()}
	case 1:
		m.Contents = CompleteChunk{r.chunkID(), r.bytes()}
	case 2:
		m.Contents = FailChunk{r.chunkID(), r.text()}
	}
	return m
}

func (r random) serverMessage() ServerToClient {
	switch r.IntN(4) {
	case 0:
		return Init{r.Uint64(), Duration(r.number()), r.text(), r.text()}
	case 1:
		return ChunkReservationExpired{r.chunkID()}
	case 2:
		return ChunksReserved{Nonce: r.Uint64(), MaxIsZero: true}
	}
	m := ChunksReserved{Nonce: r.Uint64(), Chunks: []ReservedChunk{}}
	for range r.IntN(4) {
		m.Chunks = append(m.Chunks, ReservedChunk{Chunk: Chunk{r.chunkID(), r.bytes(), r.signed()}, Submission: r.submission()})
	}
	return m
}

func (r random) notCancellable() (s SubmissionNotCancellable) {
	switch r.IntN(3) {
	case 0:
		s.Completed = &SubmissionCompleted{SubmissionID(r.number()), r.nullable(), r.number(), r.signed(), r.bytes(), r.metadata(), r.time(), r.text()}
	case 1:
		s.Failed = &FailedWithChunk{
			SubmissionFailed{SubmissionID(r.number()), r.nullable(), r.number(), nil, r.signed(), r.bytes(), r.metadata(), r.time(), r.number(), r.text()},
			ChunkFailed{r.chunkID(), r.bytes(), r.text(), r.time()},
		}
		if r.IntN(2) == 0 {
			s.Failed.Submission.ChunksDone = number(r.number())
		}
	case 2:
		s.Cancelled = &SubmissionCancelled{SubmissionID(r.number()), r.nullable(), r.number(), r.number(), r.bytes(), r.metadata(), r.time()}
	}
	return s
}

func (r random) status() *SubmissionStatus {
	switch r.IntN(4) {
	case 0:
		return nil
	case 1:
		s := r.submission()
		return &SubmissionStatus{InProgress: &s}
	}
	ended := r.notCancellable()
	return &SubmissionStatus{Completed: ended.Completed, Failed: ended.Failed, Cancelled: ended.Cancelled}
}

func (r random) insert() InsertSubmission {
	s := InsertSubmission{Metadata: r.bytes(), StrategicMetadata: r.metadata()}
	if r.IntN(2) == 0 {
		s.Chunks.SeeObjectStorage = &SeeObjectStorage{r.text(), r.number()}
	} else {
		s.Chunks.Direct = &Direct{[][]byte{}}
		for range r.IntN(5) {
			s.Chunks.Direct.Contents = append(s.Chunks.Direct.Contents, r.bytes())
		}
	}
	if r.IntN(2) == 0 {
		s.ChunkSize = number(r.signed())
	}
	return s
}

// TestRoundTrips: encoding and decoding a value returns the same value.
func TestRoundTrips(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := random{rand.New(rand.NewPCG(seed, 0))}
	for range 3000 {
		for _, want := range []any{r.clientMessage(), r.serverMessage()} {
			b := encodeMessage(want)
			got := testkit.Must(decodeMessage(want, b))(t)
			testkit.MustHold(t, reflect.DeepEqual(got, want), want, "is encoded as", string(b), "which decodes to", got)
		}
		for _, want := range []any{r.insert(), r.status(), r.notCancellable(), r.metadata(), []SubmissionID{SubmissionID(r.number()), SubmissionID(r.number())}} {
			b := EncodeJSON(want)
			got := testkit.Must(decodeLike(want, b))(t)
			testkit.MustHold(t, reflect.DeepEqual(got, want), want, "is encoded as", string(b), "which decodes to", got)
		}
	}
}

// TestNotUTF8: invalid UTF-8 is sent as text that a client can read.
func TestNotUTF8(t *testing.T) {
	const bad, good = "a\xffb\xc3", "a\uFFFDb\uFFFD"
	s := Submission{Prefix: text(bad), StrategicMetadata: Metadata{bad: 1}, OtelTraceCarrier: bad}
	want := Submission{Prefix: text(good), StrategicMetadata: Metadata{good: 1}, OtelTraceCarrier: good}
	got, err := DecodeServerToClient(EncodeServerToClient(ChunksReserved{Chunks: []ReservedChunk{{Submission: s}}}))
	testkit.Holds(t, err == nil && reflect.DeepEqual(got.(ChunksReserved).Chunks[0].Submission, want), got, err)
	status, err := decodeLike(&SubmissionStatus{}, EncodeJSON(SubmissionStatus{InProgress: &s}))
	testkit.Holds(t, err == nil && reflect.DeepEqual(status, &SubmissionStatus{InProgress: &want}), status, err)
}

func TestSubmissionID(t *testing.T) {
	id, err := NewSubmissionID(1750000000000, 7)
	testkit.Holds(t, err == nil && id == 1750000000000<<22|7 && id.UnixMS() == 1750000000000 && id.Low() == 7,
		id, err, "time", id.UnixMS(), "low bits", id.Low())
	last := testkit.Must(NewSubmissionID(MaxIDTimeMS, MaxIDLow))(t)
	testkit.Holds(t, last == math.MaxInt64 && last.UnixMS() == MaxIDTimeMS && last.Low() == MaxIDLow, "the last id is", last)
	testkit.Equal(t, time.UnixMilli(MaxIDTimeMS).UTC().Format(time.DateOnly), "2039-09-07", "the last time")
	for _, c := range []struct {
		ms  int64
		low uint32
	}{{-1, 0}, {MaxIDTimeMS + 1, 0}, {0, MaxIDLow + 1}} {
		id, err := NewSubmissionID(c.ms, c.low)
		testkit.Holds(t, err != nil, c.ms, "ms with", c.low, "is", id)
	}
	for text, want := range map[string]SubmissionID{"0": 0, "7340000000000000000": vectorID, "9223372036854775807": math.MaxInt64, "007": 7} {
		testkit.Equal(t, testkit.Must(ParseSubmissionID(text))(t), want, text)
	}
	for _, text := range []string{"", "-1", "+1", "9223372036854775808", "18446744073709551616", "1.0", "1e3", "0x1", " 1", "a", "1_0"} {
		got, err := ParseSubmissionID(text)
		testkit.Holds(t, err != nil, text, "is", got)
	}
	testkit.Equal(t, vectorID.String(), "7340000000000000000")
}

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
		n := allocated(func() { got, err = decodeMessage(like, message) })
		testkit.MustHold(t, n <= mostAllocated(len(message)), len(message), "bytes take", n, "bytes of memory")
		if err != nil {
			testkit.MustHold(t, isMalformed(err) != isShape(err), err, "has no kind")
			return
		}
		again, err := decodeMessage(like, encodeMessage(got))
		testkit.MustHold(t, err == nil && reflect.DeepEqual(again, got), got, "is decoded again as", again, err)
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
			n := allocated(func() { got, err = decodeLike(like, document) })
			testkit.MustHold(t, n <= mostAllocated(len(document)), fmt.Sprintf("%T", like), len(document), "bytes take", n, "bytes of memory")
			if err != nil {
				testkit.MustHold(t, isMalformed(err) != isShape(err), fmt.Sprintf("%T", like), err, "has no kind")
				continue
			}
			text := EncodeJSON(got)
			again := testkit.Must(decodeLike(like, text))(t)
			testkit.MustHold(t, reflect.DeepEqual(again, got), string(document), "is encoded as", string(text), "which decodes to", again)
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
		testkit.Check(t, err, c.name)
		testkit.Holds(t, n <= c.most*size+64<<10, c.name, "of", size, "bytes takes", n, "bytes of memory",
			fmt.Sprintf("%.1f", float64(n)/size), "times as many")
	}
}
