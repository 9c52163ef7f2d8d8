package web

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
)

// Parameter is a query parameter of a request.
type Parameter struct{ Key, Value string }

// parametersKey is the key of the query parameters in the context of a request.
const parametersKey = "parameters"

// Parameters returns the query parameters of a request, in the order of their names. The route declares all of them.
func Parameters(c echo.Context) []Parameter {
	list, _ := c.Get(parametersKey).([]Parameter)
	return list
}

// SetParameters sets the parameters that Parameters returns.
func SetParameters(c echo.Context, list []Parameter) { c.Set(parametersKey, list) }

// strictRequest refuses parts of a request that a route would otherwise ignore: query parameters that the route does
// not declare, bodies of GET, HEAD and DELETE, and idempotency keys and session numbers on routes that do not support
// them. Otherwise a misspelt filter would list all jobs, and DELETE /jobs/{id}?status=failed would delete a job with
// any status.
func strictRequest(r *Route, next echo.HandlerFunc) echo.HandlerFunc {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	bodiless := reads || r.Method == http.MethodDelete || r.Method == http.MethodOptions
	return func(c echo.Context) error {
		req := c.Request()
		if r.Keyed { // before the body, which may be large or slow
			if _, err := onceHead(c); err != nil {
				return err
			}
		}
		if !r.Keyed && !reads {
			for _, name := range OnceHeaders {
				if len(req.Header[name]) > 0 {
					return BadRequest(name, fmt.Sprintf("%s %s does not support the header %s and would carry out a repeated request again; send the request without it", r.Method, req.URL.Path, name))
				}
			}
		}
		for name := range req.Header {
			if strings.HasPrefix(name, "Daybook-") && name != headerMinSeq && name != headerSeq && name != HeaderBy && name != HeaderTokenKey && !slices.Contains(OnceHeaders[:], name) {
				return BadRequest(name, fmt.Sprintf("header %s is not known; the server knows %s, %s, %s, %s, %s and %s", name, headerMinSeq, HeaderBy, HeaderToken, HeaderSession, HeaderSlot, HeaderNumber))
			}
		}
		if bodiless && req.ContentLength != 0 {
			return BadRequest("", r.Method+" must not have a body; its parameters are in the path and the query")
		}
		if raw := req.URL.RawQuery; raw != "" {
			list, err := ParseQuery(raw, r.Query)
			if err != nil {
				return err
			}
			SetParameters(c, list)
		}
		return next(c)
	}
}

// ParseQuery reads a query. known lists the names of parameters, separated by spaces. A name that ends in a dot means
// all names with this prefix. A name that ends in a star can be given several times, and a star alone
// means all names. ParseQuery refuses unknown and other repeated parameters.
func ParseQuery(raw, known string) ([]Parameter, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, BadRequest("", "the query string is malformed: "+Shortened(err.Error()))
	}
	names := strings.Fields(known)
	list := make([]Parameter, 0, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.ContainsFunc(names, func(name string) bool {
			return name == "*" || key == strings.TrimSuffix(name, "*") || strings.HasSuffix(name, ".") && strings.HasPrefix(key, name)
		}) {
			return nil, BadRequest(Shortened(key), unknownParameter(key, names))
		}
		if len(values[key]) > 1 && !slices.Contains(names, key+"*") {
			return nil, BadRequest(Shortened(key), fmt.Sprintf("parameter %s is given twice", Shortened(key)))
		}
		for _, value := range values[key] {
			list = append(list, Parameter{key, value})
		}
	}
	return list, nil
}

func unknownParameter(key string, names []string) string {
	if len(names) == 0 {
		return fmt.Sprintf("parameter %q is not known: this route has no query parameters", Shortened(key))
	}
	for i, name := range names {
		if strings.HasSuffix(name, ".") {
			names[i] = name + "<name>"
		}
		names[i] = strings.TrimSuffix(names[i], "*")
	}
	return fmt.Sprintf("parameter %q is not known: this route has %s", Shortened(key), strings.Join(names, ", "))
}

// PageLimit reads the maximum number of items of a page.
func PageLimit(p Parameter) (int, error) {
	n, err := strconv.Atoi(p.Value)
	if err != nil || n < 1 || n > job.MaxPage || strconv.Itoa(n) != p.Value {
		return 0, BadRequest(p.Key, fmt.Sprintf("%s must be a number from 1 to %d, not %q", p.Key, job.MaxPage, Shortened(p.Value)))
	}
	return n, nil
}

// QueryBool reads true or false.
func QueryBool(p Parameter) (bool, error) {
	if p.Value != "true" && p.Value != "false" {
		return false, BadRequest(p.Key, fmt.Sprintf("%s must be true or false, not %q", p.Key, Shortened(p.Value)))
	}
	return p.Value == "true", nil
}

// CatchUp waits until the state includes everything that a GET must see. It calls wait with the position in the
// Daybook-Min-Seq header.
func CatchUp(c echo.Context, wait func(ctx context.Context, minSeq uint64) error) error {
	seq, err := minSeq(c)
	if err != nil {
		return err
	}
	return wait(c.Request().Context(), seq)
}

// minSeq returns the position in the Daybook-Min-Seq header, or 0 without the header.
func minSeq(c echo.Context) (uint64, error) {
	values := c.Request().Header[headerMinSeq]
	if len(values) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseUint(values[0], 10, 64)
	if err != nil || len(values) > 1 {
		return 0, BadRequest(headerMinSeq, headerMinSeq+" must be one whole number, the "+headerSeq+" of an earlier answer")
	}
	return n, nil
}

// WholeNumber reads a decimal number without leading zeros or a plus sign, as in JSON.
func WholeNumber(field, text string) (*int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text {
		return nil, BadRequest(field, fmt.Sprintf("%s must be a whole number of 64 bits, not %q", field, Shortened(text)))
	}
	return &n, nil
}
