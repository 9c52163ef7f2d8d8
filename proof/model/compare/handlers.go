package compare

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/store/document"
)

// handlers compares the documents of all handlers.
func (c *comparison) handlers() error {
	names := slices.SortedFunc(maps.Keys(c.m.Handlers), func(a, b model.Name) int {
		return slices.Compare([]string{a.Name, a.Client}, []string{b.Name, b.Client})
	})
	list, more, err := c.q.Handlers("", "", len(names))
	if err != nil || more || len(list) != len(names) {
		return fmt.Errorf("%d handlers and more (%v), %v; the model has %v", len(list), more, err, names)
	}
	for i, name := range names {
		versions := c.m.Handlers[name]
		newest := versions[len(versions)-1]
		if list[i] != newest.Doc {
			return fmt.Errorf("handler %d is listed as %+v, the model has %+v", i, list[i], newest.Doc)
		}
		if i > 0 {
			if page, _, err := c.q.Handlers(names[i-1].Name, names[i-1].Client, 1); err != nil || len(page) != 1 || page[0] != newest.Doc {
				return fmt.Errorf("after %v, the list has %+v, %v; the model has %+v", names[i-1], page, err, newest.Doc)
			}
		}
		if doc, text, err := c.q.Handler(name.Client, name.Name); err != nil || doc != newest.Doc || string(text) != newest.Text {
			return fmt.Errorf("handler %v is %+v %q, %v; the model has %+v", name, doc, text, err, newest)
		}
		got, err := c.q.HandlerVersions(name.Client, name.Name)
		slices.Reverse(got)
		var want []document.Handler
		for _, v := range versions {
			want = append(want, v.Doc)
			if doc, text, err := c.q.HandlerByID(v.Doc.ID); err != nil || doc != v.Doc || string(text) != v.Text {
				return fmt.Errorf("version %v is %+v %q, %v; the model has %+v", v.Doc.ID, doc, text, err, v)
			}
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			return fmt.Errorf("handler %v has versions %+v, %v; the model has %+v", name, got, err, want)
		}
	}
	for _, name := range []model.Name{{"a", "x"}, {"b", "y"}, {"c", "x"}, {"c", "z"}} {
		versions := c.m.Handlers[name]
		if versions == nil {
			if _, err := c.q.HandlerVersions(name.Client, name.Name); !errors.Is(err, job.HandlerNotFound) {
				return fmt.Errorf("handler %v, which does not exist: %v", name, err)
			}
			versions = c.m.Handlers[model.Name{"", name.Name}]
		}
		var want document.Handler
		if n := len(versions); n > 0 {
			want = versions[n-1].Doc
		}
		if got, ok := c.q.HandlerFor(name.Client, name.Name); ok != (len(versions) > 0) || got != want {
			return fmt.Errorf("the handler for %v is %+v, %v; the model has %+v", name, got, ok, want)
		}
	}
	return nil
}
