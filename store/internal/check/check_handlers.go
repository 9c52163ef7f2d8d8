package check

import (
	"crypto/sha256"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/row"
)

// handlers checks that each version of a handler has its document, and that there are no other documents.
func (c *checker) handlers() {
	documents := int64(0)
	c.table(row.HandlerTable, func(key string, value []byte) {
		h := row.DecodeHandler(row.HandlerOfKey(key), value)
		if n := len(h.Versions); n == 0 || n > c.rules.HandlerVersions {
			c.problem("the handler of %q, %q has %d versions", h.Client, h.Typ, n)
		}
		last := row.HandlerVersion{}
		for _, v := range h.Versions {
			documents++
			t := row.ReadHandlerDocument(c.v, v.Seq)
			switch {
			case t == nil:
				c.problem("version %d of the handler of %q, %q has no document", v.Number, h.Client, h.Typ)
			case t.QueueName != h.QueueName || t.At != v.At || len(t.Text) != v.Bytes || job.HandlerDigest(sha256.Sum256(t.Text)) != v.Digest:
				c.problem("version %d of the handler of %q, %q has the document of another", v.Number, h.Client, h.Typ)
			}
			if v.Seq <= last.Seq || v.Seq > c.meta.Cursor || v.At < last.At || v.At > c.meta.At || v.Number <= last.Number {
				c.problem("version %d of the handler of %q, %q, of command %d at %d, follows version %d of %d at %d",
					v.Number, h.Client, h.Typ, v.Seq, v.At, last.Number, last.Seq, last.At)
			}
			last = v
		}
	})
	c.table(row.HandlerDocumentTable, func(key string, value []byte) { documents-- })
	if documents != 0 {
		c.problem("%d versions of handlers have no document, or else documents no version", documents)
	}
}
