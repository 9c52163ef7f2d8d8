package wire

import (
	"math"
	"math/rand/v2"
	"reflect"
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

func (r random) time() time.Time {
	return time.Unix(r.Int64N(1<<33), r.Int64N(1e9)).UTC()
}

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
			if got, err := decodeMessage(want, b); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v is encoded as %q, which decodes to %+v, %v", want, b, got, err)
			}
		}
		for _, want := range []any{r.insert(), r.status(), r.notCancellable(), r.metadata(), []SubmissionID{SubmissionID(r.number()), SubmissionID(r.number())}} {
			b := EncodeJSON(want)
			if got, err := decodeLike(want, b); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v is encoded as %q, which decodes to %+v, %v", want, b, got, err)
			}
		}
	}
}

// TestNotUTF8: invalid UTF-8 is sent as text that a client can read.
func TestNotUTF8(t *testing.T) {
	const bad, good = "a\xffb\xc3", "a\uFFFDb\uFFFD"
	s := Submission{Prefix: text(bad), StrategicMetadata: Metadata{bad: 1}, OtelTraceCarrier: bad}
	want := Submission{Prefix: text(good), StrategicMetadata: Metadata{good: 1}, OtelTraceCarrier: good}
	got, err := DecodeServerToClient(EncodeServerToClient(ChunksReserved{Chunks: []ReservedChunk{{Submission: s}}}))
	if err != nil || !reflect.DeepEqual(got.(ChunksReserved).Chunks[0].Submission, want) {
		t.Errorf("%+v, %v", got, err)
	}
	status, err := decodeLike(&SubmissionStatus{}, EncodeJSON(SubmissionStatus{InProgress: &s}))
	if err != nil || !reflect.DeepEqual(status, &SubmissionStatus{InProgress: &want}) {
		t.Errorf("%+v, %v", status, err)
	}
}

func TestSubmissionID(t *testing.T) {
	id, err := NewSubmissionID(1750000000000, 7)
	if err != nil || id != 1750000000000<<22|7 || id.UnixMS() != 1750000000000 || id.Low() != 7 {
		t.Errorf("%d, %v; time %d, low bits %d", id, err, id.UnixMS(), id.Low())
	}
	if last, err := NewSubmissionID(MaxIDTimeMS, MaxIDLow); err != nil || last != math.MaxInt64 || last.UnixMS() != MaxIDTimeMS || last.Low() != MaxIDLow {
		t.Errorf("the last id is %d, %v", last, err)
	}
	testkit.Equal(t, time.UnixMilli(MaxIDTimeMS).UTC().Format(time.DateOnly), "2039-09-07", "the last time")
	for _, c := range []struct {
		ms  int64
		low uint32
	}{{-1, 0}, {MaxIDTimeMS + 1, 0}, {0, MaxIDLow + 1}} {
		if id, err := NewSubmissionID(c.ms, c.low); err == nil {
			t.Errorf("%d ms with %d is %d", c.ms, c.low, id)
		}
	}
	for text, want := range map[string]SubmissionID{"0": 0, "7340000000000000000": vectorID, "9223372036854775807": math.MaxInt64, "007": 7} {
		testkit.Equal(t, testkit.Must(ParseSubmissionID(text))(t), want, text)
	}
	for _, text := range []string{"", "-1", "+1", "9223372036854775808", "18446744073709551616", "1.0", "1e3", "0x1", " 1", "a", "1_0"} {
		if got, err := ParseSubmissionID(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
	testkit.Equal(t, vectorID.String(), "7340000000000000000")
}
