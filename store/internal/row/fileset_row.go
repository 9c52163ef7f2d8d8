package row

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// A fileset has one row with all of its versions. Each claim looks for handlers, so they are in memory; filesets are
// not, because only their users read them.

type Fileset struct {
	FilesetName
	Versions []FilesetVersion // by number; the newest is the last
}

type FilesetVersion struct {
	Seq      uint64 // of the command that stored it
	At       int64
	Number   int
	Manifest job.ManifestDigest
	Files    int
	Bytes    int64
}

func (f *Fileset) Encode() []byte {
	e := make(lsm.Encoder, 0, 64*len(f.Versions))
	e.Uint(uint64(len(f.Versions)))
	for i := range f.Versions {
		v := &f.Versions[i]
		e.Uint(v.Seq)
		e.Int(v.At)
		e.Uint(uint64(v.Number))
		e.Bytes(v.Manifest[:])
		e.Uint(uint64(v.Files))
		e.Int(v.Bytes)
	}
	return e
}

func DecodeFileset(name FilesetName, value []byte) *Fileset {
	d := lsm.Decoder(value)
	f := &Fileset{FilesetName: name, Versions: make([]FilesetVersion, d.Uint())}
	for i := range f.Versions {
		v := &f.Versions[i]
		v.Seq, v.At, v.Number = d.Uint(), d.Int(), int(d.Uint())
		if copy(v.Manifest[:], d.Bytes()) != len(v.Manifest) {
			lsm.Contradict("decode", "a digest of another length than %d", len(v.Manifest))
		}
		v.Files, v.Bytes = int(d.Uint()), d.Int()
	}
	return f
}

// ReadFileset returns the fileset of a name, or nil.
func ReadFileset(r lsm.Rows, name FilesetName) *Fileset {
	if value := r.Get(FilesetKey(name)); value != nil {
		return DecodeFileset(name, value)
	}
	return nil
}

func (f *Fileset) Newest() *FilesetVersion { return &f.Versions[len(f.Versions)-1] }

// Document returns the document of a version of the fileset.
func (f *Fileset) Document(v *FilesetVersion) document.Fileset {
	return document.Fileset{
		ID: job.NewID(v.At, v.Seq, 0), Client: f.Client, Name: f.Name, Version: v.Number, Manifest: v.Manifest, Files: v.Files,
		Bytes: v.Bytes, Newest: v == f.Newest(), CreatedAt: v.At,
	}
}
