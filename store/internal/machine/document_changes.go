package machine

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

func (m *Machine) loadDocuments() {
	for kind := range job.DocumentKinds {
		rules, of := kind.Rules(), &m.documents[kind]
		*of = memory.Documents{Changed: true}
		m.DocumentUse.Forget(kind)
		if rules.InMemory {
			of.Newest = map[row.DocumentName]document.Named{}
		}
		var secrets []uint64
		from, to := row.DocumentsIn(kind)
		m.O.Scan(from, to, func(key string, value []byte) bool {
			name, _ := row.DocumentOfKey(key)
			use := document.Use{Names: 1}
			if rules.InMemory || rules.MaxBytes > 0 {
				d := row.DecodeDocument(name, value)
				for _, v := range d.Kept() {
					use.Bytes += int64(v.Bytes)
				}
				of.Know(d)
				if isSecret(kind) {
					secrets = append(secrets, d.Newest().Seq)
				}
			}
			m.countDocuments(kind, name.Client, use)
			return true
		})
		slices.Sort(secrets)
		m.knowSecrets(secrets...)
		from, to = row.DeletionsFrom(kind, 0)
		m.O.Scan(from, to, func(string, []byte) bool {
			of.Deleted++
			return true
		})
		if value := m.O.Get(row.DeletionKey(kind, 0)); value != nil {
			of.Forgotten = row.DecodeForgotten(value)
		}
		if kind == job.KeyDocument && of.Deleted+of.Forgotten > 0 {
			m.Keys.Change("", nil) // keys are required since the first one was made
		}
	}
	m.Keys.Publish()
	m.Logins.Publish()
}

// countDocuments counts documents and bytes that a client has now, or has no more.
func (m *Machine) countDocuments(kind job.DocumentKind, client string, by document.Use) {
	of := &m.documents[kind]
	of.Names += int(by.Names)
	of.Bytes += by.Bytes
	m.DocumentUse.Count(kind, client, by)
}

// knowSecrets takes the newest versions of keys and logins into memory. Publish makes them known. seqs ascend: they say which
// commands stored the versions.
func (m *Machine) knowSecrets(seqs ...uint64) {
	texts := make([]string, len(seqs))
	for i, seq := range seqs {
		texts[i] = row.SeqKey(row.DocumentTextTable, seq)
	}
	found := 0
	m.O.GetAll(texts, func(at string, value []byte) {
		found++
		switch d := row.DecodeDocumentText(row.SeqOfKey(at), value); d.Kind {
		case job.KeyDocument:
			key, err := job.DecodeKey(d.Name, d.Text)
			if err != nil {
				lsm.Contradict("key", "%v", err)
			}
			m.Keys.Change(d.Name, &key)
		case job.LoginDocument:
			login, err := job.DecodeLogin(d.Name, d.Text)
			if err != nil {
				lsm.Contradict("login", "%v", err)
			}
			m.Logins.Change(d.Name, &login)
		default:
			lsm.Contradict("know secrets", "the text of command %d is of %v %s", d.Seq, d.Kind, d.Name)
		}
	})
	if found < len(texts) {
		lsm.Contradict("know secrets", "%d keys or logins have no text", len(texts)-found)
	}
}

// isSecret reports whether documents of a kind are known by knowSecrets.
func isSecret(kind job.DocumentKind) bool {
	return kind == job.KeyDocument || kind == job.LoginDocument
}

func (a *Applying) putDocument(cmd job.PutDocument) *applied.DocumentChanged {
	rules, bounds, of := cmd.Kind.Rules(), &a.Rules.Documents[cmd.Kind], &a.documents[cmd.Kind]
	d := row.ReadDocument(&a.O, row.DocumentName{cmd.Kind, cmd.Client, cmd.Name})
	next := row.DocumentVersion{Seq: a.Now.Seq, At: a.Now.At, Digest: cmd.Digest, Bytes: len(cmd.Document), Summary: cmd.Summary, By: cmp.Or(a.By.Name, cmd.By)}
	if rules.MaxBytes > 0 {
		next.Digest = sha256.Sum256(cmd.Document)
	}
	existed, size := d.Exists(), int64(len(cmd.Document))
	switch {
	case existed && d.Newest().Digest == next.Digest && cmd.If != job.IfNone:
		return &applied.DocumentChanged{Document: d.Named(d.Newest()), Same: true}
	case !meets(cmd.If, d):
		return &applied.DocumentChanged{Refusal: job.VersionDiffers}
	case !existed && of.Names >= bounds.Names || of.Bytes+size > bounds.Bytes:
		return &applied.DocumentChanged{Refusal: rules.TooMany}
	}
	if d == nil {
		d = &row.Document{DocumentName: row.DocumentName{cmd.Kind, cmd.Client, cmd.Name}}
	}
	if !existed {
		a.countDocuments(d.Kind, d.Client, document.Use{Names: 1})
		if len(d.Versions) > 0 {
			a.forget(d)
		}
	}
	a.addVersion(d, next)
	if rules.MaxBytes > 0 {
		text := &row.DocumentText{d.DocumentName, a.Now.Seq, a.Now.At, cmd.Document}
		a.O.Set(row.SeqKey(row.DocumentTextTable, a.Now.Seq), text.Encode())
		a.countDocuments(d.Kind, d.Client, document.Use{Bytes: size})
	}
	a.O.Set(row.DocumentKey(d.DocumentName, false), d.Encode())
	a.know(d)
	return &applied.DocumentChanged{Document: d.Named(d.Newest())}
}

