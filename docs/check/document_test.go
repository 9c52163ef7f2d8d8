//go:build unix

package check

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/daybookq/daybook/internal/testkit"
)

// pageOfAPI is the page whose headings name routes.
const pageOfAPI = "docs/reference/api.md"

var (
	route         = regexp.MustCompile(`\b(GET|POST|PUT|PATCH|DELETE) (/[^\s?,` + "`" + `]*)`)
	pathParameter = regexp.MustCompile(`\{[^}]*\}`)
)

// described is the description of the API.
var described = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromFile(filepath.Join("..", "..", "api", "testdata", "openapi.yaml"))
})

// checkDocument checks a block of JSON with the value v, if its note or its heading names its routes.
func checkDocument(p *page, b block, v any) error {
	where := cmp.Or(b.request, b.answer)
	if where == "" && p.path == pageOfAPI {
		where = b.heading
	}
	routes := route.FindAllStringSubmatch(where, -1)
	if len(routes) == 0 {
		if b.request != "" || b.answer != "" {
			return fmt.Errorf("the comment does not name a method and a path: %s", where)
		}
		return nil
	}
	doc, err := described()
	if err != nil {
		return err
	}
	var faults []error
	for _, r := range routes {
		schemas, err := schemasOf(doc, r[1], r[2], b.request != "")
		if err != nil {
			return err
		}
		for name, schema := range schemas {
			err := schema.VisitJSON(v, openapi3.EnableJSONSchema2020())
			if err == nil {
				return nil
			}
			reason, _, _ := strings.Cut(err.Error(), "\nSchema:") // the schema and the value follow
			faults = append(faults, fmt.Errorf("it is not the %s: %s", name, reason))
		}
	}
	return errors.Join(append([]error{fmt.Errorf("%s has no such JSON", where)}, faults...)...)
}

// schemasOf returns the schemas of the JSON that a route takes or answers, by status or request and by media type.
func schemasOf(doc *openapi3.T, method, path string, request bool) (map[string]*openapi3.Schema, error) {
	schemas := map[string]*openapi3.Schema{}
	add := func(of string, content openapi3.Content) {
		for media, c := range content {
			if c.Schema == nil || !strings.Contains(media, "json") {
				continue
			}
			schema := c.Schema.Value
			if media == "application/x-ndjson" && schema.Items != nil {
				schema = schema.Items.Value
			}
			schemas[of+" as "+media] = schema
		}
	}
	for described, item := range doc.Paths.Map() {
		if pathParameter.ReplaceAllString(described, "{}") != pathParameter.ReplaceAllString(path, "{}") {
			continue
		}
		operation := item.GetOperation(method)
		switch {
		case operation == nil:
		case !request:
			for status, answer := range operation.Responses.Map() {
				add("answer "+status, answer.Value.Content)
			}
		case operation.RequestBody != nil:
			add("request", operation.RequestBody.Value.Content)
		}
	}
	if len(schemas) == 0 {
		return nil, fmt.Errorf("the description of the API has no JSON for %s %s", method, path)
	}
	return schemas, nil
}

// TestDocuments: the JSON that a page may show, by its heading and its notes.
func TestDocuments(t *testing.T) {
	api, other := &page{path: pageOfAPI}, &page{path: "docs/reference/other.md"}
	const batch = `{"batch_id":null,"count":0,"first_id":null,"last_id":null}`
	for _, c := range []struct {
		p    *page
		b    block
		json string
		want string // of the error, or ""
	}{
		{api, block{heading: "POST /jobs/create"}, batch, ""},
		{other, block{heading: "POST /jobs/create"}, `{"no":1}`, ""},
		{api, block{heading: "Several jobs"}, `{"no":1}`, ""},
		{api, block{heading: "POST /{client}/job/{kind}/add, POST /add?jobtype=&client="}, `{"batch_id":null,"count":0,"first_id":null,"last_id":null,"job_ids":[]}`, ""},
		{api, block{heading: "POST /jobs/create"}, `{"batch_id":null,"count":0,"first_id":null,"last_id":null,"jobs":1}`, "no such JSON"},
		{api, block{heading: "POST /jobs/create"}, `{"batch_id":null,"count":0,"first_id":null}`, "no such JSON"},
		{api, block{heading: "POST /jobs/create"}, `{"batch_id":"…","count":0,"first_id":null,"last_id":null}`, "no such JSON"},
		{api, block{heading: "POST /jobs/create"}, `{"payload":1}`, "no such JSON"},
		{other, block{request: "POST /jobs/create"}, `{"payload":1}`, ""},
		{other, block{request: "POST /jobs/create"}, `{"payloads":1}`, "no such JSON"},
		{other, block{answer: "POST /jobs/create"}, batch, ""},
		{other, block{answer: "POST /jobs/make"}, batch, "has no JSON for POST /jobs/make"},
		{other, block{answer: "the batch"}, batch, "does not name"},
	} {
		var v any
		testkit.NoError(t, json.Unmarshal([]byte(c.json), &v))
		if err := checkDocument(c.p, c.b, v); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v %s: %v, want %q", c.b, c.json, err, c.want)
		}
	}
}
