package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/daybookq/daybook/api/internal/web"
)

// bodySchemas checks bodies of JSON. It compiles each schema of the description once; the library openapi3filter would compile it again
// for each body, and all that it refers to.
type bodySchemas struct {
	mu       sync.Mutex // guards both; a compiled schema can be used at once by several tests
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

const describedAt = "http://localhost/openapi.json"

func newBodySchemas(doc *openapi3.T) (*bodySchemas, error) {
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	s := &bodySchemas{compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	s.compiler.DefaultDraft(jsonschema.Draft2020)
	s.compiler.AssertFormat()
	return s, s.compiler.AddResource(describedAt, whole)
}

// pointer joins the parts of a JSON pointer.
func pointer(parts ...string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", "{", "%7B", "}", "%7D", "^", "%5E")
	all := "#"
	for _, part := range parts {
		all += "/" + escape.Replace(part)
	}
	return all
}

// holds compares a body with the schema of its Content-Type, in the request or answer that content describes. ref is the component that
// describes it, or "" if parts are its place. checked is false if the body is no JSON, or lines of it, or its Content-Type has no schema.
func (s *bodySchemas) holds(ref string, parts []string, content openapi3.Content, contentType string, body []byte) (checked bool, err error) {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil || !strings.HasSuffix(kind, "json") || content[kind] == nil {
		return false, nil
	}
	schema, err := s.schema(cmp.Or(ref, pointer(parts...)) + strings.TrimPrefix(pointer("content", kind, "schema"), "#"))
	if err != nil {
		return true, err
	}
	lines, err := decodeLines(bytes.NewReader(body), nil, nil, nil)
	if err != nil {
		return true, err
	}
	if kind == web.MIMENDJSON { // it is described as the list of its lines
		return true, schema.Validate(lines)
	}
	for _, v := range lines.([]any) { // an output can have several, as its job wrote it
		if err := schema.Validate(v); err != nil {
			return true, err
		}
	}
	return true, nil
}

// schema returns the compiled schema at a place of the description.
func (s *bodySchemas) schema(place string) (schema *jsonschema.Schema, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if schema = s.compiled[place]; schema != nil {
		return schema, nil
	}
	if schema, err = s.compiler.Compile(describedAt + place); err != nil {
		return nil, fmt.Errorf("the schema at %s: %w", place, err)
	}
	s.compiled[place] = schema
	return schema, nil
}
