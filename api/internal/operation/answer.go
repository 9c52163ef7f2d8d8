package operation

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// answer knows the fields of an answer. An index is -1 if the answer lacks the field.
type answer struct {
	statuses            map[int]string
	status, body, basis int
	headers             []field
	others              []field // bodies of other media types, of which at most one is not nil
	t                   reflect.Type
}

// field is a field with the name of its tag.
type field struct {
	reflect.StructField
	name string
}

func newAnswer(t reflect.Type, statuses map[int]string) *answer {
	a := &answer{t: t, statuses: statuses, status: -1, body: -1, basis: -1}
	for _, f := range reflect.VisibleFields(t) {
		switch {
		case f.Anonymous:
		case f.Tag.Get("header") != "":
			a.headers = append(a.headers, field{f, f.Tag.Get("header")})
		case f.Tag.Get("media") != "":
			a.others = append(a.others, field{f, f.Tag.Get("media")})
		case f.Name == "Status":
			a.status = f.Index[0]
		case f.Name == "Body":
			a.body = f.Index[0]
		case f.Name == "Basis":
			a.basis = f.Index[0]
		default:
			panic(fmt.Sprintf("operation: field %s of %v is unknown", f.Name, t))
		}
	}
	if len(statuses) == 0 || len(statuses) > 1 && a.status < 0 {
		panic(fmt.Sprintf("operation: %v does not say which of the statuses %v it has", t, statuses))
	}
	return a
}

func (a *answer) describe(op *openapi.Operation, schemas *openapi.Schemas) {
	for status, text := range a.statuses {
		r := &openapi.Response{Description: text}
		for _, f := range a.headers {
			if only := f.Tag.Get("status"); only == "" || only == strconv.Itoa(status) {
				r.Header(f.name)
			}
		}
		if a.body >= 0 {
			r.Content = map[string]openapi.Media{web.MIMEJSON: {Schema: schemas.Value(a.t.Field(a.body).Type, openapi.InAnswer)}}
			for _, f := range a.others {
				r.Content[f.name] = openapi.Media{Schema: schemas.Value(f.Type.Elem(), openapi.InAnswer)}
			}
		}
		op.Responses[status] = r
	}
	if a.basis >= 0 {
		op.Responses[http.StatusOK].Header("ETag")
		same := &openapi.Response{Description: "The document has the ETag of the request."}
		same.Header("ETag")
		op.Responses[http.StatusNotModified] = same
		op.Parameters = append(op.Parameters, openapi.Parameter{Name: "If-None-Match", In: "header", Schema: openapi.Of("string"),
			Description: "the ETag of an earlier answer; the answer is 304 if the document still has this ETag"})
	}
}

func (a *answer) writeHeaders(c echo.Context, v reflect.Value) {
	for _, f := range a.headers {
		if value := v.FieldByIndex(f.Index); !value.IsZero() {
			c.Response().Header().Set(f.name, headerText(value))
		}
	}
}

// write writes an answer without its headers.
func (a *answer) write(c echo.Context, call *call, v reflect.Value) error {
	status := 0
	if a.status >= 0 {
		status = int(v.Field(a.status).Int())
	}
	if status == 0 {
		status = slices.Min(slices.Collect(maps.Keys(a.statuses)))
	}
	if a.body < 0 {
		return c.NoContent(status)
	}
	body, kind := v.Field(a.body), web.MIMEJSON
	for _, f := range a.others {
		if other := v.FieldByIndex(f.Index); !other.IsNil() {
			body, kind = other, f.name
		}
	}
	text, err := web.EncodeDocument(body.Interface())
	if err != nil {
		return err
	}
	basis := text
	if a.basis >= 0 && kind == web.MIMEJSON && !v.Field(a.basis).IsZero() {
		if basis, err = web.EncodeDocument(v.Field(a.basis).Interface()); err != nil {
			return err
		}
	}
	if call.held != nil {
		if err := call.held.Resize(c.Request().Context(), int64(cap(text)+cap(basis))); err != nil {
			return err
		}
	}
	if a.basis >= 0 {
		return web.AnswerTagged(c, kind, text, basis)
	}
	return web.Answer(c, status, kind, text)
}

// headerText returns the value of a header.
func headerText(v reflect.Value) string {
	switch v := v.Interface().(type) {
	case string:
		return v
	case uint64:
		return strconv.FormatUint(v, 10)
	case job.ID:
		return v.String()
	}
	panic(fmt.Sprintf("operation: no header of %v", v.Type()))
}
