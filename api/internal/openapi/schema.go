package openapi

import (
	"strconv"

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

// Integer returns the schema of a whole number of a range.
func Integer(lo, hi int64) *Schema {
	return &Schema{Type: Types{"integer"}, Minimum: numeral(lo), Maximum: numeral(hi)}
}

// Text returns the schema of a text with a length of a range.
func Text(lo, hi int64) *Schema {
	return &Schema{Type: Types{"string"}, MinLength: numeral(lo), MaxLength: numeral(hi)}
}

func numeral(n int64) jsontext.Value { return jsontext.Value(strconv.FormatInt(n, 10)) }

// Pattern returns the schema of a text with a pattern.
func Pattern(pattern string) *Schema { return &Schema{Type: Types{"string"}, Pattern: pattern} }

// Enum returns the schema of a text that is one of several.
func Enum(values ...string) *Schema {
	s := Of("string")
	for _, v := range values {
		s.Enum = append(s.Enum, v)
	}
	return s
}

// Const returns the schema of a value that is always the same.
func Const(v any) *Schema { return &Schema{Const: v} }

// List returns the schema of a list.
func List(items *Schema) *Schema { return &Schema{Type: Types{"array"}, Items: items} }

// AnyOf returns the schema of a value that has at least one of several schemas.
func AnyOf(list ...*Schema) *Schema { return &Schema{AnyOf: list} }

// Either returns the schema of a value that has one of several schemas.
func Either(list ...*Schema) *Schema { return &Schema{OneOf: list} }

// As adds a description.
func (s *Schema) As(text string) *Schema {
	s.Description = text
	return s
}

// With returns a schema of an object that has a property with each schema.
func With(properties ...Property) *Schema {
	s := &Schema{Properties: properties}
	for _, p := range properties {
		s.Required = append(s.Required, p.Name)
	}
	return s
}

// NotBoth refuses an object in which both properties are there and not null.
func (s *Schema) NotBoth(a, b string) {
	there := &Schema{Not: Of("null")}
	s.AllOf = append(s.AllOf, &Schema{Not: With(Property{a, there}, Property{b, there})})
}

// Property returns the property of an object with a name, which can be changed.
func (s *Schema) Property(name string) *Property {
	for i := range s.Properties {
		if s.Properties[i].Name == name {
			return &s.Properties[i]
		}
	}
	panic("openapi: no property " + name)
}

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
