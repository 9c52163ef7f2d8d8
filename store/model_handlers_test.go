package store

import (
	"crypto/sha256"
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

// modelHandler is a version of a handler.
type modelHandler struct {
	doc  document.Handler
	text string
}

// putHandler stores a version of a handler. rules bound the handlers.
func (m *model) putHandler(cmd job.PutHandler) applied.Result {
	name := row.QueueName{cmd.Client, cmd.Type}
	versions := m.handlers[name]
	bytes := int64(len(cmd.Document))
	for _, versions := range m.handlers {
		for _, v := range versions {
			bytes += int64(len(v.text))
		}
	}
	number := 1
	if n := len(versions); n > 0 {
		if versions[n-1].text == string(cmd.Document) {
			return &applied.HandlerPut{Handler: versions[n-1].doc, Same: true}
		}
		number = versions[n-1].doc.Version + 1
	}
	if len(versions) == 0 && len(m.handlers) >= m.rules.Handlers || bytes > m.rules.HandlersBytes {
		return &applied.HandlerPut{Refusal: job.TooManyHandlers}
	}
	doc := document.Handler{ID: job.NewID(m.at, m.seq, 0), Client: cmd.Client, Type: cmd.Type, Version: number, Kind: cmd.Kind,
		Digest: sha256.Sum256(cmd.Document), Bytes: len(cmd.Document), Newest: true, CreatedAt: m.at}
	if n := len(versions); n > 0 {
		versions[n-1].doc.Newest = false
	}
	versions = append(versions, modelHandler{doc, string(cmd.Document)})
	m.handlers[name] = versions[max(0, len(versions)-m.rules.HandlerVersions):]
	return &applied.HandlerPut{Handler: doc}
}

func (m *model) deleteHandler(cmd job.DeleteHandler) applied.Result {
	name := row.QueueName{cmd.Client, cmd.Type}
	if m.handlers[name] == nil {
		return &applied.HandlerDeleted{Refusal: job.HandlerNotFound}
	}
	delete(m.handlers, name)
	return &applied.HandlerDeleted{}
}

// handler generates a command that stores or deletes a handler.
func (g *generator) handler() job.Command {
	client, typ := oneOf(g, "", "a", "b"), oneOf(g, "x", "y")
	if g.some(25) {
		return job.DeleteHandler{Client: client, Type: typ}
	}
	return job.PutHandler{Client: client, Type: typ, Kind: oneOf(g, "http", "exec"), Document: make([]byte, oneOf(g, 1, 2, 3, 4, 50, 150, 299, 301))}
}

// compareHandlers compares the documents of all handlers.
func (p *player) compareHandlers() error {
	names := slices.SortedFunc(maps.Keys(p.m.handlers), func(a, b row.QueueName) int {
		return slices.Compare([]string{a.Typ, a.Client}, []string{b.Typ, b.Client})
	})
	list, more, err := p.s.Handlers("", "", len(names))
	if err != nil || more || len(list) != len(names) {
		return fmt.Errorf("%d handlers and more (%v), %v; the model has %v", len(list), more, err, names)
	}
	for i, name := range names {
		versions := p.m.handlers[name]
		newest := versions[len(versions)-1]
		if list[i] != newest.doc {
			return fmt.Errorf("handler %d is listed as %+v, the model has %+v", i, list[i], newest.doc)
		}
		if i > 0 {
			if page, _, err := p.s.Handlers(names[i-1].Typ, names[i-1].Client, 1); err != nil || len(page) != 1 || page[0] != newest.doc {
				return fmt.Errorf("after %v, the list has %+v, %v; the model has %+v", names[i-1], page, err, newest.doc)
			}
		}
		if doc, text, err := p.s.Handler(name.Client, name.Typ); err != nil || doc != newest.doc || string(text) != newest.text {
			return fmt.Errorf("handler %v is %+v %q, %v; the model has %+v", name, doc, text, err, newest)
		}
		got, err := p.s.HandlerVersions(name.Client, name.Typ)
		slices.Reverse(got)
		var want []document.Handler
		for _, v := range versions {
			want = append(want, v.doc)
			if doc, text, err := p.s.HandlerByID(v.doc.ID); err != nil || doc != v.doc || string(text) != v.text {
				return fmt.Errorf("version %v is %+v %q, %v; the model has %+v", v.doc.ID, doc, text, err, v)
			}
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			return fmt.Errorf("handler %v has versions %+v, %v; the model has %+v", name, got, err, want)
		}
	}
	for _, name := range []row.QueueName{{"a", "x"}, {"b", "y"}, {"c", "x"}, {"c", "z"}} {
		versions := p.m.handlers[name]
		if versions == nil {
			if _, err := p.s.HandlerVersions(name.Client, name.Typ); !errors.Is(err, job.HandlerNotFound) {
				return fmt.Errorf("handler %v, which does not exist: %v", name, err)
			}
			versions = p.m.handlers[row.QueueName{"", name.Typ}]
		}
		var want document.Handler
		if n := len(versions); n > 0 {
			want = versions[n-1].doc
		}
		if got, ok := p.s.HandlerFor(name.Client, name.Typ); ok != (len(versions) > 0) || got != want {
			return fmt.Errorf("the handler for %v is %+v, %v; the model has %+v", name, got, ok, want)
		}
	}
	return nil
}
