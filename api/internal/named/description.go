package named

import (
	"net/http"

	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/web"
)

// PutHeaders and DeleteHeaders describe the headers that Change reads.
type (
	PutHeaders struct {
		DeleteHeaders
		IfNone string `header:"If-None-Match" enum:"*" doc:"with *: the change is made only if there is none of the name. Otherwise: 412 version_differs"`
	}
	DeleteHeaders struct {
		IfMatch string `header:"If-Match" doc:"The change is made only if the newest version has this tag: its number, or the digest of what was stored, in double quotes. With *, only if it exists. Otherwise: 412 version_differs"`
		By      string `header:"Daybook-By" minLength:"1" maxLength:"128" doc:"who makes the change, for the history; the server does not check it. If the request has a key, the history has the name of the key instead"`
	}
	// ListQuery describes the parameters of a list.
	ListQuery struct {
		Limit int    `query:"limit" minimum:"1" maximum:"1000" doc:"maximum number of items of a page; default: 1000"`
		After string `query:"after" doc:"next of the previous page"`
		ReadHeaders
	}
	// ReadHeaders describes the headers of a read.
	ReadHeaders struct {
		IfNoneMatch string `header:"If-None-Match" doc:"the ETag of an earlier answer; the answer is 304 if the document still has this ETag"`
		MinSeq      uint64 `header:"Daybook-Min-Seq" doc:"the Daybook-Seq of an earlier answer; the server waits until its state includes that change"`
	}
	// VersionQuery describes the parameter that selects a version.
	VersionQuery struct {
		Version int `query:"version" minimum:"1" doc:"which version; default: the newest"`
	}
)

// SameDocument is the answer if the client has the document already.
var SameDocument = operation.Reply{Status: http.StatusNotModified, Text: "The document has the ETag of the request.", Headers: []string{"ETag"}}

// Read describes an answer with a tagged document.
func Read[T any](text string) []operation.Reply {
	return []operation.Reply{{Status: http.StatusOK, Text: text, Headers: []string{"ETag"}, Content: map[string]openapi.Shape{web.MIMEJSON: openapi.JSON[T](openapi.InAnswer)}}, SameDocument}
}

// Stored describes the answers to a change that stores a document.
func Stored[T any](same, stored string) []operation.Reply {
	headers, content := []string{"Daybook-Seq", "ETag"}, map[string]openapi.Shape{web.MIMEJSON: openapi.JSON[T](openapi.InAnswer)}
	return []operation.Reply{{Status: http.StatusOK, Text: same, Headers: headers, Content: content}, {Status: http.StatusCreated, Text: stored, Headers: append(headers, "Location"), Content: content}}
}

// Removed describes the answer to the deletion of a document.
func Removed(text string) []operation.Reply {
	return []operation.Reply{{Status: http.StatusNoContent, Text: text, Headers: []string{"Daybook-Seq"}}}
}
