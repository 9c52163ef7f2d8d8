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

	"github.com/daybookq/daybook/api/internal/named"
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/manifest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/store/document"
)

// handlerDocument is the document of a version of a handler. Handler is the stored document, and is left out of lists. A
// version that deleted the handler has no kind and no digest.
type handlerDocument struct {
	HandlerID job.ID  `json:"handler_id"`
	Client    *string `json:"client" schema:"Name" doc:"null if the handler is for all clients"`
	Type      string  `json:"type" schema:"Name"`
	named.Change
	Kind    string         `json:"kind,omitzero" enum:"exec,http,script,wasi,container"`
	Digest  string         `json:"digest,omitzero" pattern:"^sha256:[0-9a-f]{64}$" doc:"of what was stored"`
	Bytes   int            `json:"bytes" minimum:"0" maximum:"1048576" doc:"of what was stored"`
	Handler jsontext.Value `json:"handler,omitzero" schema:"NewHandler"`
}

func documentOfHandler(h *document.Named, text []byte) handlerDocument {
	d := handlerDocument{
		HandlerID: h.ID, Client: web.OrNull(h.Client), Type: h.Name, Change: named.ChangeOf(h), Kind: h.Summary, Bytes: h.Bytes, Handler: text,
	}
	if !h.Deleted {
		d.Digest = h.Digest.String()
	}
	return d
}

// handlersDocument is a page of handlers. If more follow, next is type/client of the last handler of the page.
type handlersDocument struct {
	Handlers []handlerDocument `json:"handlers" maxItems:"1000"`
	Next     *string           `json:"next"`
}

// handlers say how runners run the jobs of a type.
type handlers struct {
	reader
	checkClient func(client string) error // refuses a name that no client can have
	documents   named.Routes              // the routes that handlers share with other named documents
}

func newHandlers(r reader, checkClient func(client string) error) *handlers {
	s := &handlers{reader: r, checkClient: checkClient}
	s.documents = named.Routes{
		Kind: job.HandlerDocument, Param: "type", Engine: r.engine, Hold: s.holdPage, Name: handlerName,
		Page: func(list []document.Named, next *string) any {
			page := handlersDocument{make([]handlerDocument, len(list)), next}
			for i := range list {
				page.Handlers[i] = documentOfHandler(&list[i], nil)
			}
			return page
		},
	}
	return s
}

// handlerRef describes the path and the query of a request about a handler.
type handlerRef struct {
	Type   string `path:"type" schema:"Name" doc:"type of the queue"`
	Client string `query:"client" schema:"Name" doc:"whose jobs the handler runs; default: those of all clients that have no handler of the type themselves"`
}

func (s *handlers) routes() []route {
	about := func(id, summary, text string, replies []operation.Reply, refusals ...int) operation.About {
		return operation.About{ID: id, Tag: "Handlers", Summary: summary, Text: text, Replies: replies, Refusals: refusals}
	}
	page, one := named.Read[handlersDocument]("a page of the list"), named.Read[handlerDocument]("the document")
	stored := named.Stored[handlerDocument]("The newest version has this document already. Nothing was stored.", "The version is stored.")
	removed := named.Removed("The handler is deleted, with the documents of all versions. Its history stays.")
	put := about("putHandler", "Store a handler",
		"Stores a new version of the handler that says how runners run the jobs of a type. The server never runs it. The\n"+
			"newest 20 versions are kept.\n", stored, 412, 503, 507)
	put.BodyRequired = true
	put.Bodies = map[string]openapi.Shape{
		web.MIMEJSON: openapi.JSON[handler.Document](openapi.InRequest),
		web.MIMETOML: openapi.Plain(openapi.Of("string").As("a manifest of a WASI guest with the keys name, namespace, version, description, binary, required_extensions and required_permissions")),
	}
	list := []route{
		direct[named.ListQuery](http.MethodGet, "/handlers", about("handlers", "List handlers",
			"Each handler is in its newest version, in the order of type and client, without what was stored.", page, 503), s.documents.List),
		direct[struct {
			handlerRef
			named.PutHeaders
		}](http.MethodPut, "/handlers/:type", put, s.put),
		direct[struct {
			handlerRef
			named.VersionQuery
			named.ReadHeaders
		}](http.MethodGet, "/handlers/:type", about("handler", "Read a handler", "", one, 404, 503), s.newest),
		direct[struct {
			handlerRef
			named.DeleteHeaders
		}](http.MethodDelete, "/handlers/:type", about("deleteHandler", "Delete a handler", "", removed, 404, 412, 503, 507), s.documents.Delete),
		direct[struct {
			handlerRef
			named.ReadHeaders
		}](http.MethodGet, "/handlers/:type/history", about("handlerHistory", "Read the history of a handler",
			"The newest 20 changes, the newest first, without what was stored. A deleted handler still has one.", page, 404, 503), s.documents.History),
		direct[struct {
			onlyID
			named.ReadHeaders
		}](http.MethodGet, "/handler-versions/:id", about("handlerVersion", "Read a version of a handler", "", one, 404, 503), s.version),
	}
	// The document of miniq has the second form of each path.
	for _, of := range []string{"", "OfMiniq"} {
		how := ", as miniq does"
		if of != "" {
			how = ", by the path of miniq's document"
		}
		form := func(verb, short string) string {
			if of == "" {
				return "/:client/handler/:type/" + verb
			}
			return "/:client/handler/" + short + "/:type/" + short
		}
		list = append(list,
			direct[struct {
				namedQueue
				Body miniqHandler `required:"true"`
			}](http.MethodPost, form("add", "add"), about("addHandler"+of, "Store a handler of a client"+how, "", stored, 412, 503, 507), s.addMiniq),
			direct[struct {
				namedQueue
				named.ReadHeaders
			}](http.MethodGet, form("get", "get"), about("getHandler"+of, "Read a handler of a client"+how, "", one, 404, 503), s.newest),
			direct[namedQueue](http.MethodPost, form("delete", "del"), about("removeHandler"+of, "Delete a handler of a client"+how, "", removed, 404, 412, 503, 507), s.removeMiniq),
		)
	}
	return list
}

