package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
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

// described returns the place of the schema of a JSON body with a Content-Type, in the content at a place of the description. ok is false
// if it is not JSON.
func described(content openapi3.Content, at, contentType string) (place string, ok bool) {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil || !strings.HasSuffix(kind, "json") || content[kind] == nil {
		return "", false
	}
	return at + strings.TrimPrefix(pointer("content", kind, "schema"), "#"), true
}

// check compares a body with the schema at a place of the description.
func (s *bodySchemas) check(place string, body []byte) error {
	s.mu.Lock()
	schema, err := s.compiled[place], error(nil)
	if schema == nil {
		if schema, err = s.compiler.Compile(describedAt + place); err == nil {
			s.compiled[place] = schema
		}
	}
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("the schema at %s: %w", place, err)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	values := []any{}
	for {
		var v any
		if err := d.Decode(&v); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		values = append(values, v)
	}
	if strings.Contains(place, "ndjson") { // it is described as the list of its lines
		return schema.Validate(values)
	}
	for _, v := range values { // of an output that is no JSON; the others have one
		if err := schema.Validate(v); err != nil {
			return err
		}
	}
	return nil
}
