package store

// filesets checks that each fileset has versions, in order, and not more than are kept.
func (c *checker) filesets() {
	filesets := 0
	c.table(filesetTable, func(key string, value []byte) {
		filesets++
		f := decodeFileset(filesetOfKey(key), value)
		if n := len(f.versions); n == 0 || n > c.rules.filesetVersions {
			c.problem("the fileset %q of %q has %d versions", f.name, f.client, n)
		}
		last := filesetVersion{}
		for _, v := range f.versions {
			if v.seq <= last.seq || v.seq > c.meta.cursor || v.at < last.at || v.at > c.meta.at || v.number <= last.number ||
				last.number > 0 && v.manifest == last.manifest {
				c.problem("version %d of the fileset %q of %q, of command %d at %d, follows version %d of %d at %d",
					v.number, f.name, f.client, v.seq, v.at, last.number, last.seq, last.at)
			}
			last = v
		}
	})
	if filesets > c.rules.filesets {
		c.problem("there are %d filesets; the maximum is %d", filesets, c.rules.filesets)
	}
}
