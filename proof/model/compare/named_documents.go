package compare

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/store/document"
)

// documents compares the named documents of all kinds, and their histories.
func (c *comparison) documents() error {
	for kind := range job.DocumentKinds {
		names := c.m.Documents.Named(kind, false)
		list, more, err := c.q.Documents(&job.Scope{}, kind, "", "", len(names))
		if err != nil || more || len(list) != len(names) {
			return fmt.Errorf("%d documents of kind %v and more (%v), %v; the model has %v", len(list), kind, more, err, names)
		}
		var marked, kept []string
		for i, name := range names {
			newest := c.m.Documents.Newest(name).Doc
			if list[i] != newest {
				return fmt.Errorf("document %d is listed as %+v, the model has %+v", i, list[i], newest)
			}
			if i > 0 {
				if page, more, err := c.q.Documents(&job.Scope{}, kind, names[i-1].Name, names[i-1].Client, 1); err != nil || len(page) != 1 || page[0] != newest || more != (i < len(names)-1) {
					return fmt.Errorf("after %v, the list has %+v and more (%v), %v; the model has %+v", names[i-1], page, more, err, newest)
				}
			}
			for _, v := range c.m.Documents.Versions[name] {
				if !v.Doc.Deleted && !v.Doc.Gone {
					kept = append(kept, v.Doc.Client+" "+v.Doc.Digest.String())
				}
			}
		}
		if err := c.q.KeptDigests(kind, func(client string, digest job.DocumentDigest) error {
			marked = append(marked, client+" "+digest.String())
			return nil
		}); err != nil || !slices.Equal(marked, kept) {
			return fmt.Errorf("the digests of kind %v are %q, %v; the model has %q", kind, marked, err, kept)
		}
		enough := errors.New("enough")
		if err := c.q.KeptDigests(kind, func(string, job.DocumentDigest) error { return enough }); len(kept) > 0 && err != enough {
			return fmt.Errorf("the digests end with %v, and visit with %w", err, enough)
		}
		for _, client := range []string{"", "a", "b", "c"} {
			for _, of := range []string{"x", "y", "z"} {
				if err := c.history(model.DocumentName{kind, client, of}); err != nil {
					return err
				}
			}
		}
	}
	for _, name := range c.m.Documents.Named(job.KeyDocument, false) {
		key, want := c.q.Key(name.Name), c.m.Documents.Newest(name).Doc
		if key == nil || sha256.Sum256(key.Document()) != want.Digest {
			return fmt.Errorf("key %s is %+v; the model has %+v", name.Name, key, want)
		}
	}
	gone := c.m.Documents.Named(job.KeyDocument, true)
	for _, name := range gone {
		if key := c.q.Key(name.Name); key != nil {
			return fmt.Errorf("key %s was revoked, and is %+v", name.Name, key)
		}
	}
	if ever := len(gone)+len(c.m.Documents.Named(job.KeyDocument, false)) > 0; ever && !c.q.KeysRequired() {
		return errors.New("there were keys, and none is required")
	}
	if err := c.logins(); err != nil {
		return err
	}
	for _, name := range []model.DocumentName{{job.HandlerDocument, "a", "x"}, {job.HandlerDocument, "b", "y"}, {job.HandlerDocument, "c", "x"}, {job.HandlerDocument, "c", "z"}} {
		want := c.m.Documents.Newest(name).Doc
		if want.Version == 0 {
			want = c.m.Documents.Newest(model.DocumentName{name.Kind, "", name.Name}).Doc
		}
		if got, ok := c.q.HandlerFor(name.Client, name.Name); ok != (want.Version > 0) || got != want {
			return fmt.Errorf("the handler for %v is %+v, %v; the model has %+v", name, got, ok, want)
		}
	}
	return nil
}

// logins compares the logins in memory.
func (c *comparison) logins() error {
	of := map[string]int{}
	for _, name := range c.m.Documents.Named(job.LoginDocument, false) {
		login, want := c.q.Login([]byte(name.Name)), c.m.Documents.Newest(name).Doc
		if login == nil || sha256.Sum256(login.Document()) != want.Digest {
			return fmt.Errorf("login %s is %+v; the model has %+v", name.Name, login, want)
		}
		of[login.By]++
	}
	for _, name := range c.m.Documents.Named(job.LoginDocument, true) {
		if login := c.q.Login([]byte(name.Name)); login != nil {
			return fmt.Errorf("login %s has ended, and is %+v", name.Name, login)
		}
	}
	for _, by := range []string{"boss", "anna"} {
		if own, ended := c.q.LoginsOf(by, 0); len(own) != of[by] || len(ended) > 0 {
			return fmt.Errorf("%s has %d logins, and %d have ended; the model has %d", by, len(own), len(ended), of[by])
		}
		if own, ended := c.q.LoginsOf(by, job.MaxTimeMs); len(own) > 0 || len(ended) != of["boss"]+of["anna"] {
			return fmt.Errorf("%s has %d logins at the end of time, and %d have ended; the model has %v", by, len(own), len(ended), of)
		}
	}
	return nil
}

// history compares all versions of a document, which may not exist.
func (c *comparison) history(name model.DocumentName) error {
	missing := name.Kind.Rules().NotFound
	versions := c.m.Documents.Versions[name]
	got, err := c.q.DocumentHistory(name.Kind, name.Client, name.Name)
	if (err != nil || len(versions) == 0) && (len(versions) > 0 || !errors.Is(err, missing)) {
		return fmt.Errorf("the history of %v: %v; the model has %+v", name, err, versions)
	}
	slices.Reverse(got)
	var want []document.Named
	readable := map[int]model.Version{}
	for _, v := range versions {
		want = append(want, v.Doc)
		if !v.Doc.Deleted && !v.Doc.Gone {
			readable[v.Doc.Version] = v
		}
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("document %v has versions %+v; the model has %+v", name, got, want)
	}
	if newest := c.m.Documents.Newest(name); newest.Doc.Version > 0 {
		readable[0] = newest
	}
	numbers := append(slices.Collect(maps.Keys(readable)), -1, 0, 1<<30)
	for _, v := range versions {
		numbers = append(numbers, v.Doc.Version)
	}
	for _, number := range numbers {
		v, ok := readable[number]
		doc, text, err := c.q.Document(name.Kind, name.Client, name.Name, number)
		if doc != v.Doc || string(text) != v.Text || !ok != errors.Is(err, missing) || ok && err != nil {
			return fmt.Errorf("version %d of %v is %+v %q, %v; the model has %+v", number, name, doc, text, err, v)
		}
	}
	if name.Kind.Rules().MaxBytes == 0 {
		return nil
	}
	for _, v := range versions {
		if doc, text, err := c.q.DocumentByID(name.Kind, v.Doc.ID); v.Doc.Deleted || v.Doc.Gone {
			if !errors.Is(err, missing) {
				return fmt.Errorf("version %v, which is not kept: %+v, %v", v, doc, err)
			}
		} else if err != nil || doc != v.Doc || string(text) != v.Text {
			return fmt.Errorf("version %v is %+v %q, %v; the model has %+v", v.Doc.ID, doc, text, err, v)
		}
	}
	return nil
}
