package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// filled returns a running journal with n records in small segments and volumes.
func filled(t *testing.T, n int) *running {
	r := mustRun(t, Options{SegmentBytes: 300, VolumeBytes: 1500})
	for i := range n {
		ch := testkit.Must(r.propose(Control, "create", fmt.Sprintf("record %d", i)))(t)
		if a := <-ch; a.err != nil {
			t.Fatal(a.err)
		}
	}
	return r
}

// TestSegments: for each pair of a first and a last record, the copied segments are a complete journal that includes the
// first record and ends with the last.
func TestSegments(t *testing.T) {
	j := filled(t, 60)
	last := j.Synced()
	for from := uint64(1); from <= last; from += 7 {
		for through := from; through <= last; through += 3 {
			to := t.TempDir()
			name, identity := j.IdentityFile()
			testkit.NoError(t, os.WriteFile(filepath.Join(to, name), identity, 0o640))
			for s, err := range j.Segments(from, through) {
				testkit.NoError(t, err)
				path := filepath.Join(to, s.Path())
				testkit.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, s.Data, 0o640)))
			}
			r, err := Verify(to)
			testkit.MustHold(t, err == nil && r.Damage == nil && r.First <= from && r.Last == through &&
				r.UUID == j.UUID(), "from", from, "to", through, r, err)
			next := r.First
			for record, err := range Scan(to, r.First) {
				testkit.MustHold(t, err == nil && record.Seq == next, "record", record.Seq, err)
				next++
			}
		}
	}
	for _, err := range j.Segments(1, last+1000) {
		testkit.Failed(t, err)
	}
}

// TestSegmentsOfADamagedJournal: damage gives an error instead of a copy.
func TestSegmentsOfADamagedJournal(t *testing.T) {
	j := filled(t, 20)
	vols := testkit.Must(loadVolumes(j.o.Dir))(t)
	path := vols[0].segments[0].path
	content := testkit.Must(os.ReadFile(path))(t)
	for _, at := range []int{0, len(content) / 2, len(content) - 1} {
		damaged := append([]byte(nil), content...)
		damaged[at] ^= 1
		testkit.NoError(t, os.WriteFile(path, damaged, 0o640))
		var found *CorruptError
		for _, err := range j.Segments(1, j.Synced()) {
			testkit.Holds(t, err == nil || errors.As(err, &found), "byte", at, err)
		}
		testkit.Holds(t, found != nil && found.File == path, "byte", at, "damage was not found", found)
	}
	testkit.NoError(t, os.Remove(path))
	for _, err := range j.Segments(1, j.Synced()) {
		testkit.Failed(t, err)
		break
	}
	testkit.NoError(t, os.WriteFile(path, content, 0o640)) // for the end of the journal
}
