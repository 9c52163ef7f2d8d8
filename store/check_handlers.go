package store

import (
	"crypto/sha256"

	"github.com/daybookq/daybook/job"
)

// handlers checks that each version of a handler has its document, and that there are no other documents.
func (c *checker) handlers() {
	documents := int64(0)
	c.table(handlerTable, func(key string, value []byte) {
		h := decodeHandler(handlerOfKey(key), value)
		if n := len(h.versions); n == 0 || n > c.rules.handlerVersions {
			c.problem("the handler of %q, %q has %d versions", h.client, h.typ, n)
		}
		last := handlerVersion{}
		for _, v := range h.versions {
			documents++
			t := readHandlerDocument(c.v, v.seq)
			switch {
			case t == nil:
				c.problem("version %d of the handler of %q, %q has no document", v.number, h.client, h.typ)
			case t.queueName != h.queueName || t.at != v.at || len(t.text) != v.bytes || job.HandlerDigest(sha256.Sum256(t.text)) != v.digest:
				c.problem("version %d of the handler of %q, %q has the document of another", v.number, h.client, h.typ)
			}
			if v.seq <= last.seq || v.seq > c.meta.cursor || v.at < last.at || v.at > c.meta.at || v.number <= last.number {
				c.problem("version %d of the handler of %q, %q, of command %d at %d, follows version %d of %d at %d",
					v.number, h.client, h.typ, v.seq, v.at, last.number, last.seq, last.at)
			}
			last = v
		}
	})
	c.table(handlerDocumentTable, func(key string, value []byte) { documents-- })
	if documents != 0 {
		c.problem("%d versions of handlers have no document, or else documents no version", documents)
	}
}
