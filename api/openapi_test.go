package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// readDescription is the description of the API. The tests compare every answer with it.
var readDescription = sync.OnceValues(func() (d description, err error) {
	loader := openapi3.NewLoader()
	whole, err := wholeDescription()
	if err != nil {
		return d, err
	}
	text := whole.yaml
	if d.doc, err = loader.LoadFromData(text); err != nil {
		return d, err
	}
	if err = d.doc.Validate(context.Background()); err != nil {
		return d, err
	}
	openapi3filter.RegisterBodyDecoder(web.MIMENDJSON, decodeLines)
	for _, kind := range []string{web.MIMEClaim, web.MIMEBatch, web.MIMETypes} {
		openapi3filter.RegisterBodyDecoder(kind, openapi3filter.RegisteredBodyDecoder(web.MIMEJSON))
	}
	for _, kind := range []string{web.MIMETOML, "application/yaml", "text/html", "text/css", "text/javascript", "image/png", web.MIMERuns, files.MIMETar, files.MIMETarGzip, files.MIMETarZstd, echo.MIMEOctetStream, "multipart/byteranges"} {
		openapi3filter.RegisterBodyDecoder(kind, openapi3filter.RegisteredBodyDecoder("text/plain"))
	}
	routed, err := loader.LoadFromData(text)
	if err != nil {
		return d, err
	}
	// The library treats the relative address of a server as a prefix of all paths. It also expects that an object of
	// query parameters has all parameters, including those that are declared separately.
	routed.Servers = openapi3.Servers{{URL: "/"}}
	for _, item := range routed.Paths.Map() {
		for _, op := range item.Operations() {
			op.Parameters = slices.DeleteFunc(op.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.Name+"." == command.MetaPrefix })
		}
	}
	if d.router, err = gorillamux.NewRouter(routed); err != nil {
		return d, err
	}
	d.bodies, err = newBodySchemas(d.doc)
	return d, err
})

type description struct {
	doc    *openapi3.T
	router routers.Router
	bodies *bodySchemas
}

// decodeLines decodes NDJSON as a list.
func decodeLines(r io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
	list := []any{}
	d := json.NewDecoder(r)
	d.UseNumber()
	for {
		var v any
		switch err := d.Decode(&v); err {
		case nil:
			list = append(list, v)
		case io.EOF:
			return list, nil
		default:
			return nil, err
		}
	}
}

// holds checks that an answer matches the description. If the server accepted the request, it checks the request too.
func (d description) holds(req *http.Request, sent []byte, answer reply) error {
	if testkit.Race { // it starts no goroutine
		return nil
	}
	if req.Method == http.MethodOptions || req.Method == http.MethodHead || answer.status == web.StatusClientGone {
		return nil // OPTIONS comes from the router, HEAD has no body, and a client that hung up reads nothing
	}
	if path, err := url.PathUnescape(req.URL.EscapedPath()); err == nil { // the library compares escapes literally
		req = req.Clone(req.Context())
		req.URL.Path, req.URL.RawPath = path, ""
	}
	req = req.Clone(req.Context())
	files.SpellAddress(req.URL)
	route, params, err := d.router.FindRoute(req)
	if err != nil { // there is no such route, so the answer must be a refusal
		if answer.status == http.StatusNotFound || answer.status == http.StatusMethodNotAllowed || answer.status == http.StatusForbidden || answer.status == http.StatusBadRequest {
			return nil
		}
		return fmt.Errorf("%d of a route that is not described: %w", answer.status, err)
	}
	input := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: &openapi3filter.Options{IncludeResponseStatus: true}}
	if answer.status < 300 && req.Header.Get("Content-Encoding") == "" {
		again := *input
		again.Request = req.Clone(req.Context())
		again.Request.Body = io.NopCloser(bytes.NewReader(sent))
		opaque := strings.HasSuffix(route.Path, "/add") || streamsBody(req.Method, route.Path) || len(sent) == 0 || web.PrefersEach(req)
		if of := route.Operation.RequestBody; !opaque && of != nil {
			if opaque, err = d.bodies.holds(of.Ref, []string{"paths", route.Path, strings.ToLower(route.Method), "requestBody"}, of.Value.Content, req.Header.Get("Content-Type"), sent); err != nil {
				return fmt.Errorf("a request that was taken: %w", err)
			}
		}
		again.Options = &openapi3filter.Options{ExcludeRequestBody: opaque}
		if err := openapi3filter.ValidateRequest(req.Context(), &again); err != nil {
			return fmt.Errorf("a request that was taken: %w", err)
		}
	}
	body, header := []byte(answer.body), answer.header
	if header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return err
		}
		if body, err = io.ReadAll(z); err != nil {
			return err
		}
	}
	if answer.status == http.StatusMethodNotAllowed || answer.status == http.StatusForbidden { // from the guard, on any route
		return nil
	}
	opaque := false
	if of := route.Operation.Responses.Status(answer.status); of != nil {
		at := []string{"paths", route.Path, strings.ToLower(route.Method), "responses", strconv.Itoa(answer.status)}
		if opaque, err = d.bodies.holds(of.Ref, at, of.Value.Content, header.Get("Content-Type"), body); err != nil {
			return fmt.Errorf("the answer: %w", err)
		}
	}
	err = openapi3filter.ValidateResponse(req.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: answer.status, Header: header, Body: io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: opaque},
	})
	if err != nil {
		return fmt.Errorf("the answer: %w", err)
	}
	return nil
}

