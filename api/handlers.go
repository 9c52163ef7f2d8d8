package api

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/named"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/manifest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/store/document"
)

// handlerDocument is the document of a version of a handler. Handler is the stored document, and is left out of lists. A
// version that deleted the handler has no kind and no digest.
type handlerDocument struct {
	HandlerID job.ID         `json:"handler_id"`
	Client    *string        `json:"client"` // null: for all clients
	Type      string         `json:"type"`
	Version   int            `json:"version"`
	Newest    bool           `json:"newest"`
	Deleted   bool           `json:"deleted,omitzero"`
	Gone      bool           `json:"gone,omitzero"`
	Kind      string         `json:"kind,omitzero"`
	Digest    string         `json:"digest,omitzero"`
	Bytes     int            `json:"bytes"`
	By        string         `json:"by,omitzero"`
	CreatedAt int64          `json:"created_at"`
	Handler   jsontext.Value `json:"handler,omitzero"`
}

func documentOfHandler(h *document.Named, text []byte) handlerDocument {
	d := handlerDocument{
		HandlerID: h.ID, Client: web.OrNull(h.Client), Type: h.Name, Version: h.Version, Newest: h.Newest, Deleted: h.Deleted, Gone: h.Gone,
		Kind: h.Summary, Bytes: h.Bytes, By: h.By, CreatedAt: h.CreatedAt, Handler: text,
	}
	if !h.Deleted {
		d.Digest = h.Digest.String()
	}
	return d
}

// handlersDocument is a page of handlers. If more follow, next is type/client of the last handler of the page.
type handlersDocument struct {
	Handlers []handlerDocument `json:"handlers"`
	Next     *string           `json:"next"`
}

// handlerRoutes returns the routes that handlers share with other named documents.
func (s *Server) handlerRoutes(engine backend.Engine) named.Routes {
	return named.Routes{
		Kind: job.HandlerDocument, Param: "type", Engine: engine, Hold: s.holdPage, Name: handlerName,
		Page: func(list []document.Named, next *string) any {
			page := handlersDocument{make([]handlerDocument, len(list)), next}
			for i := range list {
				page.Handlers[i] = documentOfHandler(&list[i], nil)
			}
			return page
		},
	}
}

// putHandler answers PUT /handlers/{type} with a handler in JSON or a manifest in TOML: 201 with the new version, or
// 200 with the newest version if that is the same.
func (s *Server) putHandler(c echo.Context) error {
	p, err := newHandler(c)
	if err != nil {
		return err
	}
	body, err := web.ReadBody(c, &s.bodies.toml)
	if err != nil {
		return err
	}
	defer body.Release()
	var document handler.Document
	if web.FormOf(c.Request()) == web.MIMETOML {
		if document, err = parseManifest(body.Bytes); err != nil {
			return err
		}
		return s.storeHandler(c, body, nil, p, &document)
	}
	if err := web.DecodeObject(body.Bytes, &document); err != nil {
		return err
	}
	return s.storeHandler(c, body, body.Bytes, p, &document)
}

// parseManifest reads a handler of kind wasi as a manifest in TOML.
func parseManifest(text []byte) (handler.Document, error) {
	document, err := manifest.Parse(text)
	if wrong, ok := errors.AsType[*handler.FieldError](err); ok {
		return document, web.BadRequest(wrong.Field, wrong.Text)
	}
	if err != nil {
		return document, web.BadRequest("", err.Error())
	}
	return document, nil
}

// newHandler reads the head of a request that stores a handler.
func newHandler(c echo.Context) (p job.PutDocument, err error) {
	p.Kind = job.HandlerDocument
	if p.Client, p.Name, err = handlerName(c); err == nil {
		p.If, p.By, err = named.Change(c)
	}
	return p, err
}

