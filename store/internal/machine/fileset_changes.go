package machine

import (
	"github.com/daybookq/daybook/job"

	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/row"
)

func (m *Machine) loadFilesets() {
	m.filesets = 0
	m.O.Scan(string(row.FilesetTable), string(row.FilesetTable+1), func(string, []byte) bool {
		m.filesets++
		return true
	})
}

func (a *Applying) putFileset(cmd job.PutFileset) *applied.FilesetPut {
	name := row.FilesetName{cmd.Client, cmd.Name}
	f := row.ReadFileset(&a.O, name)
	if f != nil && f.Newest().Manifest == cmd.Manifest {
		return &applied.FilesetPut{Fileset: f.Document(f.Newest()), Same: true}
	}
	number := 1
	switch {
	case f != nil:
		number = f.Newest().Number + 1
	case a.filesets >= a.Rules.Filesets:
		return &applied.FilesetPut{Refusal: job.TooManyFilesets}
	default:
		f = &row.Fileset{FilesetName: name}
		a.filesets++
	}
	f.Versions = append(f.Versions, row.FilesetVersion{a.Now.Seq, a.Now.At, number, cmd.Manifest, cmd.Files, cmd.Bytes})
	f.Versions = f.Versions[max(0, len(f.Versions)-a.Rules.FilesetVersions):]
	a.O.Set(row.FilesetKey(name), f.Encode())
	return &applied.FilesetPut{Fileset: f.Document(f.Newest())}
}

func (a *Applying) deleteFileset(cmd job.DeleteFileset) *applied.FilesetDeleted {
	key := row.FilesetKey(row.FilesetName{cmd.Client, cmd.Name})
	if a.O.Get(key) == nil {
		return &applied.FilesetDeleted{Refusal: job.FilesetNotFound}
	}
	a.O.Delete(key)
	a.filesets--
	return &applied.FilesetDeleted{}
}
