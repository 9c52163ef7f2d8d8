package query

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// HandlerFor returns the newest version of the handler that runs the jobs of a queue: the handler of the queue's
// client, or otherwise the handler for all clients. It looks only at memory.
func (q *Queries) HandlerFor(client, typ string) (_ document.Named, ok bool) {
	newest := *q.live.NewestDocuments[job.HandlerDocument].Load()
	if len(newest) == 0 {
		return document.Named{}, false
	}
	h, ok := newest[row.DocumentName{job.HandlerDocument, client, typ}]
	if !ok {
		h, ok = newest[row.DocumentName{job.HandlerDocument, "", typ}]
	}
	return h, ok
}

// Key returns the key with a name, or nil. It looks only at memory, and allocates nothing.
func (q *Queries) Key(name string) *job.Key { return q.live.Keys.Get(name) }

// KeysRequired reports whether there ever was a key. From then on each request needs one, also after the last one was revoked.
func (q *Queries) KeysRequired() bool { return q.live.Keys.Ever() }

// SharingRunners returns the name of another key that shares runners with a key, or "" (job.Key.SharesRunners).
func (q *Queries) SharingRunners(key *job.Key) string { return q.live.Keys.SharingRunners(key) }

// OwnersOfKeys returns how many clients own keys.
func (q *Queries) OwnersOfKeys() int { return q.live.Keys.Owners() }

// DocumentUse returns how many documents of a kind some clients have together, and how many all have.
func (q *Queries) DocumentUse(kind job.DocumentKind, clients []string) (own, all document.Use) {
	return q.live.DocumentUse.Of(kind, clients)
}

// KeyUses returns the hours in which keys were used last, by name, as far as this process knows them.
func (q *Queries) KeyUses() map[string]int64 { return q.live.Keys.Uses() }

// NumKeys returns the number of keys. It looks only at memory.
func (q *Queries) NumKeys() int { return q.live.Keys.Len() }

// Login returns the login with a name, or nil. It looks only at memory, and allocates nothing.
func (q *Queries) Login(name []byte) *job.Login { return q.live.Logins.Get(name) }

// LoginsOf returns the logins of a key or person at a time, the first to end first, and everybody's that have ended.
func (q *Queries) LoginsOf(by string, now int64) (own, ended []*job.Login) {
	return q.live.Logins.Of(by, now)
}

// Quota returns the quota of a client, or false if it has none. It looks only at memory.
func (q *Queries) Quota(client string) (job.Quota, bool) {
	newest := *q.live.NewestDocuments[job.QuotaDocument].Load()
	if len(newest) == 0 {
		return job.Quota{}, false
	}
	d, ok := newest[row.DocumentName{job.QuotaDocument, "", client}]
	if !ok {
		return job.Quota{}, false
	}
	return job.ParseQuotaSummary(d.Summary), true
}

// Documents returns up to limit documents of a kind in a scope, each in its newest version, after the pair (afterName,
// afterClient) in the order of name and client, and whether more follow.
func (q *Queries) Documents(s *job.Scope, kind job.DocumentKind, afterName, afterClient string, limit int) (list []document.Named, more bool, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	from, to := row.DocumentsIn(kind)
	if afterName != "" {
		from = row.DocumentKey(row.DocumentName{kind, afterClient, afterName}, false) + "\x00"
	}
	v.Scan(from, to, func(key string, value []byte) bool {
		name, _ := row.DocumentOfKey(key)
		if !s.HasDocument(kind, name.Client, name.Name) {
			return true
		}
		if more = len(list) == limit; more {
			return false
		}
		d := row.DecodeDocument(name, value)
		list = append(list, d.Named(d.Newest()))
		return true
	})
	return list, more, nil
}

// DocumentHistory returns the versions of a document that are kept, newest first, also if it was deleted. The error is
// the kind's NotFound if there are none.
func (q *Queries) DocumentHistory(kind job.DocumentKind, client, name string) (list []document.Named, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	d := row.ReadDocument(v, row.DocumentName{kind, client, name})
	if d == nil {
		return nil, kind.Rules().NotFound
	}
	for i := range d.Versions {
		list = append(list, d.Named(&d.Versions[i]))
	}
	slices.Reverse(list)
	return list, nil
}

// Document returns a version of a document, or with 0 the newest one, and its text, which is nil if it is a blob. The
// error is the kind's NotFound if the document does not exist, or the version is not kept.
func (q *Queries) Document(kind job.DocumentKind, client, name string, version int) (_ document.Named, text []byte, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	if d := row.ReadDocument(v, row.DocumentName{kind, client, name}); d != nil {
		for i, kept := len(d.Versions)-1, len(d.Versions)-len(d.Kept()); i >= kept; i-- {
			if found := &d.Versions[i]; version == 0 || version == found.Number {
				return d.Named(found), mustReadText(v, kind, found), nil
			}
		}
	}
	return document.Named{}, nil, kind.Rules().NotFound
}

// DocumentByID returns the version of a document with an id, and its text. The documents of the kind must not be blobs.
// The error is the kind's NotFound if the version is not kept.
func (q *Queries) DocumentByID(kind job.DocumentKind, id job.ID) (_ document.Named, text []byte, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	t := q.live.ReadDocumentTextOf(v, id)
	if t == nil || t.Kind != kind {
		return document.Named{}, nil, kind.Rules().NotFound
	}
	if d := row.ReadDocument(v, t.DocumentName); d != nil {
		for i := range d.Versions {
			if d.Versions[i].Seq == t.Seq {
				return d.Named(&d.Versions[i]), t.Text, nil
			}
		}
	}
	lsm.Contradict("find document", "the text %d is of no version of the %v %s of %q", t.Seq, kind, t.Name, t.Client)
	return document.Named{}, nil, nil
}

func mustReadText(r lsm.Rows, kind job.DocumentKind, v *row.DocumentVersion) []byte {
	if kind.Rules().MaxBytes == 0 {
		return nil
	}
	t := row.ReadDocumentText(r, v.Seq)
	if t == nil {
		lsm.Contradict("find document", "version %d has no text", v.Number)
	}
	return t.Text
}

// KeptDigests calls visit with the digest of each version of each document of a kind that is kept, and with the
// document's client. It ends with the first error that visit returns. All versions are of one moment.
func (q *Queries) KeptDigests(kind job.DocumentKind, visit func(client string, digest job.DocumentDigest) error) (err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	from, to := row.DocumentsIn(kind)
	v.Scan(from, to, func(key string, value []byte) bool {
		name, _ := row.DocumentOfKey(key)
		for _, kept := range row.DecodeDocument(name, value).Kept() {
			if err = visit(name.Client, kept.Digest); err != nil {
				return false
			}
		}
		return true
	})
	return err
}
