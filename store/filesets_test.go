package store

import (
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/row"
)

// TestCheckNoticesDamagedFilesets: versions out of order, too many or too few, from the future, and wrong keys.
func TestCheckNoticesDamagedFilesets(t *testing.T) {
	s := mustOpen(t, Options{Small: true})
	for i := range 5 {
		mustApply(t, s, uint64(1+i), int64(i), job.PutFileset{Client: "a", Name: "x", Manifest: job.ManifestDigest{byte(i)}, Files: i, Bytes: int64(i)})
	}
	mustCommit(t, s)
	key := row.FilesetKey(row.FilesetName{"a", "x"})
	good := storedRow{key, s.machine.O.Get(key)}
	f := func() *row.Fileset { return row.DecodeFileset(row.FilesetName{"a", "x"}, good.value) }
	testkit.MustEqual(t, len(f().Versions), 3)
	testkit.MustEqual(t, f().Newest().Number, 5)
	for name, damage := range map[string]func(f *row.Fileset){
		"no versions": func(f *row.Fileset) { f.Versions = nil },
		"too many versions": func(f *row.Fileset) {
			f.Versions = append(f.Versions, row.FilesetVersion{Seq: 5, At: startAt + 4, Number: 6})
		},
		"versions out of order": func(f *row.Fileset) { f.Versions[0], f.Versions[1] = f.Versions[1], f.Versions[0] },
		"a number twice":        func(f *row.Fileset) { f.Versions[1].Number = f.Versions[0].Number },
		"a later command":       func(f *row.Fileset) { f.Versions[2].Seq = 6 },
		"a later time":          func(f *row.Fileset) { f.Versions[2].At++ },
		"a manifest twice":      func(f *row.Fileset) { f.Versions[2].Manifest = f.Versions[1].Manifest },
	} {
		damaged := f()
		damage(damaged)
		storedRow{key, damaged.Encode()}.set(t, s)
		if problems := problemsOf(t, s); len(problems) == 0 {
			t.Errorf("%s: not noticed", name)
		}
	}
	good.set(t, s)
	for _, wrong := range []string{string(row.FilesetTable), string(row.FilesetTable) + "\x00a", string(row.FilesetTable) + "x"} {
		row := storedRow{wrong, good.value}
		row.set(t, s)
		if problems := problemsOf(t, s); len(problems) == 0 {
			t.Errorf("key %q: not noticed", wrong)
		}
		row.del(t, s)
	}
	for _, value := range [][]byte{nil, good.value[:len(good.value)-1]} {
		storedRow{key, value}.set(t, s)
		if problems := problemsOf(t, s); len(problems) == 0 {
			t.Errorf("a row of %d bytes: not noticed", len(value))
		}
	}
	good.set(t, s)
}
