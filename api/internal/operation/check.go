package operation

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// checks are the checks of schemas that are defined by hand.
var checks = map[string]func(field, text string) error{
	"Name":     job.CheckName,
	"RunnerId": func(field, text string) error { return job.CheckText(field, text, 1, job.MaxRunnerBytes) },
}

// checkObject checks the fields of a body by their tags.
func checkObject(v reflect.Value) error {
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Anonymous {
			continue
		}
		value, err := v.FieldByIndexErr(f.Index)
		if err != nil { // the field of an embedded struct that is absent
			continue
		}
		if value.Kind() == reflect.Pointer {
			if value.IsNil() {
				continue
			}
			value = value.Elem()
		}
		if err := check(jsonName(f), f.Tag, value); err != nil {
			return err
		}
	}
	return nil
}

// check checks a value by the tags of its field.
func check(name string, tag reflect.StructTag, v reflect.Value) error {
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		lo, hi := bound(tag, "minimum", math.MinInt64), bound(tag, "maximum", math.MaxInt64)
		return web.BadField(name, job.CheckRange(name, v.Int(), lo, hi))
	case reflect.String:
		text := v.String()
		if check := checks[tag.Get("schema")]; check != nil {
			return web.BadField(name, check(name, text))
		}
		if values := tag.Get("enum"); values != "" && !slices.Contains(strings.Split(values, ","), text) {
			return web.BadRequest(name, fmt.Sprintf("%s must be one of %s, not %q", name, strings.ReplaceAll(values, ",", ", "), web.Shortened(text)))
		}
		if most := tag.Get("maxLength"); most != "" {
			return web.BadField(name, job.CheckText(name, text, int(bound(tag, "minLength", 0)), int(bound(tag, "maxLength", 0))))
		}
	}
	return nil
}

// bound returns the number of a tag, or without the tag another number.
func bound(tag reflect.StructTag, name string, without int64) int64 {
	text := cmp.Or(tag.Get(name), strconv.FormatInt(without, 10))
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("operation: tag %s has no number: %v", name, err))
	}
	return n
}
