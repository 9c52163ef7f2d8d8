package compare

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/model"
)

// filesets compares the documents of all filesets.
func (c *comparison) filesets() error {
	names := slices.SortedFunc(maps.Keys(c.m.Filesets), func(a, b model.Name) int {
		return slices.Compare([]string{a.Name, a.Client}, []string{b.Name, b.Client})
	})
	list, more, err := c.q.Filesets("", "", len(names))
	if err != nil || more || len(list) != len(names) {
		return fmt.Errorf("%d filesets and more (%v), %v; the model has %v", len(list), more, err, names)
	}
	var marked, want []string
	for i, name := range names {
		versions := c.m.Filesets[name]
		newest := versions[len(versions)-1]
		if list[i] != newest {
			return fmt.Errorf("fileset %d is listed as %+v, the model has %+v", i, list[i], newest)
		}
		if i > 0 {
			if page, more, err := c.q.Filesets(names[i-1].Name, names[i-1].Client, 1); err != nil || len(page) != 1 || page[0] != newest || more != (i < len(names)-1) {
				return fmt.Errorf("after %v, the list has %+v and more (%v), %v; the model has %+v", names[i-1], page, more, err, newest)
			}
		}
		if doc, err := c.q.Fileset(name.Client, name.Name, 0); err != nil || doc != newest {
			return fmt.Errorf("fileset %v is %+v, %v; the model has %+v", name, doc, err, newest)
		}
		got, err := c.q.FilesetVersions(name.Client, name.Name)
		slices.Reverse(got)
		if err != nil || !reflect.DeepEqual(got, versions) {
			return fmt.Errorf("fileset %v has versions %+v, %v; the model has %+v", name, got, err, versions)
		}
		for _, v := range versions {
			if doc, err := c.q.Fileset(name.Client, name.Name, v.Version); err != nil || doc != v {
				return fmt.Errorf("version %d of %v is %+v, %v; the model has %+v", v.Version, name, doc, err, v)
			}
			want = append(want, v.Client+" "+v.Manifest.String())
		}
		for _, version := range []int{versions[0].Version - 1, newest.Version + 1, -1} {
			if version == 0 {
				continue
			}
			if _, err := c.q.Fileset(name.Client, name.Name, version); !errors.Is(err, job.FilesetNotFound) {
				return fmt.Errorf("version %d of %v, which is not kept: %v", version, name, err)
			}
		}
	}
	if err := c.q.FilesetManifests(func(client string, manifest job.ManifestDigest) error {
		marked = append(marked, client+" "+manifest.String())
		return nil
	}); err != nil || !slices.Equal(marked, want) {
		return fmt.Errorf("the manifests are %q, %v; the model has %q", marked, err, want)
	}
	enough := errors.New("enough")
	if err := c.q.FilesetManifests(func(string, job.ManifestDigest) error { return enough }); len(want) > 0 && err != enough {
		return fmt.Errorf("the manifests end with %v, and visit with %w", err, enough)
	}
	for _, name := range []model.Name{{"a", "x"}, {"", "y"}, {"c", "x"}} {
		if c.m.Filesets[name] == nil {
			_, err := c.q.FilesetVersions(name.Client, name.Name)
			_, err2 := c.q.Fileset(name.Client, name.Name, 0)
			if !errors.Is(err, job.FilesetNotFound) || !errors.Is(err2, job.FilesetNotFound) {
				return fmt.Errorf("fileset %v, which does not exist: %v, %w", name, err, err2)
			}
		}
	}
	return nil
}
