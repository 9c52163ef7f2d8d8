package openapi

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// Operation describes a method of a path.
type Operation struct {
	Method string `json:"-"`
	Path   string `json:"-"` // with parameters such as {id}

	ID          string      `json:"operationId"`
	Summary     string      `json:"summary"`
	Tags        []string    `json:"tags"`
	Description string      `json:"description,omitzero"`
	Deprecated  bool        `json:"deprecated,omitzero"`
	Parameters  []Parameter `json:"parameters,omitzero"`
	Body        *Body       `json:"requestBody,omitzero"`
	Responses   Responses   `json:"responses"`
}

// Parameter describes a parameter of a request, or refers to a parameter of the components.
type Parameter struct {
	Ref         string  `json:"$ref,omitzero"`
	Name        string  `json:"name,omitzero"`
	In          string  `json:"in,omitzero"` // path, query or header
	Required    bool    `json:"required,omitzero"`
	Description string  `json:"description,omitzero"`
	Style       string  `json:"style,omitzero"`   // without it, the default of OpenAPI
	Explode     *bool   `json:"explode,omitzero"` // false: the elements of a list are separated by commas
	Schema      *Schema `json:"schema,omitzero"`
}

// Body describes the body of a request.
type Body struct {
	Required    bool             `json:"required"`
	Description string           `json:"description,omitzero"`
	Content     map[string]Media `json:"content"` // by media type
}

// Media describes a text of a media type.
type Media struct {
	Schema  *Schema `json:"schema,omitzero"`
	Example string  `json:"example,omitzero"`
}

// Shape returns the description of a text of a media type.
type Shape func(s *Schemas) Media

// JSON is the shape of a value that is encoded as JSON.
func JSON[T any](use Use) Shape {
	return func(s *Schemas) Media { return Media{Schema: s.Value(reflect.TypeFor[T](), use)} }
}

// Plain is the shape of a text that a schema describes.
func Plain(schema *Schema) Shape { return func(*Schemas) Media { return Media{Schema: schema} } }

// OneOf is the shape of a text that has one of several shapes.
func OneOf(shapes ...Shape) Shape {
	return func(s *Schemas) Media {
		either := &Schema{}
		for _, shape := range shapes {
			either.OneOf = append(either.OneOf, shape(s).Schema)
		}
		return Media{Schema: either}
	}
}

// ListOf is the shape of a JSON array or of JSON lines.
func ListOf(item Shape) Shape {
	return func(s *Schemas) Media { return Media{Schema: &Schema{Type: Types{"array"}, Items: item(s).Schema}} }
}

// Like adds an example.
func (shape Shape) Like(example string) Shape {
	return func(s *Schemas) Media {
		m := shape(s)
		m.Example = example
		return m
	}
}

// Response describes an answer, or refers to a response of the components.
type Response struct {
	Ref         string            `json:"$ref,omitzero"`
	Description string            `json:"description,omitzero"`
	Headers     map[string]Header `json:"headers,omitzero"`
	Content     map[string]Media  `json:"content,omitzero"`
}

// Header describes a header of an answer, or refers to a header of the components.
type Header struct {
	Ref         string  `json:"$ref,omitzero"`
	Description string  `json:"description,omitzero"`
	Schema      *Schema `json:"schema,omitzero"`
}

// Responses are responses by status.
type Responses map[int]*Response

// MarshalJSONTo writes an object whose names are the statuses.
func (r Responses) MarshalJSONTo(e *jsontext.Encoder) error {
	if err := e.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	var statuses []int
	for status := range r {
		statuses = append(statuses, status)
	}
	slices.Sort(statuses)
	for _, status := range statuses {
		if err := e.WriteToken(jsontext.String(strconv.Itoa(status))); err != nil {
			return err
		}
		if err := json.MarshalEncode(e, r[status]); err != nil {
			return err
		}
	}
	return e.WriteToken(jsontext.EndObject)
}

// paths are operations by path and method, in the order in which they were given.
type paths []*Operation

// MarshalJSONTo writes an object of paths.
func (p paths) MarshalJSONTo(e *jsontext.Encoder) error {
	if err := e.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	written := map[string]bool{}
	for _, op := range p {
		if written[op.Path] {
			continue
		}
		written[op.Path] = true
		item := map[string]*Operation{}
		for _, other := range p {
			if method := strings.ToLower(other.Method); other.Path == op.Path {
				if item[method] != nil {
					return fmt.Errorf("the description has %s %s twice", other.Method, other.Path)
				}
				item[method] = other
			}
		}
		if err := e.WriteToken(jsontext.String(op.Path)); err != nil {
			return err
		}
		if err := json.MarshalEncode(e, item, json.Deterministic(true)); err != nil {
			return err
		}
	}
	return e.WriteToken(jsontext.EndObject)
}

