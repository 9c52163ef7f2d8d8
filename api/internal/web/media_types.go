package web

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job/runs"
)

const (
	MIMEJSON   = "application/json"
	MIMENDJSON = "application/x-ndjson"
	MIMEText   = "text/plain"
	MIMEHTML   = "text/html"
	MIMETOML   = "application/toml"

	// Some routes can answer with JSON of two shapes. Each shape has its media type, so that clients with static types
	// know which shape they got.
	MIMEClaim = "application/vnd.daybook.claim+json" // a claim from POST /jobs/claim; a single job is MIMEJSON
	MIMEBatch = "application/vnd.daybook.batch+json" // a batch from POST /jobs/create; a single job is MIMEJSON
	MIMETypes = "application/vnd.daybook.types+json" // types from GET /queues?waiting=true; queues are MIMEJSON
)

// CheckContentType refuses a body whose media type is not one of types.
func CheckContentType(header []string, types []string) error {
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
	return &Problem{Status: http.StatusUnsupportedMediaType, Code: CodeUnsupported,
		Field: echo.HeaderContentType, Detail: "this route requires Content-Type: " + strings.Join(types, " or ")}
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
	return false, &Problem{Status: http.StatusUnsupportedMediaType, Code: CodeUnsupported,
		Field: echo.HeaderContentEncoding, Detail: "Content-Encoding must be gzip or identity"}
}

// FormOf returns the media type of a body that CheckContentType accepted: JSON, NDJSON, runs or TOML.
func FormOf(r *http.Request) string {
	name, _, _ := strings.Cut(r.Header.Get(echo.HeaderContentType), ";")
	if name = strings.ToLower(strings.TrimSpace(name)); name == MIMENDJSON || name == MIMERuns || name == MIMETOML {
		return name
	}
	return MIMEJSON
}

// Prefers reports whether the Accept header names kind before it names JSON.
func Prefers(r *http.Request, kind string) bool { return Preferred(r, kind) == kind }

// Preferred returns the media type of kinds that the Accept header names first, or "" if it names none of them before
// JSON.
func Preferred(r *http.Request, kinds ...string) string {
	for _, header := range r.Header[echo.HeaderAccept] {
		for header != "" {
			var item string
			item, header, _ = strings.Cut(header, ",")
			name, _, _ := strings.Cut(item, ";")
			name = strings.ToLower(strings.TrimSpace(name))
			switch {
			case slices.Contains(kinds, name):
				return name
			case name == MIMEJSON, name == MIMEClaim, name == MIMEBatch, name == MIMETypes:
				return ""
			}
		}
	}
	return ""
}

// PrefersEach reports whether the client sent Prefer: results=each (RFC 7240), to get one result per position.
func PrefersEach(r *http.Request) bool {
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

const MIMERuns = runs.MediaType
