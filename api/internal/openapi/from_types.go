package openapi

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Schemas derives schemas from Go types. The schemas of named structs are components.
type Schemas struct {
	// Known are the names of components that describe types which are not structs.
	Known map[reflect.Type]string
	// Named are the names of components whose types have names that say too little.
	Named map[reflect.Type]string
	// Rules add to the schema of a type what its fields have to do with each other.
	Rules map[reflect.Type]func(*Schema)

	sent  map[reflect.Type]string // as Named, in requests
	of    map[string]reflect.Type
	parts Ordered
}

// Use is whether a value is sent by a client or by the server.
type Use bool

const (
	InRequest Use = true
	InAnswer  Use = false
)

// Value returns the schema of a type.
func (s *Schemas) Value(t reflect.Type, use Use) *Schema {
	if name := s.Known[t]; name != "" {
		return Ref(name)
	}
	if t.Kind() != reflect.Pointer && t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return Of("string")
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.Value(t.Elem(), use).OrNull()
	case reflect.Bool:
		return Of("boolean")
	case reflect.String:
		return Of("string")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return Of("integer")
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &Schema{Type: Types{"integer"}, Minimum: jsontext.Value("0")}
	case reflect.Float32, reflect.Float64:
		return Of("number")
	case reflect.Interface:
		return &Schema{}
	case reflect.Slice:
		switch {
		case t == reflect.TypeFor[jsontext.Value]():
			return &Schema{}
		case t.Elem().Kind() == reflect.Uint8:
			return &Schema{Type: Types{"string"}, ContentEncoding: "base64"}
		}
		return &Schema{Type: Types{"array"}, Items: s.Value(t.Elem(), use)}
	case reflect.Map:
		return &Schema{Type: Types{"object"}, AdditionalProperties: s.Value(t.Elem(), use)}
	case reflect.Struct:
		return s.component(t, use)
	}
	panic(fmt.Sprintf("openapi: no schema for %v", t))
}

// component returns a reference to the schema of a named struct, and the schema of another struct.
func (s *Schemas) component(t reflect.Type, use Use) *Schema {
	name := s.name(t, use)
	if name == "" {
		return s.object(t, use)
	}
	if s.of == nil {
		s.of = map[string]reflect.Type{}
	}
	switch s.of[name] {
	case t:
	case nil:
		s.of[name] = t // before the fields, which can have the same type
		s.Define(name, s.object(t, use))
	default:
		panic(fmt.Sprintf("openapi: %v and %v are both named %s", t, s.of[name], name))
	}
	return Ref(name)
}

// name returns the name of a component: the name of the type without the word for its use. So sweepDocument describes a Sweep.
func (s *Schemas) name(t reflect.Type, use Use) string {
	if name := s.sent[t]; use == InRequest && name != "" {
		return name
	}
	name := cmp.Or(s.Named[t], t.Name())
	if name == "" {
		return ""
	}
	name = strings.ToUpper(name[:1]) + name[1:]
	if use == InRequest {
		return strings.TrimSuffix(name, "Request") + "Request"
	}
	return cmp.Or(strings.TrimSuffix(name, "Document"), name)
}

// Define adds a component.
func (s *Schemas) Define(name string, schema *Schema) {
	s.parts = append(s.parts, Property{name, schema})
}

// Components returns all components in the order of their names.
func (s *Schemas) Components() Ordered {
	slices.SortFunc(s.parts, func(a, b Property) int { return strings.Compare(a.Name, b.Name) })
	return s.parts
}

// object returns the schema of a struct.
func (s *Schemas) object(t reflect.Type, use Use) *Schema {
	o := &Schema{Type: Types{"object"}, AdditionalProperties: false}
	s.fields(o, t, use, false)
	return o
}

// Object returns the schema of an object with the fields of T, which is no component.
func Object[T any](s *Schemas, use Use) *Schema { return s.object(reflect.TypeFor[T](), use) }

// Part adds the component that describes a type, for types that only tags refer to.
func Part[T any](s *Schemas, use Use) { s.Value(reflect.TypeFor[T](), use) }

