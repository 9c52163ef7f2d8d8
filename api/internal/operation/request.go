package operation

import (
	"encoding"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// request knows the fields of a request.
type request struct {
	about                     *About
	path, parameters, headers []field
	body                      *reflect.StructField // nil: the body must be empty or {}, or is one of about.Bodies
	hasBody                   bool                 // the method has a body
}

func newRequest(t reflect.Type, method string, about *About) *request {
	r := &request{about: about, hasBody: slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, method)}
	for _, f := range reflect.VisibleFields(t) {
		path, query, header := f.Tag.Get("path"), f.Tag.Get("query"), f.Tag.Get("header")
		switch {
		case f.Anonymous:
		case path != "":
			r.path = append(r.path, field{f, path})
		case query != "":
			r.parameters = append(r.parameters, field{f, query})
		case header != "":
			r.headers = append(r.headers, field{f, header})
		case f.Name == "Body" && r.hasBody:
			r.body = &f
		default:
			panic(fmt.Sprintf("operation: field %s of %v is unknown", f.Name, t))
		}
	}
	return r
}

// query returns the names of the query parameters.
func (r *request) query() string {
	names := make([]string, len(r.parameters))
	for i, f := range r.parameters {
		names[i] = f.name
	}
	return strings.Join(names, " ")
}

func (r *request) describe(op *openapi.Operation, schemas *openapi.Schemas) {
	add := func(in string, list []field) {
		for _, f := range list {
			if f.Type.Kind() == reflect.Pointer { // nil if it is not given; there is no null
				f.Type = f.Type.Elem()
			}
			schema := schemas.Field(f.StructField, openapi.InAnswer)
			p := openapi.Parameter{Name: strings.TrimSuffix(f.name, "*"), In: in, Description: schema.Description, Required: in == "path" || f.Tag.Get("required") == "true", Schema: schema}
			schema.Description = ""
			switch name, prefix := strings.CutSuffix(f.name, "."); {
			case prefix: // the name is that of the object only: each of its properties is a parameter
				p.Name, p.Style, p.Explode = name, "form", new(true)
				schema.PropertyNames = &openapi.Schema{Pattern: "^" + regexp.QuoteMeta(f.name) + "[A-Za-z0-9._:-]{1,64}$"}
			case f.Tag.Get("list") == "commas":
				p.Style, p.Explode = "form", new(false)
			}
			op.Parameters = append(op.Parameters, p)
		}
	}
	add("path", r.path)
	add("query", r.parameters)
	add("header", r.headers)
	switch {
	case r.about.Bodies != nil:
		op.Body = &openapi.Body{Required: r.about.BodyRequired, Description: r.about.BodyText, Content: contents(r.about.Bodies, schemas)}
	case r.body != nil:
		op.Body = &openapi.Body{Required: r.required(), Content: map[string]openapi.Media{web.MIMEJSON: {Schema: schemas.Value(r.body.Type, openapi.InRequest)}}}
	case r.hasBody:
		op.Body = &openapi.Body{Content: map[string]openapi.Media{web.MIMEJSON: {Schema: openapi.Ref("Empty")}}}
	}
}

// required reports whether a request must have a body.
func (r *request) required() bool { return r.body.Tag.Get("required") == "true" }

