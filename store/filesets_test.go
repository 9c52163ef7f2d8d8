package store

import (
	"testing"

	"github.com/daybookq/daybook/job"
)

// TestCheckNoticesDamagedFilesets: versions out of order, too many or too few, from the future, and wrong keys.
func TestCheckNoticesDamagedFilesets(t *testing.T) {
	s := mustOpen(t, Options{Small: true})
	for i := range 5 {
		mustApply(t, s, uint64(1+i), int64(i), job.PutFileset{Client: "a", Name: "x", Manifest: job.ManifestDigest{byte(i)}, Files: i, Bytes: int64(i)})
	}
	mustCommit(t, s)
	key := filesetKey(filesetName{"a", "x"})
	good := storedRow{key, s.machine.o.Get(key)}
	f := func() *fileset { return decodeFileset(filesetName{"a", "x"}, good.value) }
	if n := len(f().versions); n != 3 || f().newest().number != 5 {
		t.Fatalf("%d versions, the newest is %d", n, f().newest().number)
	}
	for name, damage := range map[string]func(f *fileset){
		"no versions":           func(f *fileset) { f.versions = nil },
		"too many versions":     func(f *fileset) { f.versions = append(f.versions, filesetVersion{seq: 5, at: startAt + 4, number: 6}) },
		"versions out of order": func(f *fileset) { f.versions[0], f.versions[1] = f.versions[1], f.versions[0] },
		"a number twice":        func(f *fileset) { f.versions[1].number = f.versions[0].number },
		"a later command":       func(f *fileset) { f.versions[2].seq = 6 },
		"a later time":          func(f *fileset) { f.versions[2].at++ },
		"a manifest twice":      func(f *fileset) { f.versions[2].manifest = f.versions[1].manifest },
	} {
		damaged := f()
		damage(damaged)
		storedRow{key, damaged.encode()}.set(t, s)
		if problems := problemsOf(t, s); len(problems) == 0 {
			t.Errorf("%s: not noticed", name)
		}
	}
	good.set(t, s)
	for _, wrong := range []string{string(filesetTable), string(filesetTable) + "\x00a", string(filesetTable) + "x"} {
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
