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
)

// The API's description, and a page that shows it. The page is Swagger UI, whose files come with the binary, so that it
// works where there is no way to the internet.
var (
	//go:embed openapi.yaml
	openapiText []byte
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

// docsPolicy has the page load from this server alone. Swagger UI sets styles of elements, and draws its icons from
// data.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// openapi answers GET /openapi.yaml.
func (s *Server) openapi(c echo.Context) error {
	return answer(c, http.StatusOK, "application/yaml", openapiText)
}

// docs answers GET /docs.
func (s *Server) docs(c echo.Context) error {
	c.Response().Header().Set("Content-Security-Policy", docsPolicy)
	return answer(c, http.StatusOK, mimeHTML+"; charset=utf-8", docsIndex)
}

// docsFile answers GET /docs/{file}.
func (s *Server) docsFile(c echo.Context) error {
	name := c.Param("file")
	h := c.Response().Header()
	h.Set("Cache-Control", "max-age=3600")
	if name == "page.js" {
		return answer(c, http.StatusOK, docsAssets["swagger-ui-bundle.js"], docsScript)
	}
	kind, known := docsAssets[name]
	if !known {
		return routeNotFound()
	}
	if text, err := static.FS.ReadFile(name); err == nil { // a picture
		return answer(c, http.StatusOK, kind, text)
	}
	zipped, err := static.FS.ReadFile(name + ".gz")
	if err != nil {
		return err
	}
	h.Set(echo.HeaderVary, echo.HeaderAcceptEncoding)
	if strings.Contains(c.Request().Header.Get(echo.HeaderAcceptEncoding), "gzip") {
		h.Set(echo.HeaderContentEncoding, "gzip")
		return answer(c, http.StatusOK, kind, zipped)
	}
	text, err := unzipped(name, zipped)
	if err != nil {
		return err
	}
	return answer(c, http.StatusOK, kind, text)
}

var unzippedAssets sync.Map // by name

// unzipped returns a file as it was before it was compressed, for the few clients that do not take gzip.
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
