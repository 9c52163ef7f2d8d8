package check

import (
	"crypto/sha256"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/row"
)

// documents checks that each named document has its versions in order, that the kept ones and no others have their
// texts, that each deleted document is listed by its deletion, and that there are not more than the bounds allow.
func (c *checker) documents() {
	var names, deleted [job.NumDocumentKinds]int
	var bytes [job.NumDocumentKinds]int64
	c.table(row.DocumentTable, func(key string, value []byte) {
		name, gone := row.DocumentOfKey(key)
		d := row.DecodeDocument(name, value)
		if n := len(d.Versions); n == 0 || n > c.rules.DocumentVersions {
			c.problem("the %v %q of %q has %d versions", d.Kind, d.Name, d.Client, n)
			return
		}
		if d.Exists() == gone {
			c.problem("the %v %q of %q is in the row of deleted ones (%v), and its newest version deletes it (%v)", d.Kind, d.Name, d.Client, gone, !d.Exists())
		}
		if gone {
			deleted[d.Kind]++
			at := row.DeletionKey(d.Kind, d.Newest().Seq)
			c.must(at)
			if listed := c.v.Get(at); listed != nil && row.DecodeDeletion(d.Kind, listed) != d.DocumentName {
				c.problem("the deletion %d of the %v %q of %q names another", d.Newest().Seq, d.Kind, d.Name, d.Client)
			}
		} else {
			names[d.Kind]++
		}
		kept := len(d.Versions) - len(d.Kept())
		last := row.DocumentVersion{}
		for i, v := range d.Versions {
			if v.Seq <= last.Seq || v.Seq > c.meta.Cursor || v.At < last.At || v.At > c.meta.At || v.Number < 1 || i > 0 && v.Number != last.Number+1 ||
				i > 0 && v.Deleted == last.Deleted && v.Digest == last.Digest {
				c.problem("version %d of the %v %q of %q, of command %d at %d, follows version %d of %d at %d",
					v.Number, d.Kind, d.Name, d.Client, v.Seq, v.At, last.Number, last.Seq, last.At)
			}
			last = v
			if i < kept || d.Kind.Rules().MaxBytes == 0 {
				continue
			}
			bytes[d.Kind] += int64(v.Bytes)
			c.must(row.SeqKey(row.DocumentTextTable, v.Seq))
			if t := row.ReadDocumentText(c.v, v.Seq); t != nil && (t.DocumentName != d.DocumentName || t.At != v.At || len(t.Text) != v.Bytes || sha256.Sum256(t.Text) != v.Digest) {
				c.problem("version %d of the %v %q of %q has the text of another", v.Number, d.Kind, d.Name, d.Client)
			}
		}
	})
	for kind := range job.DocumentKinds {
		if value := c.v.Get(row.DeletionKey(kind, 0)); value != nil {
			c.rows[row.DeletionTable]++
			c.guard(func() { row.DecodeForgotten(value) }, "forgotten documents of kind %v", kind)
		}
		if bounds := c.rules.Documents[kind]; names[kind] > bounds.Names || deleted[kind] > c.rules.DeletedDocuments || bytes[kind] > bounds.Bytes {
			c.problem("there are %d documents of kind %v, %d deleted ones and %d bytes; the maximum is %d, %d and %d",
				names[kind], kind, deleted[kind], bytes[kind], bounds.Names, c.rules.DeletedDocuments, bounds.Bytes)
		}
	}
}
