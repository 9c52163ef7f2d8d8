package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// Filesets returns up to limit filesets, each in its newest version, after the pair (afterName, afterClient) in the order
// of name and client, and whether more follow.
func (q *Queries) Filesets(afterName, afterClient string, limit int) (docs []Fileset, more bool, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	from := string(filesetTable)
	if afterName != "" {
		from = filesetKey(filesetName{afterClient, afterName}) + "\x00"
	}
	v.Scan(from, string(filesetTable+1), func(key string, value []byte) bool {
		if more = len(docs) == limit; more {
			return false
		}
		f := decodeFileset(filesetOfKey(key), value)
		docs = append(docs, f.document(f.newest()))
		return true
	})
	return docs, more, nil
}

// FilesetVersions returns the versions of a fileset that are kept, newest first, or job.FilesetNotFound if the fileset
// does not exist.
func (q *Queries) FilesetVersions(client, name string) (docs []Fileset, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	f := readFileset(v, filesetName{client, name})
	if f == nil {
		return nil, job.FilesetNotFound
	}
	for i := range f.versions {
		docs = append(docs, f.document(&f.versions[i]))
	}
	slices.Reverse(docs)
	return docs, nil
}

// Fileset returns a version of a fileset, or with 0 the newest one. It returns job.FilesetNotFound if that is not kept.
func (q *Queries) Fileset(client, name string, version int) (_ Fileset, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	f := readFileset(v, filesetName{client, name})
	if f == nil {
		return Fileset{}, job.FilesetNotFound
	}
	if version == 0 {
		return f.document(f.newest()), nil
	}
	for i := range f.versions {
		if f.versions[i].number == version {
			return f.document(&f.versions[i]), nil
		}
	}
	return Fileset{}, job.FilesetNotFound
}

// FilesetManifests calls visit with the manifest of each version of each fileset that is kept, and with the fileset's
// client. It ends with the first error that visit returns. All manifests are of one moment.
func (q *Queries) FilesetManifests(visit func(client string, manifest job.ManifestDigest) error) (err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	v.Scan(string(filesetTable), string(filesetTable+1), func(key string, value []byte) bool {
		f := decodeFileset(filesetOfKey(key), value)
		for i := range f.versions {
			if err = visit(f.client, f.versions[i].manifest); err != nil {
				return false
			}
		}
		return true
	})
	return err
}
