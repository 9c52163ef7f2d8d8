package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// A fileset has one row with all of its versions. Each claim looks for handlers, so they are in memory; filesets are
// not, because only their users read them.

type fileset struct {
	filesetName
	versions []filesetVersion // by number; the newest is the last
}

type filesetVersion struct {
	seq      uint64 // of the command that stored it
	at       int64
	number   int
	manifest job.ManifestDigest
	files    int
	bytes    int64
}

func (f *fileset) encode() []byte {
	e := make(lsm.Encoder, 0, 64*len(f.versions))
	e.Uint(uint64(len(f.versions)))
	for i := range f.versions {
		v := &f.versions[i]
		e.Uint(v.seq)
		e.Int(v.at)
		e.Uint(uint64(v.number))
		e.Bytes(v.manifest[:])
		e.Uint(uint64(v.files))
		e.Int(v.bytes)
	}
	return e
}

func decodeFileset(name filesetName, value []byte) *fileset {
	d := lsm.Decoder(value)
	f := &fileset{filesetName: name, versions: make([]filesetVersion, d.Uint())}
	for i := range f.versions {
		v := &f.versions[i]
		v.seq, v.at, v.number = d.Uint(), d.Int(), int(d.Uint())
		if copy(v.manifest[:], d.Bytes()) != len(v.manifest) {
			lsm.Contradict("decode", "a digest of another length than %d", len(v.manifest))
		}
		v.files, v.bytes = int(d.Uint()), d.Int()
	}
	return f
}

// readFileset returns the fileset of a name, or nil.
func readFileset(r lsm.Rows, name filesetName) *fileset {
	if value := r.Get(filesetKey(name)); value != nil {
		return decodeFileset(name, value)
	}
	return nil
}

func (f *fileset) newest() *filesetVersion { return &f.versions[len(f.versions)-1] }

// document returns the document of a version of the fileset.
func (f *fileset) document(v *filesetVersion) Fileset {
	return Fileset{
		ID: job.NewID(v.at, v.seq, 0), Client: f.client, Name: f.name, Version: v.number, Manifest: v.manifest, Files: v.files,
		Bytes: v.bytes, Newest: v == f.newest(), CreatedAt: v.at,
	}
}
