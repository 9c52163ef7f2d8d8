package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/daybookq/daybook/internal/testkit"
)

func isMalformed(err error) bool { return errors.Is(err, ErrMalformed) && !errors.Is(err, ErrShape) }
func isShape(err error) bool     { return errors.Is(err, ErrShape) && !errors.Is(err, ErrMalformed) }

// object is a CBOR map in the order of its pairs. Keys may be duplicate.
type object []pair
type pair struct{ key, value any }

// raw is CBOR that is written unchanged.
type raw []byte

// shortHead returns the shortest head for a number.
func shortHead(major byte, arg int) []byte {
	b := encodeCBOR(uint64(arg))
	b[0] |= major << 5
	return b
}

// encoded returns the CBOR of a value with definite lengths, encoded by the library.
func encoded(t testing.TB, value any) []byte {
	t.Helper()
	switch value := value.(type) {
	case raw:
		return value
	case object:
		b := shortHead(majorMap, len(value))
		for _, p := range value {
			b = append(append(b, encoded(t, p.key)...), encoded(t, p.value)...)
		}
		return b
	case []any:
		b := shortHead(majorArray, len(value))
		for _, element := range value {
			b = append(b, encoded(t, element)...)
		}
		return b
	}
	return testkit.Must(cbor.Marshal(value))(t)
}

// indefinite returns a map of indefinite length.
func indefinite(t testing.TB, o object) raw {
	b := []byte{0xbf}
	for _, p := range o {
		b = append(append(b, encoded(t, p.key)...), encoded(t, p.value)...)
	}
	return append(b, 0xff)
}

func tagged(t testing.TB, number uint64, value any) raw {
	return append(shortHead(majorTag, int(number)), encoded(t, value)...)
}

func inEnvelope(contents any) object { return object{{"nonce", 7}, {"contents", contents}} }

func reserve(strategy any) object {
	return inEnvelope(object{{"WantToReserveChunks", object{{"max", 1}, {"strategy", strategy}}}})
}

func complete(output any) object {
	return inEnvelope(object{{"CompleteChunk", object{{"id", chunkIDObject}, {"output_content", output}}}})
}

func preferDistinctOf(underlying any) object {
	return object{{"PreferDistinct", object{{"meta_key", "k"}, {"underlying", underlying}}}}
}

var chunkIDObject = object{{"submission_id", 1}, {"chunk_index", 2}}

