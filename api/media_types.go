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

	// JSON, of routes whose answer has another shape as well: a media type has one shape, so that typed clients know
	// which it is.
	mimeClaim = "application/vnd.daybook.claim+json" // of POST /jobs/claim, where a single job is mimeJSON
	mimeBatch = "application/vnd.daybook.batch+json" // of POST /jobs/create, where a single job is mimeJSON
	mimeTypes = "application/vnd.daybook.types+json" // of GET /queues?waiting=true, where queues are mimeJSON
)

// checkContentType refuses a body that is not of one of the types.
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
		field: echo.HeaderContentEncoding, detail: "a body may be gzip or not encoded at all"}
}

// isNDJSON reports whether a body that checkContentType let pass is lines.
func isNDJSON(r *http.Request) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(r.Header.Get(echo.HeaderContentType))), mimeNDJSON)
}

// prefers reports whether the Accept header names kind, and before JSON.
func prefers(r *http.Request, kind string) bool {
	for _, header := range r.Header[echo.HeaderAccept] {
		for header != "" {
			var item string
			item, header, _ = strings.Cut(header, ",")
			name, _, _ := strings.Cut(item, ";")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case kind:
				return true
			case mimeJSON, mimeClaim, mimeBatch, mimeTypes:
				return false
			}
		}
	}
	return false
}

// prefersEach reports whether the client prefers one result per position (RFC 7240).
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
