package api

import (
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

// parameter is a query parameter of a request.
type parameter struct{ key, value string }

// parametersKey is the key of the query parameters in the context of a request.
const parametersKey = "parameters"

// parameters returns the query parameters of a request, in the order of their names. The route declares all of them.
func parameters(c echo.Context) []parameter {
	list, _ := c.Get(parametersKey).([]parameter)
	return list
}

// strictRequest refuses parts of a request that a route would otherwise ignore: query parameters that the route does
// not declare, bodies of GET, HEAD and DELETE, and idempotency keys and session numbers on routes that do not support
// them. Otherwise a misspelt filter would list all jobs, and DELETE /jobs/{id}?status=failed would delete a job with
// any status.
func strictRequest(r *route, next echo.HandlerFunc) echo.HandlerFunc {
	reads := r.method == http.MethodGet || r.method == http.MethodHead
	bodiless := reads || r.method == http.MethodDelete || r.method == http.MethodOptions
	return func(c echo.Context) error {
		req := c.Request()
		if r.keyed { // before the body, which may be large or slow
			if _, err := onceHead(c); err != nil {
				return err
			}
		}
		if !r.keyed && !reads {
			for _, name := range onceHeaders {
				if len(req.Header[name]) > 0 {
					return badRequest(name, fmt.Sprintf("%s %s does not support the header %s and would carry out a repeated request again; send the request without it", r.method, req.URL.Path, name))
				}
			}
		}
		for name := range req.Header {
			if strings.HasPrefix(name, "Daybook-") && name != headerMinSeq && name != headerSeq && !slices.Contains(onceHeaders[:], name) {
				return badRequest(name, fmt.Sprintf("header %s is not known; the server knows %s, %s, %s and %s", name, headerMinSeq, headerSession, headerSlot, headerNumber))
			}
		}
		if bodiless && req.ContentLength != 0 {
			return badRequest("", r.method+" must not have a body; its parameters are in the path and the query")
		}
		if raw := req.URL.RawQuery; raw != "" {
			list, err := parseQuery(raw, r.query)
			if err != nil {
				return err
			}
			c.Set(parametersKey, list)
		}
		return next(c)
	}
}

// parseQuery reads a query. known lists the names of parameters, separated by spaces. A name that ends in a dot means
// all names with this prefix. A name that ends in a star can be given several times. parseQuery refuses unknown and
// other repeated parameters.
func parseQuery(raw, known string) ([]parameter, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, badRequest("", "the query string is malformed: "+shortened(err.Error()))
	}
	names := strings.Fields(known)
	list := make([]parameter, 0, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.ContainsFunc(names, func(name string) bool {
			return key == strings.TrimSuffix(name, "*") || strings.HasSuffix(name, ".") && strings.HasPrefix(key, name)
		}) {
			return nil, badRequest(shortened(key), unknownParameter(key, names))
		}
		if len(values[key]) > 1 && !slices.Contains(names, key+"*") {
			return nil, badRequest(shortened(key), fmt.Sprintf("parameter %s is given twice", shortened(key)))
		}
		for _, value := range values[key] {
			list = append(list, parameter{key, value})
		}
	}
	return list, nil
}

func unknownParameter(key string, names []string) string {
	if len(names) == 0 {
		return fmt.Sprintf("parameter %q is not known: this route has no query parameters", shortened(key))
	}
	for i, name := range names {
		if strings.HasSuffix(name, ".") {
			names[i] = name + "<name>"
		}
		names[i] = strings.TrimSuffix(names[i], "*")
	}
	return fmt.Sprintf("parameter %q is not known: this route has %s", shortened(key), strings.Join(names, ", "))
}

// pageLimit reads the maximum number of items of a page.
func pageLimit(p parameter) (int, error) {
	n, err := strconv.Atoi(p.value)
	if err != nil || n < 1 || n > job.MaxPage || strconv.Itoa(n) != p.value {
		return 0, badRequest(p.key, fmt.Sprintf("%s must be a number from 1 to %d, not %q", p.key, job.MaxPage, shortened(p.value)))
	}
	return n, nil
}

// queryTime reads a time in unix ms.
func queryTime(p parameter, least int64) (int64, error) {
	n, err := wholeNumber(p.key, p.value)
	if err != nil {
		return 0, err
	}
	return *n, badField(p.key, job.CheckRange(p.key, *n, least, job.MaxTimeMs))
}

// queryBool reads true or false.
func queryBool(p parameter) (bool, error) {
	if p.value != "true" && p.value != "false" {
		return false, badRequest(p.key, fmt.Sprintf("%s must be true or false, not %q", p.key, shortened(p.value)))
	}
	return p.value == "true", nil
}
