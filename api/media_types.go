package api

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

const (
	mimeJSON   = "application/json"
	mimeNDJSON = "application/x-ndjson"
	mimeText   = "text/plain"
	mimeHTML   = "text/html"
	mimeTOML   = "application/toml"

	// Some routes can answer with JSON of two shapes. Each shape has its media type, so that clients with static types
	// know which shape they got.
	mimeClaim = "application/vnd.daybook.claim+json" // a claim from POST /jobs/claim; a single job is mimeJSON
	mimeBatch = "application/vnd.daybook.batch+json" // a batch from POST /jobs/create; a single job is mimeJSON
	mimeTypes = "application/vnd.daybook.types+json" // types from GET /queues?waiting=true; queues are mimeJSON
)

// checkContentType refuses a body whose media type is not one of types.
func checkContentType(header []string, types []string) error {
	if len(header) == 1 {
		if slices.Contains(types, header[0]) {
			return nil
		}
		kind, params, err := mime.ParseMediaType(header[0])
		charset, named := params["charset"]
		if err == nil && slices.Contains(types, kind) && (!named || strings.EqualFold(charset, "utf-8")) {
			return nil
		}
	}
	return &problem{status: http.StatusUnsupportedMediaType, code: codeUnsupported,
		field: echo.HeaderContentType, detail: "this route requires Content-Type: " + strings.Join(types, " or ")}
}

func isGzip(encoding []string) (bool, error) {
	if len(encoding) == 0 {
		return false, nil
	}
	if len(encoding) == 1 {
		switch strings.ToLower(strings.TrimSpace(encoding[0])) {
		case "gzip", "x-gzip":
			return true, nil
		case "identity", "":
			return false, nil
		}
	}
	return false, &problem{status: http.StatusUnsupportedMediaType, code: codeUnsupported,
		field: echo.HeaderContentEncoding, detail: "Content-Encoding must be gzip or identity"}
}

// formOf returns the media type of a body that checkContentType accepted: JSON, NDJSON, runs or TOML.
func formOf(r *http.Request) string {
	name, _, _ := strings.Cut(r.Header.Get(echo.HeaderContentType), ";")
	if name = strings.ToLower(strings.TrimSpace(name)); name == mimeNDJSON || name == mimeRuns || name == mimeTOML {
		return name
	}
	return mimeJSON
}

// prefers reports whether the Accept header names kind before it names JSON.
func prefers(r *http.Request, kind string) bool { return preferred(r, kind) == kind }

// preferred returns the media type of kinds that the Accept header names first, or "" if it names none of them before
// JSON.
func preferred(r *http.Request, kinds ...string) string {
	for _, header := range r.Header[echo.HeaderAccept] {
		for header != "" {
			var item string
			item, header, _ = strings.Cut(header, ",")
			name, _, _ := strings.Cut(item, ";")
			name = strings.ToLower(strings.TrimSpace(name))
			switch {
			case slices.Contains(kinds, name):
				return name
			case name == mimeJSON, name == mimeClaim, name == mimeBatch, name == mimeTypes:
				return ""
			}
		}
	}
	return ""
}

// prefersEach reports whether the client sent Prefer: results=each (RFC 7240), to get one result per position.
func prefersEach(r *http.Request) bool {
	for _, header := range r.Header["Prefer"] {
		for preference := range strings.SplitSeq(header, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, value, _ := strings.Cut(strings.TrimSpace(preference), "=")
			if strings.EqualFold(strings.TrimSpace(name), "results") && strings.Trim(strings.TrimSpace(value), `"`) == "each" {
				return true
			}
		}
	}
	return false
}