func describeHandlers(s *openapi.Schemas) {
	openapi.Name[handler.Document](s, openapi.InRequest, "NewHandler")
	openapi.Name[handler.Options](s, openapi.InRequest, "HandlerOptions")
	openapi.Name[miniqHandler](s, openapi.InRequest, "MiniqHandler")
	openapi.Rule[handler.Document](s, func(o *openapi.Schema) {
		o.Description = "How runners run the jobs of a type. `kind` says which other fields there are: `lang` and `source` of a script,\n" +
			"`url` of http, `program` of exec, which is the name of a handler in the runner's configuration, `binary` of wasi. A\n" +
			"handler of kind container has only options. As JSON it has at most 1 MiB.\n"
	})
}

// put stores a handler in JSON or a manifest in TOML: 201 with the new version, or
// 200 with the newest version if that is the same.
func (s *handlers) put(c echo.Context) error {
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
		return s.store(c, body, nil, p, &document)
	}
	if err := web.DecodeObject(body.Bytes, &document); err != nil {
		return err
	}
	return s.store(c, body, body.Bytes, p, &document)
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
		p.If, p.By, err = named.Condition(c)
	}
	return p, err
}

// store stores a handler that was read from a body. text is the body if it is JSON.
func (s *handlers) store(c echo.Context, body *web.Body, text []byte, p job.PutDocument, document *handler.Document) error {
	// The handler's texts, the stored text and the answer are each about as long as the body.
	if err := body.Reserve(c.Request().Context(), 3*int64(len(body.Bytes))); err != nil {
		return err
	}
	if err := s.checkClient(p.Client); err != nil {
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

// newest answers with the newest version, or with the one that the query names.
func (s *handlers) newest(c echo.Context) error {
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
	return s.answer(c, version == 0, func() (document.Named, []byte, error) {
		return s.engine.Document(job.HandlerDocument, client, typ, version)
	})
}

// version answers with the version of an id.
func (s *handlers) version(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	return s.answer(c, false, func() (document.Named, []byte, error) { return s.engine.DocumentByID(job.HandlerDocument, id) })
}

// maxHandlerAnswerBytes is the memory for the answer with the longest handler: its text, and the answer, whose buffer
// may be twice as long.
const maxHandlerAnswerBytes = 3 * job.MaxHandlerBytes

// answer answers with the handler that read returns. The tag of the newest version is its number, and the other
// answers change when another version becomes the newest.
func (s *handlers) answer(c echo.Context, newest bool, read func() (document.Named, []byte, error)) error {
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

// removeMiniq is miniq's form of DELETE /handlers/{type}.
func (s *handlers) removeMiniq(c echo.Context) error {
	if _, _, err := handlerName(c); err != nil {
		return err
	}
	if err := web.NoBody(c, &s.bodies.optional); err != nil {
		return err
	}
	return s.documents.Delete(c)
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
