package query

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// Filesets returns up to limit filesets, each in its newest version, after the pair (afterName, afterClient) in the order
// of name and client, and whether more follow.
func (q *Queries) Filesets(afterName, afterClient string, limit int) (docs []document.Fileset, more bool, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	from := string(row.FilesetTable)
	if afterName != "" {
		from = row.FilesetKey(row.FilesetName{afterClient, afterName}) + "\x00"
	}
	v.Scan(from, string(row.FilesetTable+1), func(key string, value []byte) bool {
		if more = len(docs) == limit; more {
			return false
		}
		f := row.DecodeFileset(row.FilesetOfKey(key), value)
		docs = append(docs, f.Document(f.Newest()))
		return true
	})
	return docs, more, nil
}

// FilesetVersions returns the versions of a fileset that are kept, newest first, or job.FilesetNotFound if the fileset
// does not exist.
func (q *Queries) FilesetVersions(client, name string) (docs []document.Fileset, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	f := row.ReadFileset(v, row.FilesetName{client, name})
	if f == nil {
		return nil, job.FilesetNotFound
	}
	for i := range f.Versions {
		docs = append(docs, f.Document(&f.Versions[i]))
	}
	slices.Reverse(docs)
	return docs, nil
}

// Fileset returns a version of a fileset, or with 0 the newest one. It returns job.FilesetNotFound if that is not kept.
func (q *Queries) Fileset(client, name string, version int) (_ document.Fileset, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	f := row.ReadFileset(v, row.FilesetName{client, name})
	if f == nil {
		return document.Fileset{}, job.FilesetNotFound
	}
	if version == 0 {
		return f.Document(f.Newest()), nil
	}
	for i := range f.Versions {
		if f.Versions[i].Number == version {
			return f.Document(&f.Versions[i]), nil
		}
	}
	return document.Fileset{}, job.FilesetNotFound
}

// FilesetManifests calls visit with the manifest of each version of each fileset that is kept, and with the fileset's
// client. It ends with the first error that visit returns. All manifests are of one moment.
func (q *Queries) FilesetManifests(visit func(client string, manifest job.ManifestDigest) error) (err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	v.Scan(string(row.FilesetTable), string(row.FilesetTable+1), func(key string, value []byte) bool {
		f := row.DecodeFileset(row.FilesetOfKey(key), value)
		for i := range f.Versions {
			if err = visit(f.Client, f.Versions[i].Manifest); err != nil {
				return false
			}
		}
		return true
	})
	return err
}