// Head is the part of a document that describes no single operation.
type Head struct {
	Title, Version, Summary, Description string

	Server    string   // its address
	ServerIs  string   // its description
	Tags      []string // in the order of a page
	Headers   map[string]Header
	Responses map[string]*Response
}

// Document returns a document as YAML and as JSON. It fails if two operations have the same method and path.
func Document(h *Head, operations []*Operation, schemas *Schemas) (inYAML, inJSON []byte, err error) {
	type named struct {
		Name string `json:"name"`
	}
	type server struct {
		URL         string `json:"url"`
		Description string `json:"description"`
	}
	var d struct {
		OpenAPI string `json:"openapi"`
		Info    struct {
			Title       string `json:"title"`
			Version     string `json:"version"`
			Summary     string `json:"summary"`
			Description string `json:"description"`
		} `json:"info"`
		Servers    []server `json:"servers"`
		Tags       []named  `json:"tags"`
		Paths      paths    `json:"paths"`
		Components struct {
			Schemas    Ordered              `json:"schemas"`
			Parameters map[string]Parameter `json:"parameters,omitzero"`
			Headers    map[string]Header    `json:"headers"`
			Responses  map[string]*Response `json:"responses"`
		} `json:"components"`
	}
	d.OpenAPI, d.Paths = "3.1.0", operations
	if d.Components.Parameters, err = sharedParameters(operations); err != nil {
		return nil, nil, err
	}
	d.Info.Title, d.Info.Version, d.Info.Summary, d.Info.Description = h.Title, h.Version, h.Summary, h.Description
	d.Servers = []server{{h.Server, h.ServerIs}}
	for _, tag := range h.Tags {
		d.Tags = append(d.Tags, named{tag})
	}
	d.Components.Schemas, d.Components.Headers, d.Components.Responses = schemas.Components(), h.Headers, h.Responses
	made, err := json.Marshal(&d, json.Deterministic(true))
	if err != nil {
		return nil, nil, fmt.Errorf("encode the description: %w", err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(made, &document); err != nil {
		return nil, nil, fmt.Errorf("read the description: %w", err)
	}
	style(&document)
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(&document); err != nil {
		return nil, nil, fmt.Errorf("write the description: %w", err)
	}
	return out.Bytes(), made, nil
}

// sharedParameters replaces parameters that several operations have by references, and returns them by name. Of two different
// parameters with one name and place, the one that more operations have is shared.
func sharedParameters(operations []*Operation) (map[string]Parameter, error) {
	const least = 3
	uses, most := map[string]int{}, map[string]string{} // by text, and the text by name
	text := func(p *Parameter) (string, error) {
		text, err := json.Marshal(p, json.Deterministic(true))
		return string(text), err
	}
	name := func(p *Parameter) string { return p.In + "." + p.Name }
	for _, op := range operations {
		for i := range op.Parameters {
			p := &op.Parameters[i]
			of, err := text(p)
			if err != nil {
				return nil, fmt.Errorf("encode parameter %s: %w", p.Name, err)
			}
			if uses[of]++; uses[of] > uses[most[name(p)]] {
				most[name(p)] = of
			}
		}
	}
	shared := map[string]Parameter{}
	for _, op := range operations {
		for i := range op.Parameters {
			p := &op.Parameters[i]
			of, err := text(p)
			if err != nil {
				return nil, fmt.Errorf("encode parameter %s: %w", p.Name, err)
			}
			if at := name(p); uses[of] >= least && most[at] == of {
				shared[at], *p = *p, Parameter{Ref: "#/components/parameters/" + at}
			}
		}
	}
	return shared, nil
}

// style writes long texts as blocks, lists of texts and numbers without a line for each, and short objects in one line.
func style(n *yaml.Node) {
	const most = 80
	n.Style = 0
	if n.Kind == yaml.ScalarNode {
		if strings.Contains(n.Value, "\n") {
			n.Style = yaml.LiteralStyle
		}
		return
	}
	short, bytes := true, 0
	for _, part := range n.Content {
		style(part)
		short = short && part.Kind == yaml.ScalarNode && part.Style == 0
		bytes += len(part.Value) + len(", ")
	}
	if short && (bytes <= most || n.Kind == yaml.SequenceNode) {
		n.Style = yaml.FlowStyle
	}
}

// Header adds a header of the components to a response.
func (r *Response) Header(name string) {
	if r.Headers == nil {
		r.Headers = map[string]Header{}
	}
	r.Headers[name] = Header{Ref: "#/components/headers/" + name}
}