// read reads a request into v.
func (r *request) read(c echo.Context, rules Rules, call *call, v reflect.Value) (err error) {
	for _, f := range r.path {
		if err := readPath(&f, c.Param(f.name), v.FieldByIndex(f.Index)); err != nil {
			return err
		}
	}
	given := web.Parameters(c)
	for _, f := range r.parameters {
		if strings.HasSuffix(f.name, ".") {
			readPrefix(f.name, given, v.FieldByIndex(f.Index))
			continue
		}
		i := slices.IndexFunc(given, func(p web.Parameter) bool { return p.Key == f.name })
		text := f.Tag.Get("default")
		switch {
		case i >= 0:
			text = given[i].Value // an empty value is not a missing one: a script may have used an empty variable
		case f.Tag.Get("required") == "true":
			return web.BadRequest(f.name, f.name+" is required")
		case text == "":
			continue
		}
		if err := readText(&f, text, v.FieldByIndex(f.Index)); err != nil {
			return err
		}
	}
	for _, f := range r.headers {
		values := c.Request().Header.Values(f.name)
		if len(values) == 0 || f.Tag.Get("read") == "elsewhere" {
			continue
		}
		if len(values) > 1 {
			return web.BadRequest(f.name, fmt.Sprintf("header %s is given twice", f.name))
		}
		if err := readText(&f, values[0], v.FieldByIndex(f.Index)); err != nil {
			return err
		}
	}
	if !r.hasBody || r.about.Bodies != nil {
		return nil
	}
	if r.body == nil {
		return web.NoBody(c, rules.Optional)
	}
	rule := rules.Optional
	if r.required() {
		rule = rules.Object
	}
	body := v.FieldByIndex(r.body.Index)
	if call.body, err = web.ReadObject(c, rule, body.Addr().Interface()); err != nil {
		return err
	}
	return checkObject(body)
}

// readPrefix reads the parameters whose names have a prefix into a map.
func readPrefix(prefix string, given []web.Parameter, into reflect.Value) {
	for _, p := range given {
		if name, ok := strings.CutPrefix(p.Key, prefix); ok {
			if into.IsNil() {
				into.Set(reflect.ValueOf(map[string]string{}))
			}
			into.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(p.Value))
		}
	}
}

// nobodysID is an id that no object has, because no command has the seq 0. It replaces UUIDs of another layout, so that
// a client whose jobs have ids of another system gets 404, as for any unknown id.
var nobodysID = job.NewID(0, 0, 0)

// PathID returns the id in a path, or the refusal of a text that is no UUID.
func PathID(name, text string) (job.ID, error) {
	if strings.Contains(text, "/") { // the router puts the rest of the path into the last parameter
		return job.ID{}, web.RouteNotFound()
	}
	id, err := job.ParseID(text)
	switch {
	case err == nil:
		return id, nil
	case job.IsUUID(text):
		return nobodysID, nil
	}
	return id, web.BadID(name)
}

// readPath reads a parameter of the path.
func readPath(f *field, text string, into reflect.Value) (err error) {
	if id, ok := into.Addr().Interface().(*job.ID); ok {
		*id, err = PathID(f.name, text)
		return err
	}
	if _, whole := into.Addr().Interface().(encoding.TextUnmarshaler); !whole && strings.Contains(text, "/") {
		return web.RouteNotFound()
	}
	return readText(f, text, into)
}

// readText reads a parameter, and checks it by the tags of its field.
func readText(f *field, text string, into reflect.Value) error {
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	switch value := into.Addr().Interface().(type) {
	case *job.ID:
		id, err := job.ParseID(text)
		if err != nil {
			return web.BadID(f.name)
		}
		*value = id
		return nil
	case encoding.TextUnmarshaler:
		return value.UnmarshalText([]byte(text))
	}
	switch into.Kind() {
	case reflect.String:
		into.SetString(text)
	case reflect.Int, reflect.Int64:
		n, err := web.WholeNumber(f.name, text)
		if err != nil {
			return err
		}
		into.SetInt(*n)
	case reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return web.BadRequest(f.name, fmt.Sprintf("%s must be one whole number, not %q", f.name, web.Shortened(text)))
		}
		into.SetUint(n)
	case reflect.Bool:
		is, err := web.QueryBool(web.Parameter{Key: f.name, Value: text})
		if err != nil {
			return err
		}
		into.SetBool(is)
	default:
		panic(fmt.Sprintf("operation: no parameter of %v", into.Type()))
	}
	return check(f.name, f.Tag, into)
}