// readGolden returns the description that reviewers see in the repository.
func readGolden(t *testing.T) string {
	t.Helper()
	text := testkit.Must(os.ReadFile("testdata/openapi.yaml"))(t)
	return string(text)
}

// TestGoldenDescription: testdata/openapi.yaml is the description that a server serves, so that a change of the API is
// visible in a change of that file. -rewrite writes it.
func TestGoldenDescription(t *testing.T) {
	whole := testkit.Must(wholeDescription())(t)
	text := whole.yaml
	if flag.Lookup("rewrite").Value.String() == "true" { // package datadriven defines the flag
		testkit.NoError(t, os.WriteFile("testdata/openapi.yaml", text, 0o666))
	}
	testkit.Holds(t, string(text) == readGolden(t),
		"the routes are not as testdata/openapi.yaml describes them; if that is right, run the test with -rewrite")
}

func describedOf(t *testing.T) description {
	t.Helper()
	d, err := readDescription()
	testkit.NoError(t, err, "the description")
	return d
}

// TestDescribedRoutes: the description has exactly the routes of the server.
func TestDescribedRoutes(t *testing.T) {
	d := describedOf(t)
	testkit.Equal(t, d.doc.OpenAPI, "3.1.0", "version")
	there, described := map[string]bool{}, map[string]bool{}
	param := regexp.MustCompile(`:(\w+)`)
	for _, r := range append(unserved().routes(), unserved().getSwitches()...) {
		there[r.method+" "+param.ReplaceAllString(r.path, "{$1}")] = true
	}
	operations := map[string]bool{}
	for path, item := range d.doc.Paths.Map() {
		for method, op := range item.Operations() {
			described[method+" "+path] = true
			testkit.Holds(t, !operations[op.OperationID] && op.OperationID != "" &&
				op.Summary != "", method, path, "operationId", op.OperationID, "summary", op.Summary)
			operations[op.OperationID] = true
		}
	}
	for route := range there {
		testkit.Holds(t, described[route], route, "is not described")
	}
	for route := range described {
		testkit.Holds(t, there[route], route, "is described, and not there")
	}
}

// TestDescribedCodes: the description has exactly the codes of the server's problems.
func TestDescribedCodes(t *testing.T) {
	d := describedOf(t)
	described := map[string]bool{}
	for _, code := range d.doc.Components.Schemas["Code"].Value.Enum {
		described[code.(string)] = true
	}
	want := codes()
	testkit.Holds(t, maps.Equal(described, want), "described", described, "server", want)
}

