package api

import (
	"bytes"
	_ "embed"
	"io"
	"net/http"
	"path"
	"reflect"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/labstack/echo/v4"
	"github.com/swaggest/swgui/v5/static"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/job"
)

// The description of the API, and a page that shows it. The page is Swagger UI. Its files are part of the binary, so
// the page works without a connection to the internet.
var (
	//go:embed openapi.yaml
	describedByHand []byte
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

var generated struct {
	once sync.Once
	text []byte
	err  error
}

// described returns the description of all routes: openapi.yaml, with the operations that are derived from the types of
// their functions.
func described() ([]byte, error) {
	generated.once.Do(func() { generated.text, generated.err = describe() })
	return generated.text, generated.err
}

func describe() ([]byte, error) {
	schemas := openapi.Schemas{
		Known: map[reflect.Type]string{reflect.TypeFor[job.ID](): "Id", reflect.TypeFor[answer.Counts](): "Counts"},
		Named: map[reflect.Type]string{reflect.TypeFor[registry.Stats](): "RunnerStats", reflect.TypeFor[registry.Counts](): "RunnerCounts"},
	}
	var operations []*openapi.Operation
	for _, r := range append((&Server{}).routes(), (&Server{}).getSwitches()...) {
		if r.describe != nil {
			operations = append(operations, r.describe(&schemas))
		}
	}
	return openapi.Document(describedByHand, operations, &schemas)
}

// openapi answers GET /openapi.yaml.
func (s *Server) openapi(c echo.Context) error {
	text, err := described()
	if err != nil {
		return err
	}
	return web.Answer(c, http.StatusOK, "application/yaml", text)
}

// docs answers GET /docs.
func (s *Server) docs(c echo.Context) error {
	c.Response().Header().Set("Content-Security-Policy", docsPolicy)
	return web.Answer(c, http.StatusOK, web.MIMEHTML+"; charset=utf-8", docsIndex)
}

// docsFile answers GET /docs/{file}.
func (s *Server) docsFile(c echo.Context) error {
	name := c.Param("file")
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
