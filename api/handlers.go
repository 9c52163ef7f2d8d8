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
	handlerFinder
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
		HandlerID: h.ID, Client: orNull(h.Client), Type: h.Type, Version: h.Version, Newest: h.Newest, Kind: h.Kind,
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
	body, err := readBody(c, &s.bodies.toml)
	if err != nil {
		return err
	}
	defer body.release()
	var document handler.Document
	if formOf(c.Request()) == mimeTOML {
		if document, err = parseManifest(body.bytes); err != nil {
			return err
		}
		return s.storeHandler(c, body, nil, client, typ, &document)
	}
	if err := decodeObject(body.bytes, &document); err != nil {
		return err
	}
	return s.storeHandler(c, body, body.bytes, client, typ, &document)
}

// parseManifest reads a handler of kind wasi as a manifest in TOML.
func parseManifest(text []byte) (handler.Document, error) {
	document, err := manifest.Parse(text)
	if wrong, ok := errors.AsType[*handler.FieldError](err); ok {
		return document, badRequest(wrong.Field, wrong.Text)
	}
	if err != nil {
		return document, badRequest("", err.Error())
	}
	return document, nil
}

// storeHandler stores a handler that was read from a body. text is the body if it is JSON.
func (s *Server) storeHandler(c echo.Context, body *body, text []byte, client, typ string, document *handler.Document) error {
	// The handler's texts, the stored text and the answer are each about as long as the body.
	if err := body.reserve(c.Request().Context(), 3*int64(len(body.bytes))); err != nil {
		return err
	}
	if s.reserved[client] {
		return reservedClient(client)
	}
	if err := checkHandler(document, text); err != nil {
		if wrong, ok := errors.AsType[*handler.FieldError](err); ok {
			return badRequest(wrong.Field, wrong.Text)
		}
		return err
	}
	if o := document.Options; o != nil && *o == (handler.Options{}) {
		document.Options = nil // so that equal handlers have equal texts
	}
	stored, err := encodeDocument(document)
	if err != nil {
		return err
	}
	stored = stored[:len(stored)-1]
	if len(stored) > job.MaxHandlerBytes {
		return &problem{status: http.StatusRequestEntityTooLarge, code: codeTooLarge,
			detail: fmt.Sprintf("the handler takes %d bytes as JSON; the maximum is %d", len(stored), job.MaxHandlerBytes)}
	}
	put, receipt, err := s.engine.PutHandler(c.Request().Context(), job.PutHandler{Client: client, Type: typ, Kind: document.Kind, Document: stored})
	if err != nil {
		return err
	}
	setSeq(c, receipt.Seq)
	status := http.StatusOK
	if !put.Same {
		status = http.StatusCreated
		c.Response().Header().Set(echo.HeaderLocation, "/handler-versions/"+put.Handler.ID.String())
	}
	return answerDocument(c, status, documentOfHandler(&put.Handler, stored))
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
	defer held.release()
	h, text, err := read()
	if err != nil {
		return err
	}
	held.shrink(maxHandlerAnswerBytes - 3*int64(len(text)))
	body, err := encodeDocument(documentOfHandler(&h, text))
	if err != nil {
		return err
	}
	return answerTagged(c, mimeJSON, body, body)
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
	held, err := s.holdPage(c, maxRowsBytes)
	if err != nil {
		return err
	}
	defer held.release()
	list, err := s.engine.HandlerVersions(client, typ)
	if err != nil {
		return err
	}
	return answerHandlers(c, held, list, nil)
}

// handlers answers GET /handlers with a page of handlers in the order of type and client.
func (s *Server) handlers(c echo.Context) error {
	limit, afterType, afterClient := job.MaxPage, "", ""
	for _, p := range parameters(c) {
		var err error
		switch p.key {
		case "limit":
			limit, err = pageLimit(p)
		case "after":
			var slash bool
			afterType, afterClient, slash = strings.Cut(p.value, "/")
			if !slash || job.CheckName(p.key, afterType) != nil || afterClient != "" && job.CheckName(p.key, afterClient) != nil {
				err = badRequest(p.key, "after must be type/client, the value of next of the previous page")
			}
		}
		if err != nil {
			return err
		}
	}
	held, err := s.holdPage(c, maxRowsBytes)
	if err != nil {
		return err
	}
	defer held.release()
	list, more, err := s.engine.Handlers(afterType, afterClient, limit)
	if err != nil {
		return err
	}
	var next *string
	if more && len(list) > 0 {
		last := &list[len(list)-1]
		next = orNull(last.Type + "/" + last.Client)
	}
	return answerHandlers(c, held, list, next)
}

func answerHandlers(c echo.Context, held *share, list []document.Handler, next *string) error {
	page := handlersDocument{make([]handlerDocument, len(list)), next}
	for i := range list {
		page.Handlers[i] = documentOfHandler(&list[i], nil)
	}
	text, err := encodePage(c.Request().Context(), held, page)
	if err != nil {
		return err
	}
	return answerTagged(c, mimeJSON, text, text)
}

// deleteHandler answers DELETE /handlers/{type}, which deletes all versions.
func (s *Server) deleteHandler(c echo.Context) error {
	client, typ, err := handlerName(c)
	if err != nil {
		return err
	}
	if c.Request().Method == http.MethodPost { // the route of miniq
		if err := s.noBody(c); err != nil {
			return err
		}
	}
	receipt, err := s.engine.DeleteHandler(c.Request().Context(), job.DeleteHandler{Client: client, Type: typ})
	if err != nil {
		return err
	}
	setSeq(c, receipt.Seq)
	return c.NoContent(http.StatusNoContent)
}

// handlerName returns the client and type of a handler: the type from the path, and the client from the query, or from
// the path of miniq's routes. Without a client, the handler is for all clients.
func handlerName(c echo.Context) (client, typ string, err error) {
	typ, client = c.Param("type"), c.Param("client")
	if err := badField("type", job.CheckName("type", typ)); err != nil {
		return "", "", err
	}
	for _, p := range parameters(c) {
		if p.key == "client" {
			client = p.value
		}
	}
	if client == "" && len(parameters(c)) == 0 {
		return "", typ, nil
	}
	return client, typ, badField("client", job.CheckName("client", client))
}
