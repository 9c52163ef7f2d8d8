package web

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/job"
)

var strict = json.RejectUnknownMembers(true)

// DecodeObject decodes one JSON object into a struct, by the strict rules of docs/reference/api.md. Its errors are
// problems that name the field.
func DecodeObject(text []byte, into any, more ...json.Options) error {
	if first := bytes.TrimLeft(text, " \t\r\n"); len(first) == 0 {
		return BadRequest("", "a JSON object is required, and nothing was sent")
	} else if first[0] != '{' {
		return BadRequest("", "a JSON object is required, which begins with {")
	}
	return DecodeValue("", text, into, more...)
}

// DecodeValue decodes one JSON value by the strict rules. Its errors name fields with the prefix.
func DecodeValue(prefix string, text []byte, into any, more ...json.Options) error {
	options := strict
	if len(more) > 0 {
		options = json.JoinOptions(append(more, strict)...)
	}
	err := json.Unmarshal(text, into, options)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		field := fieldName(prefix, e.JSONPointer)
		switch {
		case errors.Is(e.Err, json.ErrUnknownName):
			return BadRequest(field, fmt.Sprintf("field %s is not known", field))
		case errors.Is(e.Err, job.ErrBadID):
			return BadID(field)
		case e.JSONValue != nil && e.JSONKind == jsontext.KindNumber:
			return BadRequest(field, fmt.Sprintf("%s must be %s, not %s", field, expected(e.GoType), Shortened(string(e.JSONValue))))
		case e.JSONKind == jsontext.KindString && e.GoType == reflect.TypeFor[[]byte]():
			return BadRequest(field, field+" must be base64 with padding")
		}
		return BadRequest(field, fmt.Sprintf("%s must be %s, not %s", named(field), expected(e.GoType), KindText(e.JSONKind)))
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		field := fieldName(prefix, e.JSONPointer)
		if errors.Is(e.Err, jsontext.ErrDuplicateName) {
			return BadRequest(field, fmt.Sprintf("field %s is given twice", field))
		}
		if e.Err.Error() == "exceeded max depth" { // the package has no name for it
			return BadRequest(field, fmt.Sprintf("the JSON is nested more than %d levels deep at byte %d", maxJSONDepth, e.ByteOffset))
		}
		return BadRequest(field, fmt.Sprintf("the JSON is not valid: %s at byte %d", Shortened(e.Err.Error()), e.ByteOffset))
	}
	return BadRequest("", "the JSON is not valid: "+Shortened(err.Error()))
}

// maxJSONDepth is the largest depth of nested arrays and objects. Package jsontext sets it.
const maxJSONDepth = 10_000

// fieldName returns the readable form of a JSON pointer, such as outcomes[3].job_id.
func fieldName(prefix string, p jsontext.Pointer) string {
	const most = 256
	b := []byte(prefix)
	for token := range p.Tokens() {
		if len(b) > most {
			return string(b) + "…"
		}
		if n, err := strconv.ParseUint(token, 10, 32); err == nil && len(b) > 0 {
			b = append(b, '[')
			b = strconv.AppendUint(b, n, 10)
			b = append(b, ']')
			continue
		}
		if len(b) > 0 {
			b = append(b, '.')
		}
		b = append(b, Shortened(token)...)
	}
	return string(b)
}

func named(field string) string {
	if field == "" {
		return "the JSON value"
	}
	return field
}

// Shortened cuts a long text of a request for an error text.
func Shortened(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

func expected(t reflect.Type) string {
	if t == nil {
		return "another type"
	}
	if t == reflect.TypeFor[job.ID]() {
		return "an id"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int64:
		return "a whole number of 64 bits"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		if t == reflect.TypeFor[[]byte]() {
			return "a string"
		}
		return "a list"
	}
	return "an object"
}

func KindText(k jsontext.Kind) string {
	switch k {
	case jsontext.KindString:
		return "a string"
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindBeginArray:
		return "a list"
	case jsontext.KindBeginObject:
		return "an object"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "true or false"
	}
	return "null"
}

// Absent reports whether an optional value is missing or null.
func Absent(v jsontext.Value) bool { return len(v) == 0 || v.Kind() == jsontext.KindNull }