// TestAccepted: the decoder accepts the encodings that the original's decoder accepts but its encoder never writes.
func TestAccepted(t *testing.T) {
	id := ChunkID{1, 2}
	bytesOf := func(output ...byte) ClientToServer { return ClientToServer{7, CompleteChunk{id, output}} }
	for _, c := range []struct {
		name    string
		message any
		want    ClientToServer
	}{
		{"fields in another order", object{{"contents", object{{"FailChunk", object{{"failure", "x"}, {"id", object{{"chunk_index", 2}, {"submission_id", 1}}}}}}}, {"nonce", 7}}, ClientToServer{7, FailChunk{id, "x"}}},
		{"unknown fields", object{{"new", []any{1, "x", object{{"y", nil}}, 1.5, true}}, {"nonce", 7}, {"contents", object{{"FailChunk", object{{"id", chunkIDObject}, {"failure", "x"}, {"why", 3}}}}}}, ClientToServer{7, FailChunk{id, "x"}}},
		{"structs of indefinite length", indefinite(t, inEnvelope(object{{"FailChunk", indefinite(t, object{{"id", indefinite(t, chunkIDObject)}, {"failure", "x"}})}})), ClientToServer{7, FailChunk{id, "x"}}},
		{"tags", tagged(t, 55799, inEnvelope(tagged(t, 1000, object{{tagged(t, 1, "FailChunk"), object{{"id", chunkIDObject}, {"failure", tagged(t, 5, tagged(t, 6, "x"))}}}}))), ClientToServer{7, FailChunk{id, "x"}}},
		{"a text of indefinite length", inEnvelope(object{{"FailChunk", object{{"id", chunkIDObject}, {"failure", raw("\x7f\x61a\x62bc\xff")}}}}), ClientToServer{7, FailChunk{id, "abc"}}},
		{"a wide number", object{{"nonce", raw{0x1b, 0, 0, 0, 0, 0, 0, 0, 7}}, {"contents", object{{"FailChunk", object{{"id", chunkIDObject}, {"failure", "x"}}}}}}, ClientToServer{7, FailChunk{id, "x"}}},
		{"the greatest id", inEnvelope(object{{"FailChunk", object{{"id", object{{"submission_id", uint64(1<<63 - 1)}, {"chunk_index", 2}}}, {"failure", ""}}}}), ClientToServer{7, FailChunk{ChunkID{1<<63 - 1, 2}, ""}}},
		{"no output", inEnvelope(object{{"CompleteChunk", object{{"id", chunkIDObject}}}}), bytesOf()},
		{"an undefined output", complete(raw{0xf7}), bytesOf()},
		{"an empty array as output", complete([]any{}), ClientToServer{7, CompleteChunk{id, []byte{}}}},
		{"an empty byte string as output", complete([]byte{}), ClientToServer{7, CompleteChunk{id, []byte{}}}},
		{"an array as output", complete([]any{0, 23, 24, 255}), bytesOf(0, 23, 24, 255)},
		{"an array of wide numbers as output", complete([]any{raw{0x18, 1}, raw{0x19, 0, 255}, raw{0x1b, 0, 0, 0, 0, 0, 0, 0, 3}, tagged(t, 9, 4)}), bytesOf(1, 255, 3, 4)},
		{"an array of indefinite length as output", complete(raw{0x9f, 1, 0x18, 200, 0xff}), bytesOf(1, 200)},
		{"a byte string as output", complete([]byte{1, 200}), bytesOf(1, 200)},
		{"a byte string of indefinite length as output", complete(raw{0x5f, 0x41, 1, 0x40, 0x42, 2, 3, 0xff}), bytesOf(1, 2, 3)},
		{"the newest", reserve("Newest"), ClientToServer{7, WantToReserveChunks{1, Strategy{Base: Newest}}}},
		{"as many PreferDistinct as are allowed", reserve(preferDistinctOf(preferDistinctOf(preferDistinctOf(preferDistinctOf("Random"))))), ClientToServer{7, WantToReserveChunks{1, Strategy{[]string{"k", "k", "k", "k"}, Random}}}},
		{"the underlying strategy first", reserve(object{{"PreferDistinct", object{{"underlying", preferDistinctOf("Newest")}, {"meta_key", "outer"}}}}), ClientToServer{7, WantToReserveChunks{1, Strategy{[]string{"outer", "k"}, Newest}}}},
		{"the head of a variant in two bytes", inEnvelope(raw(append([]byte{0xb8, 1}, encoded(t, object{{"FailChunk", object{{"id", chunkIDObject}, {"failure", "x"}}}})[1:]...))), ClientToServer{7, FailChunk{id, "x"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			testkit.DeepEqual(t, testkit.Must(DecodeClientToServer(encoded(t, c.message)))(t), c.want)
		})
	}
}

// TestRejected: the decoder refuses a message for each rule that it can break.
func TestRejected(t *testing.T) {
	nested := func(depth int) (value any) {
		for range depth {
			value = []any{value}
		}
		return value
	}
	for _, c := range []struct {
		name    string
		message any
		says    string
	}{
		{"nothing", raw{}, "malformed"},
		{"two values", raw{0x01, 0x01}, "malformed"},
		{"a reserved head", raw{0x1c}, "malformed"},
		{"a break alone", raw{0xff}, "malformed"},
		{"an array without its elements", raw{0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "malformed"},
		{"a text without its bytes", raw{0x7b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "malformed"},
		{"an output without its elements", complete(raw{0x9a, 0x03, 0xff, 0xff, 0xff, 1}), "malformed"},
		{"a map with too many pairs", raw{0xba, 0x00, 0x10, 0x00, 0x01}, "malformed"},
		{"an unknown field that nests too deeply", object{{"new", nested(maxNesting + 1)}}, "malformed"},
		{"a number", 7, "the message is not a map"},
		{"null", nil, "the message is not a map"},
		{"an array", []any{7, "x"}, "the message is not a map"},
		{"no nonce", object{{"contents", object{{"FailChunk", object{{"id", chunkIDObject}, {"failure", "x"}}}}}}, "the message has no field nonce"},
		{"no contents", object{{"nonce", 1}}, "the message has no field contents"},
		{"two nonces", object{{"nonce", 1}, {"nonce", 1}}, "the message has the field nonce twice"},
		{"a key that is a number", object{{1, 1}}, "a key of the message must be a text"},
		{"a key that is not UTF-8", object{{raw{0x61, 0xff}, 1}}, "a text of UTF-8"},
		{"a negative nonce", object{{"nonce", -1}}, "nonce must be a whole number"},
		{"a nonce that is null", object{{"nonce", nil}}, "nonce must be a whole number"},
		{"a nonce that is a float", object{{"nonce", 1.0}}, "nonce must be a whole number"},
		{"a nonce that is a bignum", object{{"nonce", raw{0xc2, 0x41, 7}}}, "nonce must be a whole number"},
		{"contents that are null", inEnvelope(nil), "contents is not a map"},
		{"an unknown message", inEnvelope(object{{"Steal", object{}}}), `no variant "Steal"`},
		{"a message without its payload", inEnvelope("FailChunk"), `no variant "FailChunk" without a payload`},
		{"a message in a map of indefinite length", inEnvelope(indefinite(t, object{{"FailChunk", object{{"id", chunkIDObject}, {"failure", "x"}}}})), "definite length with one entry"},
		{"a message in an empty map", inEnvelope(object{}), "definite length with one entry"},
		{"two messages in one map", inEnvelope(object{{"FailChunk", object{{"id", chunkIDObject}, {"failure", "x"}}}, {"FailChunk", nil}}), "definite length with one entry"},
		{"a variant that is a number", inEnvelope(object{{1, nil}}), "a key of contents must be a text"},
		{"a payload that is an array", inEnvelope(object{{"FailChunk", []any{chunkIDObject, "x"}}}), "FailChunk is not a map"},
		{"no id", inEnvelope(object{{"FailChunk", object{{"failure", "x"}}}}), "FailChunk has no field id"},
		{"no failure", inEnvelope(object{{"FailChunk", object{{"id", chunkIDObject}}}}), "FailChunk has no field failure"},
		{"a failure that is a byte string", inEnvelope(object{{"FailChunk", object{{"id", chunkIDObject}, {"failure", []byte("x")}}}}), "failure must be a text"},
		{"a failure that is not UTF-8", inEnvelope(object{{"FailChunk", object{{"id", chunkIDObject}, {"failure", raw{0x62, 0xc3, 0x28}}}}}), "a text of UTF-8"},
		{"an id of 64 bits", inEnvelope(object{{"FailChunk", object{{"id", object{{"submission_id", uint64(1 << 63)}, {"chunk_index", 2}}}, {"failure", "x"}}}}), "from 0 to 2^63-1"},
		{"an index of 64 bits", inEnvelope(object{{"FailChunk", object{{"id", object{{"submission_id", 1}, {"chunk_index", uint64(1 << 63)}}}, {"failure", "x"}}}}), "from 0 to 2^63-1"},
		{"an id without an index", inEnvelope(object{{"FailChunk", object{{"id", object{{"submission_id", 1}}}, {"failure", "x"}}}}), "id has no field chunk_index"},
		{"an output that is a text", complete("x"), "output_content must be null"},
		{"an output with 256", complete([]any{1, 256}), "from 0 to 255"},
		{"an output with -1", complete([]any{1, -1}), "from 0 to 255"},
		{"an output with null", complete([]any{1, nil}), "of output_content is not a whole number"},
		{"an output with a float", complete([]any{1.0}), "of output_content is not a whole number"},
		{"an output with an array", complete([]any{[]any{1}}), "of output_content is not a whole number"},
		{"an output of indefinite length with 256", complete(raw{0x9f, 0x19, 1, 0, 0xff}), "from 0 to 255"},
		{"an unknown strategy", reserve("Fair"), `strategy has no variant "Fair"`},
		{"a strategy in lower case", reserve("random"), `strategy has no variant "random"`},
		{"a base strategy with a payload", reserve(object{{"Random", nil}}), "Random is not a text"},
		{"PreferDistinct without its payload", reserve("PreferDistinct"), `no variant "PreferDistinct" without`},
		{"PreferDistinct without a key", reserve(object{{"PreferDistinct", object{{"underlying", "Random"}}}}), "PreferDistinct has no field meta_key"},
		{"PreferDistinct without a strategy", reserve(object{{"PreferDistinct", object{{"meta_key", "k"}}}}), "PreferDistinct has no field underlying"},
		{"PreferDistinct with two strategies", reserve(object{{"PreferDistinct", object{{"meta_key", "k"}, {"underlying", "Random"}, {"underlying", "Random"}}}}), "underlying twice"},
		{"one PreferDistinct too many", reserve(preferDistinctOf(preferDistinctOf(preferDistinctOf(preferDistinctOf(preferDistinctOf("Random")))))), "more than 4 PreferDistinct"},
		{"a max of -1", inEnvelope(object{{"WantToReserveChunks", object{{"max", -1}, {"strategy", "Random"}}}}), "max must be a whole number"},
		{"no max", inEnvelope(object{{"WantToReserveChunks", object{{"strategy", "Random"}}}}), "no field max"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := DecodeClientToServer(encoded(t, c.message))
			testkit.MustHold(t, err != nil && strings.Contains(err.Error(), c.says), got, err, "want an error with", c.says)
			want := isMalformed
			testkit.Holds(t, (c.says != "malformed" || want(err)) && (c.says == "malformed" || isShape(err)), err, "has the wrong kind")
		})
	}
}

// TestRejectedByClients: the client's decoder also enforces the rules that only messages to consumers have.
func TestRejectedByClients(t *testing.T) {
	result := func(r any) object {
		return object{{"Sync", object{{"nonce", 0}, {"contents", object{{"ChunksReserved", r}}}}}}
	}
	chunk := object{{"submission_id", 1}, {"chunk_index", 0}, {"retries", 0}}
	submission := object{{"id", 1}, {"chunks_total", 1}, {"chunks_done", 0}, {"chunk_size", 1}, {"otel_trace_carrier", "{}"}}
	without := func(o object, key string) (out object) {
		for _, p := range o {
			if p.key != key {
				out = append(out, p)
			}
		}
		return out
	}
	initial := func(interval any) object {
		return object{{"Init", object{{"max_missable_heartbeats", 3}, {"heartbeat_interval", interval}, {"version_info", "v"}, {"conn_id", "c"}}}}
	}
	for name, message := range map[string]any{
		"the least reply":                   result(object{{"Ok", []any{[]any{chunk, submission}}}}),
		"no chunks":                         result(object{{"Ok", []any{}}}),
		"an interval of 1 ns":               initial(object{{"secs", 0}, {"nanos", 1}}),
		"nanos that are more than a second": initial(object{{"secs", 0}, {"nanos", 4294967295}}),
	} {
		_, err := DecodeServerToClient(encoded(t, message))
		testkit.Check(t, err, name)
	}
	for _, key := range []string{"id", "chunks_total", "chunks_done", "chunk_size", "otel_trace_carrier"} {
		_, err := DecodeServerToClient(encoded(t, result(object{{"Ok", []any{[]any{chunk, without(submission, key)}}}})))
		testkit.Holds(t, isShape(err) && strings.Contains(err.Error(), key), "a submission without", key, err)
	}
	for name, message := range map[string]any{
		"a text":                             "Init",
		"an unknown message":                 object{{"Stop", 1}},
		"a result that is neither":           result(object{{"Perhaps", []any{}}}),
		"an error with an element":           result(object{{"Err", []any{1}}}),
		"an error that is null":              result(object{{"Err", nil}}),
		"a chunk alone":                      result(object{{"Ok", []any{[]any{chunk}}}}),
		"a chunk and two submissions":        result(object{{"Ok", []any{[]any{chunk, submission, submission}}}}),
		"a chunk in an indefinite array":     result(object{{"Ok", []any{raw(append(append(append([]byte{0x9f}, encoded(t, chunk)...), encoded(t, submission)...), 0xff))}}}),
		"another reply":                      object{{"Sync", object{{"nonce", 0}, {"contents", object{{"Done", nil}}}}}},
		"another notice":                     object{{"Async", object{{"Hello", chunkIDObject}}}},
		"a notice without a chunk":           object{{"Async", "ChunkReservationExpired"}},
		"an interval that is a number":       initial(10),
		"an interval of more than 292 years": initial(object{{"secs", 9223372036}, {"nanos", 854775808}}),
		"nanos of more than 32 bits":         initial(object{{"secs", 0}, {"nanos", 4294967296}}),
	} {
		got, err := DecodeServerToClient(encoded(t, message))
		testkit.Holds(t, isShape(err), name, got, err)
	}
}

// TestMessageSize: a message of the maximum size is read, and one byte more is refused.
func TestMessageSize(t *testing.T) {
	fail := func(size int) []byte {
		overhead := len(EncodeClientToServer(ClientToServer{Contents: FailChunk{}})) + 4 // the head of the text has four bytes more
		return EncodeClientToServer(ClientToServer{Contents: FailChunk{Failure: strings.Repeat("x", size-overhead)}})
	}
	message := fail(MaxMessageBytes)
	testkit.MustEqual(t, len(message), MaxMessageBytes, "the message")
	testkit.Must(DecodeClientToServer(message))(t)
	_, err := DecodeClientToServer(fail(MaxMessageBytes + 1))
	testkit.Holds(t, isMalformed(err), "a byte more", err)
}
