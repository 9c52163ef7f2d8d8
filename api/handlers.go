package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/manifest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
)

type handlerOperator interface {
	PutHandler(ctx context.Context, p job.PutHandler) (applied.HandlerPut, ingest.Receipt, error)
	DeleteHandler(ctx context.Context, d job.DeleteHandler) (ingest.Receipt, error)
}

type handlerReader interface {
	HandlerFor(client, typ string) (h document.Handler, ok bool)
	Handler(client, typ string) (h document.Handler, document []byte, err error)
	HandlerByID(id job.ID) (h document.Handler, document []byte, err error)
	HandlerVersions(client, typ string) ([]document.Handler, error)
	Handlers(afterType, afterClient string, limit int) (list []document.Handler, more bool, err error)
}

// handlerDocument is the document of a version of a handler. Handler is the stored document, and is left out of lists.
type handlerDocument struct {
	HandlerID job.ID         `json:"handler_id"`
	Client    *string        `json:"client"` // null: for all clients
	Type      string         `json:"type"`
	Version   int            `json:"version"`
	Newest    bool           `json:"newest"`
	Kind      string         `json:"kind"`
	Digest    string         `json:"digest"`
	Bytes     int            `json:"bytes"`
	CreatedAt int64          `json:"created_at"`
	Handler   jsontext.Value `json:"handler,omitzero"`
}

func documentOfHandler(h *document.Handler, text []byte) handlerDocument {
	return handlerDocument{
		HandlerID: h.ID, Client: web.OrNull(h.Client), Type: h.Type, Version: h.Version, Newest: h.Newest, Kind: h.Kind,
		Digest: h.Digest.String(), Bytes: h.Bytes, CreatedAt: h.CreatedAt, Handler: text,
	}
}

// putHandler answers PUT /handlers/{type} with a handler in JSON or a manifest in TOML: 201 with the new version, or
// 200 with the newest version if that is the same.
func (s *Server) putHandler(c echo.Context) error {
	client, typ, err := handlerName(c)
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
		return s.storeHandler(c, body, nil, client, typ, &document)
	}
	if err := web.DecodeObject(body.Bytes, &document); err != nil {
		return err
	}
	return s.storeHandler(c, body, body.Bytes, client, typ, &document)
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

