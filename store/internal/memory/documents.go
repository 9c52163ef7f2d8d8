package memory

import (
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/row"
)

// Documents are the named documents of a kind.
type Documents struct {
	Names, Deleted int
	Bytes          int64  // of all texts
	Forgotten      int    // the highest number of a version of the documents whose histories are gone
	OldestDeletion uint64 // no row of a deletion is before it; a scan from there skips the rows that were removed
	// Newest are the newest versions of the existing documents. It is nil if the kind is not kept in memory.
	Newest  map[row.DocumentName]document.Named
	Changed bool // since the last commit
}

// Know takes the newest version of a document that was read or changed into memory.
func (of *Documents) Know(d *row.Document) {
	if of.Newest == nil {
		return
	}
	of.Changed = true
	if d.Exists() {
		of.Newest[d.DocumentName] = d.Named(d.Newest())
	} else {
		delete(of.Newest, d.DocumentName)
	}
}
