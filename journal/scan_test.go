package journal

import (
	"bytes"
	"encoding/binary"
	"iter"
	"maps"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

func mapKeys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

func TestSearch(t *testing.T) {
	rec := func(seq, synced uint64) []byte {
		return entry(Record{Verb: "create", Seq: seq, At: 100, Synced: synced})
	}
	at := func(p proof) [3]uint64 { return [3]uint64{uint64(p.records), p.synced, p.last} }
	for name, c := range map[string]struct {
		data []byte
		want [3]uint64
	}{
		"nothing":          {nil, [3]uint64{}},
		"no record":        {[]byte("\n#:\n#:create v=1 seq="), [3]uint64{}},
		"in order":         {bytes.Join([][]byte{rec(11, 9), rec(12, 9)}, nil), [3]uint64{2, 9, 12}},
		"after garbage":    {bytes.Join([][]byte{[]byte("garbage\n#:x"), rec(11, 10)}, nil), [3]uint64{1, 10, 11}},
		"too early in seq": {rec(10, 9), [3]uint64{}},
		"too late in seq":  {rec(5000, 4999), [3]uint64{}},
		"another salt":     {entry(Record{Verb: "create", Salt: 1, Seq: 11, At: 100, Synced: 10}), [3]uint64{}},
		"inside a body":    {entry(Record{Verb: "create", Seq: 11, At: 100, Synced: 5, Body: rec(12, 11)}), [3]uint64{1, 5, 11}},
	} {
		t.Run(name, func(t *testing.T) {
			p := search(c.data, testIdentity.salt, 10, 100)
			testkit.MustHold(t, at(p) == c.want && !p.gaveUp, p)
		})
	}
	p := search(rec(11, 10), testIdentity.salt, 10, 101)
	testkit.MustEqual(t, p.records, 0, "a record from before its predecessor's time counted", p)
}

func TestUvarintLen(t *testing.T) {
	for shift := range 64 {
		for _, x := range []uint64{1 << shift, 1<<shift - 1, 1<<shift + 1} {
			if got, want := uvarintLen(x), len(binary.AppendUvarint(nil, x)); got != want {
				t.Fatalf("%d: %d, not %d", x, got, want)
			}
		}
	}
}

// FuzzScan: no segment makes the scanner or the search panic, and encoding the records gives the bytes that were read.
func FuzzScan(f *testing.F) {
	m, name := tailImage("body ")
	f.Add(m[name])
	f.Add(append(m[name][:len(m[name]):len(m[name])], make([]byte, 64)...))
	f.Add(m[name][:len(m[name])-7])
	f.Add(m[name][100:])
	f.Fuzz(func(t *testing.T, data []byte) {
		sc := scanner{data: data, next: 5}
		var again []byte
		for sc.step() {
			again = append(again, entry(sc.rec)...)
		}
		testkit.MustHold(t, bytes.Equal(again, data[:sc.off]), string(data[:sc.off]), "was read", string(again), "is what it means")
		testkit.MustEqual(t, sc.found.kind == clean, (sc.off == len(data)), "stopped at", sc.off, "of", len(data), "with", sc.found)
		p := search(data[sc.off:], sc.salt, sc.next-1, sc.at)
		testkit.MustHold(t, p.synced < p.last || p.records <= 0, p)
	})
}