// storeHandler stores a handler that was read from a body. text is the body if it is JSON.
func (s *Server) storeHandler(c echo.Context, body *web.Body, text []byte, client, typ string, document *handler.Document) error {
	// The handler's texts, the stored text and the answer are each about as long as the body.
	if err := body.Reserve(c.Request().Context(), 3*int64(len(body.Bytes))); err != nil {
		return err
	}
	if err := s.web.CheckClient(client); err != nil {
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
	put, receipt, err := s.engine.PutHandler(c.Request().Context(), job.PutHandler{Client: client, Type: typ, Kind: document.Kind, Document: stored})
	if err != nil {
		return err
	}
	web.SetSeq(c, receipt.Seq)
	status := http.StatusOK
	if !put.Same {
		status = http.StatusCreated
		c.Response().Header().Set(echo.HeaderLocation, "/handler-versions/"+put.Handler.ID.String())
	}
	return web.AnswerDocument(c, status, documentOfHandler(&put.Handler, stored))
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

// handlerOf answers GET /handlers/{type}.
func (s *Server) handlerOf(c echo.Context) error {
	client, typ, err := handlerName(c)
	if err != nil {
		return err
	}
	return s.answerHandler(c, func() (document.Handler, []byte, error) { return s.engine.Handler(client, typ) })
}

// handlerVersion answers GET /handler-versions/{id}.
func (s *Server) handlerVersion(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	return s.answerHandler(c, func() (document.Handler, []byte, error) { return s.engine.HandlerByID(id) })
}

// maxHandlerAnswerBytes is the memory for the answer with the longest handler: its text, and the answer, whose buffer
// may be twice as long.
const maxHandlerAnswerBytes = 3 * job.MaxHandlerBytes

// answerHandler answers with the handler that read returns.
func (s *Server) answerHandler(c echo.Context, read func() (document.Handler, []byte, error)) error {
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
	return web.AnswerTagged(c, web.MIMEJSON, body, body)
}

// handlersDocument is a page of handlers. If more follow, next is type/client of the last handler of the page.
type handlersDocument struct {
	Handlers []handlerDocument `json:"handlers"`
	Next     *string           `json:"next"`
}

// handlerVersions answers GET /handlers/{type}/versions, the newest version first.
func (s *Server) handlerVersions(c echo.Context) error {
	client, typ, err := handlerName(c)
	if err != nil {
		return err
	}
	held, err := s.holdPage(c, web.MaxRowsBytes)
	if err != nil {
		return err
	}
	defer held.Release()
	list, err := s.engine.HandlerVersions(client, typ)
	if err != nil {
		return err
	}
	return answerHandlers(c, held, list, nil)
}

// handlers answers GET /handlers with a page of handlers in the order of type and client.
func (s *Server) handlers(c echo.Context) error {
	limit, afterType, afterClient := job.MaxPage, "", ""
	for _, p := range web.Parameters(c) {
		var err error
		switch p.Key {
		case "limit":
			limit, err = web.PageLimit(p)
		case "after":
			var slash bool
			afterType, afterClient, slash = strings.Cut(p.Value, "/")
			if !slash || job.CheckName(p.Key, afterType) != nil || afterClient != "" && job.CheckName(p.Key, afterClient) != nil {
				err = web.BadRequest(p.Key, "after must be type/client, the value of next of the previous page")
			}
		}
		if err != nil {
			return err
		}
	}
	held, err := s.holdPage(c, web.MaxRowsBytes)
	if err != nil {
		return err
	}
	defer held.Release()
	list, more, err := s.engine.Handlers(afterType, afterClient, limit)
	if err != nil {
		return err
	}
	var next *string
	if more && len(list) > 0 {
		last := &list[len(list)-1]
		next = web.OrNull(last.Type + "/" + last.Client)
	}
	return answerHandlers(c, held, list, next)
}

func answerHandlers(c echo.Context, held *web.Share, list []document.Handler, next *string) error {
	page := handlersDocument{make([]handlerDocument, len(list)), next}
	for i := range list {
		page.Handlers[i] = documentOfHandler(&list[i], nil)
	}
	text, err := web.EncodePage(c.Request().Context(), held, page)
	if err != nil {
		return err
	}
	return web.AnswerTagged(c, web.MIMEJSON, text, text)
}

// deleteHandler answers DELETE /handlers/{type}, which deletes all versions.
func (s *Server) deleteHandler(c echo.Context) error {
	client, typ, err := handlerName(c)
	if err != nil {
		return err
	}
	if c.Request().Method == http.MethodPost { // the route of miniq
		if err := web.NoBody(c, &s.bodies.optional); err != nil {
			return err
		}
	}
	receipt, err := s.engine.DeleteHandler(c.Request().Context(), job.DeleteHandler{Client: client, Type: typ})
	if err != nil {
		return err
	}
	web.SetSeq(c, receipt.Seq)
	return c.NoContent(http.StatusNoContent)
}

// handlerName returns the client and type of a handler: the type from the path, and the client from the query, or from
// the path of miniq's routes. Without a client, the handler is for all clients.
func handlerName(c echo.Context) (client, typ string, err error) {
	typ, client = c.Param("type"), c.Param("client")
	if err := web.BadField("type", job.CheckName("type", typ)); err != nil {
		return "", "", err
	}
	for _, p := range web.Parameters(c) {
		if p.Key == "client" {
			client = p.Value
		}
	}
	if client == "" && len(web.Parameters(c)) == 0 {
		return "", typ, nil
	}
	return client, typ, web.BadField("client", job.CheckName("client", client))
}
