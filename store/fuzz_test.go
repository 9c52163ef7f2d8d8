package store

import (
	"testing"

	"github.com/daybookq/daybook/job"
)

// rowDecoders are the ways in which the value of a row is read.
var rowDecoders = []func(value []byte){
	func(v []byte) { decodeMeta(v) },
	func(v []byte) { decodeSpan(1, v) },
	func(v []byte) { decodeBatch(1, v) },
	func(v []byte) { decodeBatchCounts(v) },
	func(v []byte) { decodeClaim(1, v) },
	func(v []byte) { decodeLease(v) },
	func(v []byte) { decodeOverride(v) },
	func(v []byte) { decodeRunner("r", v) },
	func(v []byte) { decodeAttempt(v) },
	func(v []byte) { decodeResult(v) },
	func(v []byte) { decodeProgress(v) },
	func(v []byte) { decodeQueue(1, v, &windows{bounds: &standardBounds}) },
	func(v []byte) { decodeDone(v) },
	func(v []byte) { decodeSweep(1, v) },
}

// FuzzRows: whatever bytes a row has, reading it ends in a value or in the error of damage, which catch hands to the caller; never in a
// panic that escapes, and never in memory for more things than the bytes can hold.
func FuzzRows(f *testing.F) {
	s := mustOpen(f, Options{})
	mustApply(f, s, 1, 0, plainCreate("a", "x", 1, 3))
	mustApply(f, s, 2, 0, job.Claim{Runner: "r", Max: 2, MaxBytes: 1000})
	mustCommit(f, s)
	v := s.view()
	v.scan("A", "z", func(_ string, value []byte) bool {
		for n := range rowDecoders {
			f.Add(uint8(n), append([]byte{}, value...))
		}
		return true
	})
	v.close()
	f.Fuzz(func(t *testing.T, which uint8, value []byte) {
		err := func() (err error) {
			defer catch(&err)
			rowDecoders[int(which)%len(rowDecoders)](value)
			return nil
		}()
		if damage, ok := err.(*Error); err != nil && (!ok || !damage.Is(ErrDamaged)) {
			t.Errorf("decoder %d of %q: %v", which, value, err)
		}
	})
}