// TestDescribedFields: the description has exactly the fields of a job document, also as values of the parameter fields.
func TestDescribedFields(t *testing.T) {
	d := describedOf(t)
	var names []string
	for _, f := range answer.JobFields {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	testkit.EqualSlices(t, slices.Sorted(maps.Keys(d.doc.Components.Schemas["JobFields"].Value.Properties)), names, "described fields")
	required := slices.Clone(d.doc.Components.Schemas["Job"].Value.Required)
	slices.Sort(required)
	testkit.EqualSlices(t, required, names, "required")
	var selectable []string
	for _, name := range d.doc.Components.Schemas["FieldNames"].Value.Items.Value.Enum {
		selectable = append(selectable, name.(string))
	}
	slices.Sort(selectable)
	testkit.EqualSlices(t, selectable, names, "fields= takes")
}

// TestDescribedParameters: each operation has exactly the query parameters that its route declares. The schemas refuse
// the values that the server refuses.
func TestDescribedParameters(t *testing.T) {
	d := describedOf(t)
	param := regexp.MustCompile(`:(\w+)`)
	for _, r := range append(unserved().routes(), unserved().getSwitches()...) {
		op := d.doc.Paths.Value(param.ReplaceAllString(r.path, "{$1}")).GetOperation(r.method)
		var described []string
		for _, p := range op.Parameters {
			switch {
			case p.Value.In != openapi3.ParameterInQuery:
			case p.Value.Name+"." == command.MetaPrefix: // each property is a parameter
				described = append(described, command.MetaPrefix)
			default:
				described = append(described, p.Value.Name)
			}
		}
		want := strings.Fields(strings.ReplaceAll(r.query, "*", ""))
		slices.Sort(described)
		slices.Sort(want)
		testkit.EqualSlices(t, described, want, r.method, r.path, "described")
	}
}

// TestDescribedExclusions: the schemas and the server refuse fields that must not be combined.
func TestDescribedExclusions(t *testing.T) {
	d, r := describedOf(t), start(t)
	id := job.NewID(1, 1, 1).String()
	for _, c := range []struct{ schema, path, body string }{
		{"NewJob", "/jobs/create", `{"payload":"a","payload_b64":"YQ=="}`},
		{"NewJob", "/jobs/create", `{"payload":[1],"binary_addr":"b"}`},
		{"NewJob", "/jobs/create", `{"payload_b64":"YQ==","binary_addr":"b"}`},
		{"NewJob", "/jobs/create", `{"input_addr":"b"}`},
		{"NewJob", "/jobs/create", `{"input_addr":"b","binary_addr":null}`},
		{"NewJob", "/jobs/create", `{"run_at":5,"delay_ms":5}`},
		{"NewJob", "/jobs/create", `{"timeout_ms":999}`},
		{"NewJob", "/jobs/create", `{"client":".."}`},
		{"NewJob", "/jobs/create", `{"colour":"red"}`},
		{"Completion", "/jobs/ID/complete", `{}`},
		{"Completion", "/jobs/ID/complete", `{"status":null}`},
		{"Completion", "/jobs/ID/complete", `{"code":"ok","output":1,"output_b64":"YQ=="}`},
		{"Completion", "/jobs/ID/complete", `{"status":"failed","delay_ms":1}`},
		{"Completion", "/jobs/ID/complete", `{"code":"ok","delay_ms":1}`},
		{"Completion", "/jobs/ID/complete", `{"code":"ok","job_id":"ID"}`},
		{"Completions", "/jobs/complete", `{}`},
		{"Completions", "/jobs/complete", `{"claim_id":"ID"}`},
		{"Completions", "/jobs/complete", `{"status":"completed"}`},
		{"Completions", "/jobs/complete", `{"status":"completed","claim_id":null}`},
		{"Completions", "/jobs/complete", `{"status":"completed","claim_id":"ID","outcomes":[]}`},
		{"Completions", "/jobs/complete", `{"outcomes":[],"except":[]}`},
		{"Completions", "/jobs/complete", `{"outcomes":[{"status":"completed"}]}`},
		{"Completions", "/jobs/complete", `{"outcomes":[{"job_id":"ID"}]}`},
		{"Completions", "/jobs/complete", `{"claim_id":"ID","status":"completed","except":[{"job_id":"ID","status":"failed","claim_id":"ID"}]}`},
		{"Tickles", "/jobs/tickle", `{}`},
		{"Tickles", "/jobs/tickle", `{"job_ids":null}`},
		{"Tickles", "/jobs/tickle", `{"job_ids":[]}`},
		{"Tickles", "/jobs/tickle", `{"runner_id":"r","step":"s"}`},
		{"Tickles", "/jobs/tickle", `{"claim_id":"ID","progress":0.5}`},
		{"Tickle", "/jobs/ID/tickle", `{"job_ids":["ID"]}`},
		{"Release", "/jobs/ID/release", `{}`},
		{"Release", "/jobs/ID/release", `{"how":"unget","delay_ms":1}`},
		{"Release", "/jobs/ID/release", `{"how":"archive","delay_ms":1}`},
		{"ClaimRequest", "/jobs/claim", `{"max":5}`},
		{"ClaimRequest", "/jobs/claim", `{"runner_id":"r","complete":{"status":"failed"}}`},
	} {
		body := strings.ReplaceAll(c.body, "ID", id)
		var value any
		testkit.NoError(t, json.Unmarshal([]byte(body), &value))
		testkit.Holds(t, d.doc.Components.Schemas[c.schema].Value.VisitJSON(value, openapi3.EnableJSONSchema2020()) != nil, c.schema, "allows", body)
		a := r.post(strings.ReplaceAll(c.path, "ID", id), body)
		testkit.Equal(t, a.status, http.StatusBadRequest, c.path, body, a.body)
	}
	r.do(http.MethodPatch, "/jobs/"+id, strings.NewReader(`{"priority":null}`), "Content-Type", web.MIMEJSON).wrong("")
	testkit.Failed(t, d.doc.Components.Schemas["Patch"].Value.VisitJSON(map[string]any{"priority": nil}, openapi3.EnableJSONSchema2020()))
	pattern := regexp.MustCompile(d.doc.Components.Schemas["Id"].Value.Pattern)
	for text := range map[string]bool{id: true, "018c2b6e-7f00-7000-8000-000000400001": true, "018c2b6e-7f00-7001-8000-000000400001": false, "018c2b6e-7f00-7100-8000-000000400001": false,
		"018c2b6e-7f00-7000-c000-000000400001": false, "018C2b6e-7f00-7000-8000-000000400001": false, "018c2b6e7f0070008000000000400001": false, "": false} {
		_, err := job.ParseID(text)
		testkit.Equal(t, err == nil, pattern.MatchString(text), "id", text, "the server says", err)
	}
}

// TestDescribedLimits: the limits of fields equal the limits of package job.
func TestDescribedLimits(t *testing.T) {
	d := describedOf(t)
	property := func(schema, name string) *openapi3.Schema {
		s := d.doc.Components.Schemas[schema]
		testkit.MustHold(t, s != nil && s.Value.Properties[name] != nil, schema, name, "is not described")
		return s.Value.Properties[name].Value
	}
	for _, c := range []struct {
		schema, name string
		lo, hi       int64
	}{
		{"NewJob", "priority", 0, job.MaxPriority}, {"NewJob", "run_at", 0, job.MaxTimeMs}, {"NewJob", "delay_ms", 0, job.MaxDelayMs}, {"NewJob", "max_attempts", 1, job.MaxAttempts},
		{"NewJob", "lease_ms", job.MinLeaseMs, job.MaxLeaseMs}, {"NewJob", "retention_ms", 0, job.MaxDelayMs}, {"NewJob", "expires_at", 0, job.MaxTimeMs},
		{"Backoff", "initial_ms", 0, job.MaxDelayMs}, {"Backoff", "factor_milli", 1000, job.MaxFactorMilli}, {"Backoff", "max_ms", 0, job.MaxDelayMs},
		{"ClaimRequest", "max", 1, job.MaxClaimJobs}, {"ClaimRequest", "lease_ms", job.MinLeaseMs, job.MaxLeaseMs}, {"ClaimRequest", "wait_ms", 0, job.MaxWaitMs}, {"ClaimRequest", "max_bytes", 1, job.MaxClaimBytes},
		{"Tickle", "lease_ms", job.MinLeaseMs, job.MaxLeaseMs}, {"Completion", "delay_ms", 0, job.MaxDelayMs}, {"Patch", "priority", 0, job.MaxPriority}, {"Patch", "max_attempts", 1, job.MaxAttempts}, {"Patch", "run_at", 0, job.MaxTimeMs},
		{"Heartbeat", "heartbeat_ms", registry.MinHeartbeat.Milliseconds(), registry.MaxHeartbeat.Milliseconds()}, {"Slot", "slot", 0, job.MaxSlots - 1},
	} {
		p := property(c.schema, c.name)
		testkit.Holds(t, p.Min != nil && p.Max != nil && int64(*p.Min) == c.lo &&
			int64(*p.Max) == c.hi, c.schema, c.name, p.Min, "to", p.Max, "want", c.lo, "to", c.hi)
	}
	p := property("NewJob", "timeout_ms").OneOf[0].Value.OneOf[0].Value
	testkit.Holds(t, int64(*p.Min) == job.MinTimeoutMs && int64(*p.Max) == job.MaxTimeoutMs, "NewJob.timeout_ms", *p.Min, "to", *p.Max)
	for _, c := range []struct {
		schema, name string
		lo, hi       uint64
	}{
		{"NewJob", "binary_addr", 1, job.MaxAddrBytes}, {"NewJob", "unique_key", 1, job.MaxKeyBytes}, {"Completion", "error", 0, job.MaxErrorBytes}, {"Completion", "output_addr", 0, job.MaxAddrBytes}, {"Completion", "log_addr", 0, job.MaxAddrBytes},
		{"Tickle", "step", 0, job.MaxStepBytes},
	} {
		p := property(c.schema, c.name)
		testkit.Holds(t, p.MinLength == c.lo && p.MaxLength != nil &&
			*p.MaxLength == c.hi, c.schema, c.name, p.MinLength, "to", p.MaxLength, "want", c.lo, "to", c.hi)
	}
	for _, c := range []struct {
		path, name string
		lo, hi     int64
	}{
		{"/queues", "limit", 1, job.MaxPage}, {"/runners", "limit", 1, job.MaxPage}, {"/batches", "limit", 1, job.MaxPage},
		{"/batches/{id}", "wait_ms", 0, job.MaxWaitMs},
	} {
		p := d.doc.Paths.Find(c.path).Get.Parameters.GetByInAndName("query", c.name)
		testkit.Holds(t, p != nil && p.Schema.Value.Min != nil && p.Schema.Value.Max != nil &&
			int64(*p.Schema.Value.Min) == c.lo && int64(*p.Schema.Value.Max) == c.hi, "GET", c.path, c.name, p, "want", c.lo, "to", c.hi)
	}
	for _, name := range []string{"name", "name_prefix"} {
		p := d.doc.Paths.Find("/batches").Get.Parameters.GetByInAndName("query", name)
		testkit.Holds(t, p != nil && p.Schema.Value.MaxLength != nil &&
			*p.Schema.Value.MaxLength == job.MaxBatchNameBytes, "GET /batches?", name, p, "want up to", job.MaxBatchNameBytes, "bytes")
	}
	for name, hi := range map[string]uint64{"Name": job.MaxNameBytes, "RunnerId": job.MaxRunnerBytes} {
		p := d.doc.Components.Schemas[name].Value
		testkit.Holds(t, p.MaxLength != nil && *p.MaxLength == hi, name, p.MaxLength, "want", hi)
	}
	p = d.doc.Components.Schemas["Meta"].Value
	testkit.Holds(t, p.MaxProps != nil && *p.MaxProps == job.MaxMeta, "Meta", p.MaxProps)
}

// TestDocsPage: the server has the page and all files that the page loads, and the page can load no others.
func TestDocsPage(t *testing.T) {
	r := start(t)
	if a := r.get("/openapi.yaml"); a.status != http.StatusOK || a.body != readGolden(t) || a.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("%d %v %.100s", a.status, a.header, a.body)
	}
	inJSON, err := openapi3.NewLoader().LoadFromData([]byte(r.get("/openapi.json").body))
	if want := describedOf(t).doc; err != nil || inJSON.Validate(t.Context()) != nil || inJSON.Paths.Len() != want.Paths.Len() || len(inJSON.Components.Schemas) != len(want.Components.Schemas) {
		t.Errorf("openapi.json is another document: %v", err)
	}
	page := r.get("/docs", "Sec-Fetch-Site", "none")
	if policy := page.header.Get("Content-Security-Policy"); page.status != http.StatusOK || !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "script-src 'self';") {
		t.Errorf("%d %v", page.status, page.header)
	}
	testkit.Lacks(t, page.body, "http:", "https:", "<script>")
	files := regexp.MustCompile(`(?:src|href)="(docs/[^"]+)"`).FindAllStringSubmatch(page.body, -1)
	testkit.MustHold(t, len(files) >= 4, files)
	for _, f := range files {
		plain := r.get("/"+f[1], "Sec-Fetch-Site", "same-origin", "Accept-Encoding", "identity")
		zipped := r.get("/"+f[1], "Accept-Encoding", "gzip")
		for _, a := range []reply{plain, zipped} {
			testkit.Holds(t, a.status == http.StatusOK && a.header.Get("X-Content-Type-Options") == "nosniff" &&
				a.header.Get("Content-Type") != "" && len(a.body) >= 100, f[1], a.status, a.header, len(a.body), "bytes")
		}
		testkit.Equal(t, plain.header.Get("Content-Encoding"), "", f[1], "Content-Encoding that nobody takes")
	}
	for _, path := range []string{"/docs/", "/docs/index.html", "/docs/..", "/docs/swagger-ui-bundle.js.gz", "/docs/x/y"} {
		r.get(path).refused(http.StatusNotFound, "route_not_found")
	}
}
