package sim

import (
	"fmt"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// filesetNames are the filesets that operators store.
var filesetNames = []string{"input", "output"}

// changeFileset stores or deletes a fileset. As with handlers, the order in the journal determines all versions.
func (u *user) changeFileset() {
	client, name := pick(u.random, "", "acme"), pick(u.random, filesetNames...)
	if u.random.IntN(5) == 0 {
		removed(u, job.DeleteFileset{Client: client, Name: name}, u.s.engine.DeleteFileset, job.FilesetNotFound)
		return
	}
	p := job.PutFileset{Client: client, Name: name, Manifest: job.ManifestDigest{byte(u.random.IntN(4))}, Files: 1, Bytes: 2}
	answer, receipt, err := send(u, u.s.engine.PutFileset, p)
	u.unexpected(p.Verb(), err)
	u.s.log("%s %+v: %v, %+v %v", p.Verb(), p, receipt, answer, err)
	if err == nil {
		u.w.account.filesetPut(receipt, p, answer)
	}
}

// filesetPut records the answer to a command that stores a version of a fileset.
func (a *account) filesetPut(r ingest.Receipt, p job.PutFileset, answer applied.FilesetPut) {
	a.mu.Lock()
	a.figures.Filesets++
	a.mu.Unlock()
	a.answered(r, p, job.Granted, func(u *audit) error {
		newest := u.filesets.newest(p.Client, p.Name)
		if newest == nil {
			return fmt.Errorf("%s %s, %s is not in the journal", p.Verb(), p.Client, p.Name)
		}
		return checkFileset(newest, &answer.Fileset, u.putSame[r.Seq] == answer.Same)
	})
}

// checkFileset compares a version with an answer.
func checkFileset(v *version[job.ManifestDigest], doc *document.Fileset, same bool) error {
	if v.id != doc.ID || v.number != doc.Version || v.content != doc.Manifest || doc.Files != 1 || doc.Bytes != 2 || !same {
		return fmt.Errorf("the fileset is %+v, and the journal has %+v", *doc, *v)
	}
	return nil
}

// filesetOperated applies a command about a fileset at its place in the journal.
func (u *audit) filesetOperated(o operation) {
	switch c := o.cmd.(type) {
	case job.PutFileset:
		u.putSame[o.seq] = u.filesets.put(o, c.Client, c.Name, c.Manifest, job.MaxFilesetVersions)
	case job.DeleteFileset:
		u.filesets.remove(c.Client, c.Name)
	}
}

// checkFilesets reads all filesets and compares them with the journal.
func (u *audit) checkFilesets(q *query.Queries) error {
	for _, client := range []string{"", "acme"} {
		for _, name := range filesetNames {
			listed, err := q.FilesetVersions(client, name)
			if err := readBack(u.filesets, client, name, listed, err, job.FilesetNotFound, func(v *version[job.ManifestDigest], f document.Fileset) error {
				return checkFileset(v, &f, true)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}