// storeHandler stores a handler that was read from a body. text is the body if it is JSON.
func (s *Server) storeHandler(c echo.Context, body *web.Body, text []byte, p job.PutDocument, document *handler.Document) error {
	// The handler's texts, the stored text and the answer are each about as long as the body.
	if err := body.Reserve(c.Request().Context(), 3*int64(len(body.Bytes))); err != nil {
		return err
	}
	if err := s.web.CheckClient(p.Client); err != nil {
		return err
	}
	if err := checkHandler(document, text); err != nil {
		if wrong, ok := errors.AsType[*handler.FieldError](err); ok {
			return web.BadRequest(wrong.Field, wrong.Text)
		}
		return err
	}
	if o := document.Options; o != nil && *o == (handler.Options{}) {
		document.Options = nil // so that equal handlers have equal texts
	}
	stored, err := web.EncodeDocument(document)
	if err != nil {
		return err
	}
	stored = stored[:len(stored)-1]
	if len(stored) > job.MaxHandlerBytes {
		return &web.Problem{Status: http.StatusRequestEntityTooLarge, Code: web.CodeTooLarge,
			Detail: fmt.Sprintf("the handler takes %d bytes as JSON; the maximum is %d", len(stored), job.MaxHandlerBytes)}
	}
	p.Summary, p.Document = document.Kind, stored
	put, receipt, err := s.engine.PutDocument(c.Request().Context(), p)
	if err != nil {
		return err
	}
	web.SetSeq(c, receipt.Seq)
	h := c.Response().Header()
	h["Etag"] = []string{named.Tag(&put.Document)}
	status := http.StatusOK
	if !put.Same {
		status = http.StatusCreated
		h.Set(echo.HeaderLocation, "/handler-versions/"+put.Document.ID.String())
	}
	return web.AnswerDocument(c, status, documentOfHandler(&put.Document, stored))
}

// checkHandler returns an error that describes the first mistake in a handler. text is its JSON, or nil if it was not
// read from JSON.
func checkHandler(document *handler.Document, text []byte) error {
	if err := document.Check(); err != nil || text == nil {
		return err
	}
	// After decoding, an option of 0 looks like a missing option.
	var given struct {
		Options map[string]jsontext.Value `json:"options"`
	}
	if err := json.Unmarshal(text, &given); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(given.Options)) {
		if value := string(given.Options[name]); value == "0" || value == "-0" {
			if err := handler.CheckZero(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// handlerOf answers GET /handlers/{type} with the newest version, or with the one that the query names.
func (s *Server) handlerOf(c echo.Context) error {
	client, typ, err := handlerName(c)
	if err != nil {
		return err
	}
	version := 0
	for _, p := range web.Parameters(c) {
		if p.Key == "version" {
			if version, err = named.Version(p); err != nil {
				return err
			}
		}
	}
	return s.answerHandler(c, version == 0, func() (document.Named, []byte, error) {
		return s.engine.Document(job.HandlerDocument, client, typ, version)
	})
}

// handlerVersion answers GET /handler-versions/{id}.
func (s *Server) handlerVersion(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	return s.answerHandler(c, false, func() (document.Named, []byte, error) { return s.engine.DocumentByID(job.HandlerDocument, id) })
}

// maxHandlerAnswerBytes is the memory for the answer with the longest handler: its text, and the answer, whose buffer
// may be twice as long.
const maxHandlerAnswerBytes = 3 * job.MaxHandlerBytes

// answerHandler answers with the handler that read returns. The tag of the newest version is its number, and the other
// answers change when another version becomes the newest.
func (s *Server) answerHandler(c echo.Context, newest bool, read func() (document.Named, []byte, error)) error {
	held, err := s.holdPage(c, maxHandlerAnswerBytes)
	if err != nil {
		return err
	}
	defer held.Release()
	h, text, err := read()
	if err != nil {
		return err
	}
	held.Shrink(maxHandlerAnswerBytes - 3*int64(len(text)))
	body, err := web.EncodeDocument(documentOfHandler(&h, text))
	if err != nil {
		return err
	}
	if newest {
		return web.AnswerWithTag(c, web.MIMEJSON, body, named.Tag(&h))
	}
	return web.AnswerTagged(c, web.MIMEJSON, body, body)
}

// removeHandler answers POST /{client}/handler/{type}/delete, miniq's form of DELETE /handlers/{type}.
func (s *Server) removeHandler(c echo.Context) error {
	if _, _, err := handlerName(c); err != nil {
		return err
	}
	if err := web.NoBody(c, &s.bodies.optional); err != nil {
		return err
	}
	return s.handlers.Delete(c)
}

// handlerName returns the client and type of a handler: the type from the path, and the client from the query, or from
// the path of miniq's routes. Without a client, the handler is for all clients.
func handlerName(c echo.Context) (client, typ string, err error) {
	typ, client = c.Param("type"), c.Param("client")
	if err := web.BadField("type", job.CheckName("type", typ)); err != nil {
		return "", "", err
	}
	given := client != ""
	for _, p := range web.Parameters(c) {
		if p.Key == "client" {
			client, given = p.Value, true
		}
	}
	if !given {
		return "", typ, nil
	}
	return client, typ, web.BadField("client", job.CheckName("client", client))
}
