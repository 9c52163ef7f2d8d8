package model

import (
	"crypto/sha256"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
)

// Handler is a version of a handler.
type Handler struct {
	Doc  document.Handler
	Text string
}

// putHandler stores a version of a handler. rules bound the handlers.
func (m *Model) putHandler(cmd job.PutHandler) applied.Result {
	name := Name{cmd.Client, cmd.Type}
	versions := m.Handlers[name]
	bytes := int64(len(cmd.Document))
	for _, versions := range m.Handlers {
		for _, v := range versions {
			bytes += int64(len(v.Text))
		}
	}
	number := 1
	if n := len(versions); n > 0 {
		if versions[n-1].Text == string(cmd.Document) {
			return &applied.HandlerPut{Handler: versions[n-1].Doc, Same: true}
		}
		number = versions[n-1].Doc.Version + 1
	}
	if len(versions) == 0 && len(m.Handlers) >= m.bounds.Handlers || bytes > m.bounds.HandlersBytes {
		return &applied.HandlerPut{Refusal: job.TooManyHandlers}
	}
	doc := document.Handler{ID: job.NewID(m.At, m.Seq, 0), Client: cmd.Client, Type: cmd.Type, Version: number, Kind: cmd.Kind,
		Digest: sha256.Sum256(cmd.Document), Bytes: len(cmd.Document), Newest: true, CreatedAt: m.At}
	if n := len(versions); n > 0 {
		versions[n-1].Doc.Newest = false
	}
	versions = append(versions, Handler{doc, string(cmd.Document)})
	m.Handlers[name] = versions[max(0, len(versions)-m.bounds.HandlerVersions):]
	return &applied.HandlerPut{Handler: doc}
}

func (m *Model) deleteHandler(cmd job.DeleteHandler) applied.Result {
	name := Name{cmd.Client, cmd.Type}
	if m.Handlers[name] == nil {
		return &applied.HandlerDeleted{Refusal: job.HandlerNotFound}
	}
	delete(m.Handlers, name)
	return &applied.HandlerDeleted{}
}