// know takes the newest version of a document that was changed into memory.
func (a *Applying) know(d *row.Document) {
	a.documents[d.Kind].Know(d)
	switch {
	case !isSecret(d.Kind):
	case d.Exists():
		a.knowSecrets(d.Newest().Seq)
	case d.Kind == job.KeyDocument:
		a.Keys.Change(d.Name, nil)
	default:
		a.Logins.Change(d.Name, nil)
	}
}

// meets reports whether a document, which may be nil or deleted, meets a condition.
func meets(c job.Condition, d *row.Document) bool {
	if !d.Exists() {
		return c.Holds(0, job.DocumentDigest{})
	}
	return c.Holds(d.Newest().Number, d.Newest().Digest)
}

// addVersion adds a version with the next number. It removes the texts of the versions beyond the maximum, or the texts of
// all versions if it deletes the document.
func (a *Applying) addVersion(d *row.Document, v row.DocumentVersion) {
	v.Number = a.documents[d.Kind].Forgotten + 1
	if len(d.Versions) > 0 {
		v.Number = d.Newest().Number + 1
	}
	dropped, extra := d.Kept(), max(0, len(d.Versions)+1-a.Rules.DocumentVersions)
	if !v.Deleted {
		dropped = dropped[:max(0, extra-(len(d.Versions)-len(dropped)))]
	}
	if d.Kind.Rules().MaxBytes > 0 {
		for i := range dropped {
			a.O.Delete(row.SeqKey(row.DocumentTextTable, dropped[i].Seq))
			a.countDocuments(d.Kind, d.Client, document.Use{Bytes: -int64(dropped[i].Bytes)})
		}
	}
	d.Versions = append(d.Versions[extra:], v)
}

func (a *Applying) deleteDocument(cmd job.DeleteDocument) *applied.DocumentChanged {
	of := &a.documents[cmd.Kind]
	d := row.ReadDocument(&a.O, row.DocumentName{cmd.Kind, cmd.Client, cmd.Name})
	switch {
	case !d.Exists():
		return &applied.DocumentChanged{Refusal: cmd.Kind.Rules().NotFound}
	case !meets(cmd.If, d):
		return &applied.DocumentChanged{Refusal: job.VersionDiffers}
	}
	a.addVersion(d, row.DocumentVersion{Seq: a.Now.Seq, At: a.Now.At, Deleted: true, By: cmp.Or(a.By.Name, cmd.By)})
	a.O.Delete(row.DocumentKey(d.DocumentName, false))
	a.O.Set(row.DocumentKey(d.DocumentName, true), d.Encode())
	a.O.Set(row.DeletionKey(d.Kind, a.Now.Seq), d.EncodeDeletion())
	a.countDocuments(d.Kind, d.Client, document.Use{Names: -1})
	of.Deleted++
	a.know(d)
	if of.Deleted > a.Rules.DeletedDocuments {
		a.forgetOldest(d.Kind)
	}
	return &applied.DocumentChanged{Document: d.Named(d.Newest())}
}

// forgetOldest forgets the document that was deleted first. Documents with new names then begin after its last version,
// so that no name ever gets a number twice.
func (a *Applying) forgetOldest(kind job.DocumentKind) {
	of := &a.documents[kind]
	var name row.DocumentName
	from, to := row.DeletionsFrom(kind, of.OldestDeletion)
	a.O.Scan(from, to, func(key string, value []byte) bool {
		of.OldestDeletion, name = row.SeqOfDeletion(key), row.DecodeDeletion(kind, value)
		return false
	})
	oldest := row.ReadDocument(&a.O, name)
	if oldest == nil || oldest.Exists() {
		lsm.Contradict("forget document", "no deleted document of kind %v is listed in its place, and there are %d", kind, of.Deleted)
	}
	if number := oldest.Newest().Number; number > of.Forgotten {
		of.Forgotten = number
		a.O.Set(row.DeletionKey(kind, 0), row.EncodeForgotten(number))
	}
	a.forget(oldest)
}

// forget removes the rows of a deleted document.
func (a *Applying) forget(d *row.Document) {
	a.O.Delete(row.DocumentKey(d.DocumentName, true))
	a.O.Delete(row.DeletionKey(d.Kind, d.Newest().Seq))
	a.documents[d.Kind].Deleted--
}

// publishDocuments publishes keys, logins, and the newest versions of the documents in memory, for queries, if they changed since the
// last commit.
func (m *Machine) publishDocuments() {
	m.Keys.Publish()
	m.Logins.Publish()
	for kind := range m.documents {
		if of := &m.documents[kind]; of.Changed && of.Newest != nil {
			newest := maps.Clone(of.Newest)
			m.NewestDocuments[kind].Store(&newest)
			of.Changed = false
		}
	}
}
