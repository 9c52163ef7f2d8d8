package model

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
)

// putFileset stores a version of a fileset. rules bound the filesets.
func (m *Model) putFileset(cmd job.PutFileset) applied.Result {
	name := Name{cmd.Client, cmd.Name}
	versions := m.Filesets[name]
	number := 1
	if n := len(versions); n > 0 {
		if versions[n-1].Manifest == cmd.Manifest {
			return &applied.FilesetPut{Fileset: versions[n-1], Same: true}
		}
		number = versions[n-1].Version + 1
		versions[n-1].Newest = false
	} else if len(m.Filesets) >= m.bounds.Filesets {
		return &applied.FilesetPut{Refusal: job.TooManyFilesets}
	}
	doc := document.Fileset{ID: job.NewID(m.At, m.Seq, 0), Client: cmd.Client, Name: cmd.Name, Version: number, Manifest: cmd.Manifest,
		Files: cmd.Files, Bytes: cmd.Bytes, Newest: true, CreatedAt: m.At}
	if len(versions) == m.bounds.FilesetVersions {
		versions = versions[1:]
	}
	m.Filesets[name] = append(versions, doc)
	return &applied.FilesetPut{Fileset: doc}
}

func (m *Model) deleteFileset(cmd job.DeleteFileset) applied.Result {
	name := Name{cmd.Client, cmd.Name}
	if m.Filesets[name] == nil {
		return &applied.FilesetDeleted{Refusal: job.FilesetNotFound}
	}
	delete(m.Filesets, name)
	return &applied.FilesetDeleted{}
}
