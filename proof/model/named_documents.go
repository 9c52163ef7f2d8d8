package model

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strconv"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
)

// DocumentName identifies a named document.
type DocumentName struct {
	Kind         job.DocumentKind
	Client, Name string
}

// DocumentBounds bound the named documents of a kind.
type DocumentBounds struct {
	Names int
	Bytes int64 // of all documents of all versions
}

// Version is a version of a named document. Text is its document, if the server keeps it.
type Version struct {
	Doc  document.Named
	Text string
	seq  uint64
}

// Documents are the named documents of all kinds. Those whose newest version is a deletion do not exist.
type Documents struct {
	Versions  map[DocumentName][]Version // by version
	forgotten map[job.DocumentKind]int   // the highest version of a history that was forgotten
}

// Named returns the names of the documents of a kind that exist, or of the deleted ones, in the order of lists.
func (d *Documents) Named(kind job.DocumentKind, deleted bool) []DocumentName {
	var names []DocumentName
	for name, versions := range d.Versions {
		if name.Kind == kind && versions[len(versions)-1].Doc.Deleted == deleted {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b DocumentName) int {
		return slices.Compare([]string{a.Name, a.Client}, []string{b.Name, b.Client})
	})
	return names
}

// Newest returns the newest version of an existing document. Otherwise its number is 0.
func (d *Documents) Newest(name DocumentName) (v Version) {
	if all := d.Versions[name]; len(all) > 0 && !all[len(all)-1].Doc.Deleted {
		v = all[len(all)-1]
	}
	return v
}

// add adds a version, and drops the oldest one if there are too many.
func (m *Model) add(name DocumentName, v Version) *applied.DocumentChanged {
	d := &m.Documents
	all := d.Versions[name]
	v.Doc.Version = d.forgotten[name.Kind] + 1
	if n := len(all); n > 0 {
		v.Doc.Version = all[n-1].Doc.Version + 1
		all[n-1].Doc.Newest = false
	}
	if v.Doc.Deleted {
		for i := range all {
			all[i].Doc.Gone, all[i].Text = !all[i].Doc.Deleted, ""
		}
	}
	v.seq, v.Doc.ID, v.Doc.CreatedAt, v.Doc.Newest, v.Doc.Client, v.Doc.Name = m.Seq, job.NewID(m.At, m.Seq, 0), m.At, true, name.Client, name.Name
	all = append(all, v)
	d.Versions[name] = all[max(0, len(all)-m.bounds.DocumentVersions):]
	return &applied.DocumentChanged{Document: v.Doc}
}

// meets reports whether a change with this condition may follow a version.
func meets(c job.Condition, v *document.Named) bool {
	exists := v.Version > 0
	switch {
	case c == "":
		return true
	case c == job.IfNone:
		return !exists
	case c == job.IfExists:
		return exists
	}
	return exists && (string(c) == strconv.Itoa(v.Version) || string(c) == v.Digest.String())
}

func (m *Model) putDocument(cmd job.PutDocument) applied.Result {
	name := DocumentName{cmd.Kind, cmd.Client, cmd.Name}
	newest, kind, digest := m.Documents.Newest(name), cmd.Kind.Rules(), cmd.Digest
	if kind.MaxBytes > 0 {
		digest = sha256.Sum256(cmd.Document)
	}
	exists, bytes := newest.Doc.Version > 0, int64(len(cmd.Document))
	for name, versions := range m.Documents.Versions {
		for _, v := range versions {
			if name.Kind == cmd.Kind {
				bytes += int64(len(v.Text))
			}
		}
	}
	bounds := m.bounds.Documents[cmd.Kind]
	switch {
	case exists && digest == newest.Doc.Digest && cmd.If != job.IfNone:
		return &applied.DocumentChanged{Document: newest.Doc, Same: true}
	case !meets(cmd.If, &newest.Doc):
		return &applied.DocumentChanged{Refusal: job.VersionDiffers}
	case !exists && len(m.Documents.Named(cmd.Kind, false)) >= bounds.Names || bytes > bounds.Bytes:
		return &applied.DocumentChanged{Refusal: kind.TooMany}
	}
	return m.add(name, Version{Doc: document.Named{Digest: digest, Bytes: len(cmd.Document), Summary: cmd.Summary, By: cmp.Or(m.By.Name, cmd.By)}, Text: string(cmd.Document)})
}

func (m *Model) deleteDocument(cmd job.DeleteDocument) applied.Result {
	name := DocumentName{cmd.Kind, cmd.Client, cmd.Name}
	newest := m.Documents.Newest(name)
	switch {
	case newest.Doc.Version == 0:
		return &applied.DocumentChanged{Refusal: cmd.Kind.Rules().NotFound}
	case !meets(cmd.If, &newest.Doc):
		return &applied.DocumentChanged{Refusal: job.VersionDiffers}
	}
	deleted := m.add(name, Version{Doc: document.Named{Deleted: true, By: cmp.Or(m.By.Name, cmd.By)}})
	if gone := m.Documents.Named(cmd.Kind, true); len(gone) > m.bounds.DeletedDocuments {
		last := func(name DocumentName) Version {
			versions := m.Documents.Versions[name]
			return versions[len(versions)-1]
		}
		oldest := slices.MinFunc(gone, func(a, b DocumentName) int { return cmp.Compare(last(a).seq, last(b).seq) })
		m.Documents.forgotten[cmd.Kind] = max(m.Documents.forgotten[cmd.Kind], last(oldest).Doc.Version)
		delete(m.Documents.Versions, oldest)
	}
	return deleted
}
