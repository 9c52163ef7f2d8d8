package api

import (
	"bytes"
	_ "embed"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/labstack/echo/v4"
	"github.com/swaggest/swgui/v5/static"

	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/web"
)

// The page of the description is Swagger UI. Its files are part of the binary, so the page works without a connection to the
// internet.
var (
	//go:embed docspage/root.html
	rootPage []byte
	//go:embed docspage/index.html
	docsIndex []byte
	//go:embed docspage/page.js
	docsScript []byte
)

// docsAssets are the files of Swagger UI that the page loads. They are stored as gzip.
var docsAssets = map[string]string{
	"swagger-ui-bundle.js": "text/javascript; charset=utf-8",
	"swagger-ui.css":       "text/css; charset=utf-8",
	"favicon-32x32.png":    "image/png",
}

// docsPolicy makes browsers load only files of this server into the page. Swagger UI requires inline styles and icons
// in data URLs.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pages are the server's own pages.
type pages struct {
	version  string
	metrics  echo.HandlerFunc             // the page of metrics
	describe func() (descriptions, error) // describes all routes
}

func (p pages) routes(r operation.Rules) []route {
	about := func(id, summary, text string, content map[string]openapi.Shape, refusals ...int) operation.About {
		return operation.About{ID: id, Tag: "Watching", Summary: summary, Replies: []operation.Reply{{Status: http.StatusOK, Text: text, Content: content}}, Refusals: refusals}
	}
	text := openapi.Plain(openapi.Of("string"))
	return []route{
		written(r, http.MethodGet, "/", about("root", "Links to the documentation and to the main resources", "relative links",
			map[string]openapi.Shape{web.MIMEJSON: openapi.JSON[rootDocument](openapi.InAnswer), web.MIMEHTML: text}), p.root),
		direct[nothing](http.MethodGet, "/ping", about("ping", "Check that the server answers", "pong", map[string]openapi.Shape{web.MIMEText: text}), p.ping).often(),
		direct[nothing](http.MethodGet, "/metrics", about("metrics", "Read metrics for Prometheus", "the metrics, in a format of Prometheus that Accept names; without it in the text format",
			map[string]openapi.Shape{web.MIMEText: text}, http.StatusServiceUnavailable), p.metrics).often(),
		written(r, http.MethodGet, "/openapi.yaml", about("openapi", "This document", "the document, in OpenAPI 3.1", map[string]openapi.Shape{"application/yaml": text}), p.openapi),
		written(r, http.MethodGet, "/openapi.json", about("openapiJSON", "This document as JSON", "the document, in OpenAPI 3.1",
			map[string]openapi.Shape{web.MIMEJSON: openapi.Plain(openapi.Of("object"))}), p.openapiJSON),
		written(r, http.MethodGet, "/docs", about("docs", "This document as a page", "an HTML page", map[string]openapi.Shape{web.MIMEHTML: text}), p.docs),
		written(r, http.MethodGet, "/docs/:file", about("docsFile", "Read a file of the page at /docs", "a script, a style sheet or an icon",
			map[string]openapi.Shape{"*/*": text}, http.StatusNotFound), p.file),
	}
}

// rootDocument has links that are relative, so that they work if a proxy adds a path prefix.
type rootDocument struct {
	Name    string `json:"name" enum:"daybook"`
	Version string `json:"version"`
	Docs    string `json:"docs"`
	OpenAPI string `json:"openapi"`
	Queues  string `json:"queues"`
	Stats   string `json:"stats"`
	Metrics string `json:"metrics"`
	Ready   string `json:"ready"`
}

// root answers with a page for browsers, and JSON for programs.
func (p pages) root(c echo.Context, _ *nothing) error {
	c.Response().Header().Set(echo.HeaderVary, echo.HeaderAccept)
	if web.Prefers(c.Request(), web.MIMEHTML) {
		c.Response().Header().Set("Content-Security-Policy", docsPolicy)
		return web.Answer(c, http.StatusOK, web.MIMEHTML+"; charset=utf-8", rootPage)
	}
	return web.AnswerDocument(c, http.StatusOK, rootDocument{"daybook", p.version, "docs", "openapi.yaml", "queues", "stats", "metrics", "readyz"})
}

func (p pages) ping(c echo.Context) error {
	return web.Answer(c, http.StatusOK, web.MIMEText, []byte("pong"))
}

func (p pages) openapi(c echo.Context, _ *nothing) error {
	text, err := p.describe()
	if err != nil {
		return err
	}
	return web.Answer(c, http.StatusOK, "application/yaml", text.yaml)
}

func (p pages) openapiJSON(c echo.Context, _ *nothing) error {
	text, err := p.describe()
	if err != nil {
		return err
	}
	return web.Answer(c, http.StatusOK, web.MIMEJSON, text.json)
}

func (p pages) docs(c echo.Context, _ *nothing) error {
	c.Response().Header().Set("Content-Security-Policy", docsPolicy)
	return web.Answer(c, http.StatusOK, web.MIMEHTML+"; charset=utf-8", docsIndex)
}

type docsFile struct {
	Name string `path:"file" doc:"name of the file"`
}

func (p pages) file(c echo.Context, in *docsFile) error {
	name := in.Name
	h := c.Response().Header()
	h.Set("Cache-Control", "max-age=3600")
	if name == "page.js" {
		return web.Answer(c, http.StatusOK, docsAssets["swagger-ui-bundle.js"], docsScript)
	}
	kind, known := docsAssets[name]
	if !known {
		return web.RouteNotFound()
	}
	if text, err := static.FS.ReadFile(name); err == nil { // the icon, which is not compressed
		return web.Answer(c, http.StatusOK, kind, text)
	}
	zipped, err := static.FS.ReadFile(name + ".gz")
	if err != nil {
		return err
	}
	h.Set(echo.HeaderVary, echo.HeaderAcceptEncoding)
	if strings.Contains(c.Request().Header.Get(echo.HeaderAcceptEncoding), "gzip") {
		h.Set(echo.HeaderContentEncoding, "gzip")
		return web.Answer(c, http.StatusOK, kind, zipped)
	}
	text, err := unzipped(name, zipped)
	if err != nil {
		return err
	}
	return web.Answer(c, http.StatusOK, kind, text)
}

var unzippedAssets sync.Map // by name

// unzipped returns the uncompressed file, for the few clients that do not accept gzip.
func unzipped(name string, zipped []byte) ([]byte, error) {
	if text, ok := unzippedAssets.Load(path.Base(name)); ok {
		return text.([]byte), nil
	}
	z, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(z)
	if err == nil {
		unzippedAssets.Store(path.Base(name), text)
	}
	return text, err
}
