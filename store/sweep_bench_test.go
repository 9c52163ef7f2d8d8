package store

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/internal/testkit"
)

// BenchmarkStart opens a store with 100,000 ready queues.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	open := func() *Store {
		return testkit.Must(Open(dir, Options{Journal: testJournal, FS: vfs.Default}))(b)
	}
	n := &bench{b: b, s: open(), at: startAt}
	for i := range 100 {
		c := benchCreate("a", "x", 1000)
		c.Groups = nil
		for j := range 1000 {
			c.Groups = append(c.Groups, plainGroup(fmt.Sprintf("client%d", i), fmt.Sprintf("type%d", j), 1))
		}
		n.Apply(c)
		n.commit()
	}
	testkit.NoError(b, n.s.FlushWait())
	testkit.NoError(b, n.s.Close())
	for b.Loop() {
		s := open()
		testkit.NoError(b, s.Close())
	}
}
