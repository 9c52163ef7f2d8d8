package store

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/row"
)

// putFileset stores a version of a fileset. rules bound the filesets.
func (m *model) putFileset(cmd job.PutFileset) applied.Result {
	name := row.FilesetName{cmd.Client, cmd.Name}
	versions := m.filesets[name]
	number := 1
	if n := len(versions); n > 0 {
		if versions[n-1].Manifest == cmd.Manifest {
			return &applied.FilesetPut{Fileset: versions[n-1], Same: true}
		}
		number = versions[n-1].Version + 1
		versions[n-1].Newest = false
	} else if len(m.filesets) >= m.rules.Filesets {
		return &applied.FilesetPut{Refusal: job.TooManyFilesets}
	}
	doc := document.Fileset{ID: job.NewID(m.at, m.seq, 0), Client: cmd.Client, Name: cmd.Name, Version: number, Manifest: cmd.Manifest,
		Files: cmd.Files, Bytes: cmd.Bytes, Newest: true, CreatedAt: m.at}
	if len(versions) == m.rules.FilesetVersions {
		versions = versions[1:]
	}
	m.filesets[name] = append(versions, doc)
	return &applied.FilesetPut{Fileset: doc}
}

func (m *model) deleteFileset(cmd job.DeleteFileset) applied.Result {
	name := row.FilesetName{cmd.Client, cmd.Name}
	if m.filesets[name] == nil {
		return &applied.FilesetDeleted{Refusal: job.FilesetNotFound}
	}
	delete(m.filesets, name)
	return &applied.FilesetDeleted{}
}

// fileset generates a command that stores or deletes a fileset.
func (g *generator) fileset() job.Command {
	client, name := oneOf(g, "", "a", "b"), oneOf(g, "x", "y")
	if g.some(25) {
		return job.DeleteFileset{Client: client, Name: name}
	}
	return job.PutFileset{Client: client, Name: name, Manifest: job.ManifestDigest{byte(g.IntN(5))}, Files: oneOf(g, 0, 1, 100_000), Bytes: oneOf[int64](g, 0, 1, 1<<62)}
}

// compareFilesets compares the documents of all filesets.
func (p *player) compareFilesets() error {
	names := slices.SortedFunc(maps.Keys(p.m.filesets), func(a, b row.FilesetName) int {
		return slices.Compare([]string{a.Name, a.Client}, []string{b.Name, b.Client})
	})
	list, more, err := p.s.Filesets("", "", len(names))
	if err != nil || more || len(list) != len(names) {
		return fmt.Errorf("%d filesets and more (%v), %v; the model has %v", len(list), more, err, names)
	}
	var marked, want []string
	for i, name := range names {
		versions := p.m.filesets[name]
		newest := versions[len(versions)-1]
		if list[i] != newest {
			return fmt.Errorf("fileset %d is listed as %+v, the model has %+v", i, list[i], newest)
		}
		if i > 0 {
			if page, more, err := p.s.Filesets(names[i-1].Name, names[i-1].Client, 1); err != nil || len(page) != 1 || page[0] != newest || more != (i < len(names)-1) {
				return fmt.Errorf("after %v, the list has %+v and more (%v), %v; the model has %+v", names[i-1], page, more, err, newest)
			}
		}
		if doc, err := p.s.Fileset(name.Client, name.Name, 0); err != nil || doc != newest {
			return fmt.Errorf("fileset %v is %+v, %v; the model has %+v", name, doc, err, newest)
		}
		got, err := p.s.FilesetVersions(name.Client, name.Name)
		slices.Reverse(got)
		if err != nil || !reflect.DeepEqual(got, versions) {
			return fmt.Errorf("fileset %v has versions %+v, %v; the model has %+v", name, got, err, versions)
		}
		for _, v := range versions {
			if doc, err := p.s.Fileset(name.Client, name.Name, v.Version); err != nil || doc != v {
				return fmt.Errorf("version %d of %v is %+v, %v; the model has %+v", v.Version, name, doc, err, v)
			}
			want = append(want, v.Client+" "+v.Manifest.String())
		}
		for _, version := range []int{versions[0].Version - 1, newest.Version + 1, -1} {
			if version == 0 {
				continue
			}
			if _, err := p.s.Fileset(name.Client, name.Name, version); !errors.Is(err, job.FilesetNotFound) {
				return fmt.Errorf("version %d of %v, which is not kept: %v", version, name, err)
			}
		}
	}
	if err := p.s.FilesetManifests(func(client string, manifest job.ManifestDigest) error {
		marked = append(marked, client+" "+manifest.String())
		return nil
	}); err != nil || !slices.Equal(marked, want) {
		return fmt.Errorf("the manifests are %q, %v; the model has %q", marked, err, want)
	}
	enough := errors.New("enough")
	if err := p.s.FilesetManifests(func(string, job.ManifestDigest) error { return enough }); len(want) > 0 && err != enough {
		return fmt.Errorf("the manifests end with %v, and visit with %w", err, enough)
	}
	for _, name := range []row.FilesetName{{"a", "x"}, {"", "y"}, {"c", "x"}} {
		if p.m.filesets[name] == nil {
			_, err := p.s.FilesetVersions(name.Client, name.Name)
			_, err2 := p.s.Fileset(name.Client, name.Name, 0)
			if !errors.Is(err, job.FilesetNotFound) || !errors.Is(err2, job.FilesetNotFound) {
				return fmt.Errorf("fileset %v, which does not exist: %v, %w", name, err, err2)
			}
		}
	}
	return nil
}