// Rule sets the rule of a type.
func Rule[T any](s *Schemas, rule func(o *Schema)) { set(&s.Rules, reflect.TypeFor[T](), rule) }

// Name sets the name of the component that describes a type.
func Name[T any](s *Schemas, use Use, name string) {
	if use == InRequest {
		set(&s.sent, reflect.TypeFor[T](), name)
	} else {
		set(&s.Named, reflect.TypeFor[T](), name)
	}
}

// Describe sets the schema of a type that is not encoded by its fields. It becomes the component with a name.
func Describe[T any](s *Schemas, name string, schema *Schema) {
	set(&s.Known, reflect.TypeFor[T](), name)
	s.Define(name, schema)
}

func set[V any](m *map[reflect.Type]V, t reflect.Type, v V) {
	if *m == nil {
		*m = map[reflect.Type]V{}
	}
	(*m)[t] = v
}

// fields adds the fields of a struct. Fields of an embedded struct belong to the struct, and are optional if it can be
// nil.
func (s *Schemas) fields(o *Schema, t reflect.Type, use Use, optional bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			if f.Type.Kind() == reflect.Pointer {
				s.fields(o, f.Type.Elem(), use, true)
			} else {
				s.fields(o, f.Type, use, optional)
			}
			continue
		case !f.IsExported() || name == "-" || name == "" || f.Tag.Get("describe") == "no":
			continue
		}
		o.Properties = append(o.Properties, Property{name, s.Field(f, use)})
		if use == InRequest && f.Tag.Get("required") == "true" || use == InAnswer && !optional && !strings.Contains(options, "omit") {
			o.Required = append(o.Required, name)
		}
	}
	if rule := s.Rules[t]; rule != nil {
		rule(o)
	}
}

// Field returns the schema of a field with its tags.
func (s *Schemas) Field(f reflect.StructField, use Use) *Schema {
	t, null := f.Type, f.Tag.Get("nullable") == "true"
	if t.Kind() == reflect.Pointer {
		t, null = t.Elem(), f.Tag.Get("nullable") != "false"
	}
	var schema *Schema
	switch of := f.Tag.Get("type"); {
	case of != "":
		schema = Ref(of)
	case f.Tag.Get("items") != "":
		schema = List(Ref(f.Tag.Get("items")))
	default:
		schema = s.Value(t, use)
	}
	element := schema
	values, labelled := schema.AdditionalProperties.(*Schema)
	switch {
	case schema.Items != nil:
		element = schema.Items
	case labelled:
		element = values
	}
	if name := f.Tag.Get("schema"); name != "" {
		*element = *Ref(name)
	}
	if f.Tag.Get("items") == "" {
		describe(element, f.Tag)
	}
	if schema.Items != nil {
		schema.MinItems, schema.MaxItems = number(f.Tag, "minItems"), number(f.Tag, "maxItems")
	}
	schema.MaxProperties = number(f.Tag, "maxProperties")
	if names := f.Tag.Get("names"); names != "" {
		schema.PropertyNames = &Schema{Pattern: names}
	}
	schema.Description = f.Tag.Get("doc")
	if null {
		schema = schema.OrNull()
	}
	return schema
}

// describe sets the bounds of a value.
func describe(s *Schema, tag reflect.StructTag) {
	s.Minimum, s.Maximum = first(number(tag, "minimum"), s.Minimum), first(number(tag, "maximum"), s.Maximum)
	s.MinLength, s.MaxLength = number(tag, "minLength"), number(tag, "maxLength")
	s.Pattern, s.Format = tag.Get("pattern"), tag.Get("format")
	if values := tag.Get("enum"); values != "" {
		for value := range strings.SplitSeq(values, ",") {
			s.Enum = append(s.Enum, value)
		}
	}
}

func first(a, b jsontext.Value) jsontext.Value {
	if a != nil {
		return a
	}
	return b
}

// number returns the number of a tag, or nil without the tag.
func number(tag reflect.StructTag, name string) jsontext.Value {
	if text := tag.Get(name); text != "" {
		return jsontext.Value(text)
	}
	return nil
}
