package store

import "github.com/daybookq/daybook/job"

func (m *machine) loadFilesets() {
	m.filesets = 0
	m.o.Scan(string(filesetTable), string(filesetTable+1), func(string, []byte) bool {
		m.filesets++
		return true
	})
}

func (a *applying) putFileset(cmd job.PutFileset) *FilesetPut {
	name := filesetName{cmd.Client, cmd.Name}
	f := readFileset(&a.o, name)
	if f != nil && f.newest().manifest == cmd.Manifest {
		return &FilesetPut{Fileset: f.document(f.newest()), Same: true}
	}
	number := 1
	switch {
	case f != nil:
		number = f.newest().number + 1
	case a.filesets >= a.rules.filesets:
		return &FilesetPut{Refusal: job.TooManyFilesets}
	default:
		f = &fileset{filesetName: name}
		a.filesets++
	}
	f.versions = append(f.versions, filesetVersion{a.now.Seq, a.now.At, number, cmd.Manifest, cmd.Files, cmd.Bytes})
	f.versions = f.versions[max(0, len(f.versions)-a.rules.filesetVersions):]
	a.o.Set(filesetKey(name), f.encode())
	return &FilesetPut{Fileset: f.document(f.newest())}
}

func (a *applying) deleteFileset(cmd job.DeleteFileset) *FilesetDeleted {
	key := filesetKey(filesetName{cmd.Client, cmd.Name})
	if a.o.Get(key) == nil {
		return &FilesetDeleted{Refusal: job.FilesetNotFound}
	}
	a.o.Delete(key)
	a.filesets--
	return &FilesetDeleted{}
}
