package check

import (
	"github.com/daybookq/daybook/store/internal/row"
)

// filesets checks that each fileset has versions, in order, and not more than are kept.
func (c *checker) filesets() {
	filesets := 0
	c.table(row.FilesetTable, func(key string, value []byte) {
		filesets++
		f := row.DecodeFileset(row.FilesetOfKey(key), value)
		if n := len(f.Versions); n == 0 || n > c.rules.FilesetVersions {
			c.problem("the fileset %q of %q has %d versions", f.Name, f.Client, n)
		}
		last := row.FilesetVersion{}
		for _, v := range f.Versions {
			if v.Seq <= last.Seq || v.Seq > c.meta.Cursor || v.At < last.At || v.At > c.meta.At || v.Number <= last.Number ||
				last.Number > 0 && v.Manifest == last.Manifest {
				c.problem("version %d of the fileset %q of %q, of command %d at %d, follows version %d of %d at %d",
					v.Number, f.Name, f.Client, v.Seq, v.At, last.Number, last.Seq, last.At)
			}
			last = v
		}
	})
	if filesets > c.rules.Filesets {
		c.problem("there are %d filesets; the maximum is %d", filesets, c.rules.Filesets)
	}
}
