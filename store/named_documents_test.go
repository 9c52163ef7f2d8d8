package store

import (
	"testing"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/row"
)

// TestCheckNoticesDamagedDocuments: versions out of order, too many or too few, from the future, without their texts,
// with those of others, in the wrong row, and wrong keys.
func TestCheckNoticesDamagedDocuments(t *testing.T) {
	s := mustOpen(t, Options{Small: true})
	for i := range byte(5) {
		mustApply(t, s, uint64(1+i), int64(i), job.PutDocument{Kind: job.HandlerDocument, Client: "a", Name: "x", Document: []byte{'0' + i}})
	}
	mustApply(t, s, 6, 5, job.PutDocument{Kind: job.HandlerDocument, Name: "y", Document: []byte("y")})
	mustApply(t, s, 7, 6, job.DeleteDocument{Kind: job.HandlerDocument, Name: "y"})
	mustCommit(t, s)
	noticed := func(name string) {
		t.Helper()
		if problems := problemsOf(t, s); len(problems) == 0 {
			t.Errorf("%s: not noticed", name)
		}
	}
	name, deleted := row.DocumentName{job.HandlerDocument, "a", "x"}, row.DocumentName{job.HandlerDocument, "", "y"}
	key := row.DocumentKey(name, false)
	good := storedRow{key, s.machine.O.Get(key)}
	d := func() *row.Document { return row.DecodeDocument(name, good.value) }
	if n := len(d().Versions); n != 3 || d().Newest().Number != 5 {
		t.Fatalf("%d versions, the newest is %d", n, d().Newest().Number)
	}
	for name, damage := range map[string]func(d *row.Document){
		"no versions": func(d *row.Document) { d.Versions = nil },
		"too many versions": func(d *row.Document) {
			d.Versions = append(d.Versions, row.DocumentVersion{Seq: 6, At: startAt + 5, Number: 6})
		},
		"versions out of order":  func(d *row.Document) { d.Versions[0], d.Versions[1] = d.Versions[1], d.Versions[0] },
		"a number twice":         func(d *row.Document) { d.Versions[1].Number = d.Versions[0].Number },
		"a number left out":      func(d *row.Document) { d.Versions[2].Number++ },
		"a later command":        func(d *row.Document) { d.Versions[2].Seq = 8 },
		"a later time":           func(d *row.Document) { d.Versions[2].At = startAt + 7 },
		"a document twice":       func(d *row.Document) { d.Versions[2].Digest = d.Versions[1].Digest },
		"another length":         func(d *row.Document) { d.Versions[2].Bytes++ },
		"a deletion, not listed": func(d *row.Document) { d.Versions[2].Deleted = true },
	} {
		damaged := d()
		damage(damaged)
		storedRow{key, damaged.Encode()}.set(t, s)
		noticed(name)
	}
	good.set(t, s)
	for _, wrong := range []string{"H", "H\x01", "H\x01\x00", "H\x01\x00\x00a", "H\x01\x00x", "H\x00\x00x\x00", "H\xff\x00x\x00", "H\x01\x02x\x00", row.DeletionKey(job.HandlerDocument, 6),
		"F\x01", "F\xff12345678", row.DeletionKey(job.HandlerDocument, 0) + "x", row.SeqKey(row.DocumentTextTable, 6)} {
		row := storedRow{wrong, good.value}
		row.set(t, s)
		noticed("key " + wrong)
		row.del(t, s)
	}
	for _, value := range [][]byte{nil, good.value[:len(good.value)-1]} {
		storedRow{key, value}.set(t, s)
		noticed("a short row")
	}
	good.set(t, s)
	gone := row.DocumentKey(deleted, true)
	for _, key := range []string{row.DeletionKey(job.HandlerDocument, 7), row.SeqKey(row.DocumentTextTable, 4), gone} {
		lost := storedRow{key, s.machine.O.Get(key)}
		lost.del(t, s)
		noticed("no row " + key)
		storedRow{key, good.value}.set(t, s)
		noticed("another row " + key)
		lost.set(t, s)
	}
	if problems := problemsOf(t, s); len(problems) > 0 {
		t.Error(problems)
	}
}
