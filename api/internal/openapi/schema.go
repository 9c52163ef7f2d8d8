package openapi

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Schema describes a JSON value. Numbers have the text that their tags have.
type Schema struct {
	Ref                   string         `json:"$ref,omitzero"`
	Type                  Types          `json:"type,omitzero"`
	Description           string         `json:"description,omitzero"`
	Const                 any            `json:"const,omitzero"`
	Enum                  []any          `json:"enum,omitzero"`
	Format                string         `json:"format,omitzero"`
	ContentEncoding       string         `json:"contentEncoding,omitzero"`
	Minimum               jsontext.Value `json:"minimum,omitzero"`
	Maximum               jsontext.Value `json:"maximum,omitzero"`
	MinLength             jsontext.Value `json:"minLength,omitzero"`
	MaxLength             jsontext.Value `json:"maxLength,omitzero"`
	Pattern               string         `json:"pattern,omitzero"`
	Items                 *Schema        `json:"items,omitzero"`
	MinItems              jsontext.Value `json:"minItems,omitzero"`
	MaxItems              jsontext.Value `json:"maxItems,omitzero"`
	UniqueItems           bool           `json:"uniqueItems,omitzero"`
	MaxProperties         jsontext.Value `json:"maxProperties,omitzero"`
	PropertyNames         *Schema        `json:"propertyNames,omitzero"`
	Required              []string       `json:"required,omitzero"`
	Properties            Ordered        `json:"properties,omitzero"`
	AdditionalProperties  any            `json:"additionalProperties,omitzero"` // false, or a *Schema
	UnevaluatedProperties any            `json:"unevaluatedProperties,omitzero"`
	OneOf                 []*Schema      `json:"oneOf,omitzero"`
	AnyOf                 []*Schema      `json:"anyOf,omitzero"`
	AllOf                 []*Schema      `json:"allOf,omitzero"`
	Not                   *Schema        `json:"not,omitzero"`
}

// Types are the types that a value can have.
type Types []string

// MarshalJSONTo writes a single type as a string.
func (t Types) MarshalJSONTo(e *jsontext.Encoder) error {
	if len(t) == 1 {
		return e.WriteToken(jsontext.String(t[0]))
	}
	return json.MarshalEncode(e, []string(t))
}

// Ordered are named schemas in the order of a document.
type Ordered []Property

// Property is a named schema.
type Property struct {
	Name   string
	Schema *Schema
}

// MarshalJSONTo writes an object.
func (o Ordered) MarshalJSONTo(e *jsontext.Encoder) error {
	if err := e.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, p := range o {
		if err := e.WriteToken(jsontext.String(p.Name)); err != nil {
			return err
		}
		if err := json.MarshalEncode(e, p.Schema); err != nil {
			return err
		}
	}
	return e.WriteToken(jsontext.EndObject)
}

// Of returns a schema of one type.
func Of(typ string) *Schema { return &Schema{Type: Types{typ}} }

// Ref returns a reference to a schema of the components.
func Ref(name string) *Schema { return &Schema{Ref: "#/components/schemas/" + name} }

// OrNull returns a schema that also allows null.
func (s *Schema) OrNull() *Schema {
	if s.Ref != "" || len(s.Type) == 0 {
		return &Schema{Description: s.Description, OneOf: []*Schema{{Ref: s.Ref, OneOf: s.OneOf, AnyOf: s.AnyOf}, Of("null")}}
	}
	s.Type = append(s.Type, "null")
	if s.Enum != nil {
		s.Enum = append(s.Enum, nil)
	}
	return s
}
