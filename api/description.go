package api

import (
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/job"
)

// problemCodes are the codes that a refusal with each status can have.
var problemCodes = map[int][]string{
	400: {"bad_request", "bad_id", "bad_address", "bad_path", "bad_pattern", "bad_manifest", "bad_archive", "job_not_active", "claim_id_required"},
	401: {"key_required", "key_refused", "token_refused", "login_ended", "login_failed"},
	403: {"forbidden_host", "forbidden_origin", "forbidden_peer", "out_of_scope", "quit_disabled", "role_missing", "no_rule", "csrf_required"},
	404: {"job_not_found", "batch_not_found", "queue_not_found", "claim_not_found", "sweep_not_found", "session_not_found", "handler_not_found", "key_not_found", "quota_not_found",
		"runner_not_found", "blob_not_found", "log_not_found", "upload_not_found", "fileset_not_found", "node_not_found", "login_not_found", "no_issuer", "route_not_found"},
	405: {"method_not_allowed"},
	408: {"body_too_slow"},
	409: {"claim_lost", "outcome_differs", "runner_differs", "cancelled", "job_active", "job_ended", "job_not_ended", "queue_not_empty", "key_held",
		"attempts_used", "number_passed", "too_many_hops", "runner_id_taken", "runner_replaced", "runner_lost", "collecting_blobs", "blobs_missing",
		"offset_differs", "key_exists", "runner_prefix_taken", "admin_key_first", "batch_ended", "batch_closed", "backup_running", "no_cluster", "quorum_lost"},
	411: {"length_required"},
	412: {"tus_version", "version_differs"},
	413: {"body_too_large", "payload_too_large", "fileset_too_large"},
	415: {"unsupported_media_type"},
	416: {"bad_range"},
	422: {"key_reused", "number_reused", "wrong_digest"},
	423: {"upload_busy"},
	426: {"upgrade_required"},
	429: {"rate_limited", "overloaded", "too_many_queues", "too_many_parked_claims", "too_many_keys", "too_many_sweeps", "too_many_sessions", "too_many_handlers", "too_many_access_keys", "too_many_logins", "quota_exceeded", "too_many_quotas",
		"too_many_filesets", "too_many_runners", "too_many_uploads", "too_many_blob_clients"},
	499: {"client_gone"},
	500: {"internal", "store_damaged", "blob_damaged"},
	501: {"no_blobs"},
	503: {"not_ready", "writes_failed", "shutting_down", "overloaded", "blobs_unavailable", "blob_verifying", "issuer_unavailable"},
	507: {"disk_full", "blob_quota"},
}

// problemResponses are the refusals that operations refer to.
func problemResponses() map[string]*openapi.Response {
	all := map[string]*openapi.Response{}
	for status, codes := range problemCodes {
		r := &openapi.Response{Description: strings.Join(codes, ", "), Content: map[string]openapi.Media{"application/problem+json": {Schema: openapi.Ref("Problem")}}}
		switch status {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			r.Header("Retry-After")
		case http.StatusMethodNotAllowed:
			r.Headers = map[string]openapi.Header{"Allow": {Description: "the methods that the path takes", Schema: openapi.Of("string")}}
		}
		all["P"+strconv.Itoa(status)] = r
	}
	return all
}

// headers are the headers of answers.
var headers = map[string]openapi.Header{
	"Daybook-Handler":         {Description: "in the answer to a claim without max, if the job has a handler: its handler_id, kind and digest", Schema: openapi.Of("string")},
	"Daybook-Status":          {Description: "the status of the job, which has ended", Schema: openapi.Enum("completed", "failed", "cancelled")},
	"Daybook-Code":            {Description: "the code of the last outcome, if there was one", Schema: openapi.Enum("ok", "failed", "retry", "error")},
	"Daybook-Exit-Code":       {Description: "the exit code of the last outcome, if there was one", Schema: openapi.Of("string")},
	"Daybook-Output-Addr":     {Description: "output_addr of the job, if it has one; space, control bytes, %, = and comma as %XX", Schema: openapi.Of("string")},
	"Daybook-Seq":             {Description: "the position of the change in the journal", Schema: from(1)},
	"Tus-Resumable":           {Description: "version of tus", Schema: openapi.Enum("1.0.0")},
	"Upload-Offset":           {Description: "bytes of the upload that are on disk", Schema: openapi.Of("integer")},
	"Upload-Metadata":         {Description: "as it was given when the upload began", Schema: openapi.Of("string")},
	"Upload-Expires":          {Description: "when the upload is removed if there is no progress", Schema: openapi.Of("string")},
	"Daybook-Blob":            {Description: "address of the blob, if the upload is finished", Schema: openapi.Pattern("^sha256:[0-9a-f]{64}$")},
	"Cache-Control":           {Description: "no-store: no cache may keep the answer", Schema: openapi.Enum("no-store")},
	"Set-Cookie":              {Description: "a cookie that no script can read", Schema: openapi.Of("string")},
	"Location":                {Description: "path of the new or existing resource", Schema: openapi.Of("string")},
	"ETag":                    {Description: "a weak entity tag of the document", Schema: openapi.Of("string")},
	"Daybook-Fileset-Version": {Description: "the version of the fileset", Schema: from(1)},
	"Retry-After":             {Description: "how many seconds the client should wait before it repeats the request", Schema: from(1)},
	"Idempotency-Replayed":    {Description: "true if the server has carried out the request, or a part of it, before with this key or number", Schema: openapi.Of("string")},
	"Preference-Applied":      {Description: "results=each, if the server used this preference", Schema: openapi.Of("string")},
}

// from returns the schema of a whole number of at least lo.
func from(lo int64) *openapi.Schema {
	s := openapi.Integer(lo, lo)
	s.Maximum = nil
	return s
}

// newSchemas returns the schemas of the values that the fields of documents and requests have in common.
func newSchemas() *openapi.Schemas {
	s := &openapi.Schemas{
		Named: map[reflect.Type]string{reflect.TypeFor[registry.Stats](): "RunnerStats", reflect.TypeFor[registry.Counts](): "RunnerCounts"},
	}
	openapi.Describe[job.ID](s, "Id", openapi.Pattern("^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-7[0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}$").
		As("a UUID in the layout of version 7. Requests may have it in either case; answers have lower case, in which ids sort by creation"))
	name := openapi.Text(1, job.MaxNameBytes).As("name of a client or type, but not . or ..")
	name.Pattern = `^(\.{0,2}[A-Za-z0-9_:-][A-Za-z0-9._:-]*|\.{3}[A-Za-z0-9._:-]*)$`
	s.Define("Name", name)
	s.Define("RunnerId", openapi.Text(1, job.MaxRunnerBytes).As("the name of a runner, which can be any text"))
	s.Define("Instance", openapi.Text(1, registry.MaxInstanceBytes).As("the name of a process of a runner: a random text"))
	var statuses []string
	counts := &openapi.Schema{Type: openapi.Types{"object"}, AdditionalProperties: false}
	for _, status := range job.Statuses {
		statuses = append(statuses, status.String())
		counts.Required = append(counts.Required, status.String())
		counts.Properties = append(counts.Properties, openapi.Property{Name: status.String(), Schema: from(0)})
	}
	s.Define("Role", openapi.Enum((admins | readers | watchers).Names()...))
	s.Define("Status", openapi.Enum(statuses...))
	openapi.Describe[answer.Counts](s, "Counts", counts)
	s.Define("Traceparent", openapi.Pattern("^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$").As("W3C Trace Context, version 00"))
	meta := openapi.Text(0, job.MaxMetaValueBytes)
	s.Define("Meta", &openapi.Schema{Type: openapi.Types{"object"}, Description: "labels of a job, each a name and a value", MaxProperties: []byte(strconv.Itoa(job.MaxMeta)),
		PropertyNames: &openapi.Schema{Pattern: "^[A-Za-z0-9._:-]{1,64}$"}, AdditionalProperties: meta})
	s.Define("Empty", &openapi.Schema{Type: openapi.Types{"object"}, MaxProperties: []byte("0")})
	s.Define("BatchStatus", openapi.Enum(batchStatuses()...))
	s.Define("BatchPlace", openapi.Text(36, 293))
	s.Define("JobPlace", openapi.Text(36, 52))
	s.Define("BatchMeta", &openapi.Schema{Type: openapi.Types{"object", "null"}, AdditionalProperties: &openapi.Schema{Type: openapi.Types{"string", "integer"}}})
	answer.Describe(s)
	command.Describe(s)
	files.Describe(s)
	describeHandlers(s)
	describePatch(s)
	describeResults(s)
	s.Define("Problem", problemSchema(s))
	s.Define("Code", openapi.Enum(allCodes()...).As("why a request, or a part of it, was refused; codes do not change"))
	return s
}

func batchStatuses() (names []string) {
	for status := job.BatchInProgress; int(status) < job.NumBatchStatus; status++ {
		names = append(names, status.String())
	}
	return names
}

// problemSchema returns the schema of a refusal, with the members that some refusals add.
func problemSchema(s *openapi.Schemas) *openapi.Schema {
	p := openapi.Object[struct {
		web.ProblemDocument
		Lost    []answer.Lost `json:"lost,omitzero" doc:"only in the refusal of a tickle"`
		Missing []string      `json:"missing,omitzero" doc:"only in the refusal of a manifest: addresses of blobs that are not stored"`
		After   int64         `json:"retry_after,omitzero" minimum:"1" doc:"only with rate_limited: the seconds of Retry-After, also in streams"`
	}](s, openapi.InAnswer)
	p.Description = "why a request was refused, as in RFC 9457"
	return p
}

// allCodes returns the codes of all problems.
func allCodes() (list []string) {
	for _, codes := range problemCodes {
		list = append(list, codes...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// descriptions are the forms of the description.
type descriptions struct{ yaml, json []byte }

// head returns the part of the description that is about no single operation.
func head() *openapi.Head {
	return &openapi.Head{
		Title: "Daybook", Version: "1", Summary: "A durable job queue",
		Description: "Daybook's API is JSON over HTTP. The server never loses a change that it has acknowledged. A refusal is a problem\n" +
			"document with a stable code. docs/reference/api.md describes the API in full.\n\n" +
			"* Every path with GET also supports HEAD.\n" +
			"* The server answers 400 to query parameters that an operation does not list, and to bodies of GET, HEAD and DELETE.\n" +
			"* If an operation can answer with several shapes of JSON, each shape has its own media type.\n",
		Server: ".", ServerIs: "the server that sent this document",
		Tags:    []string{"Creating", "Running", "Handlers", "Blobs", "Filesets", "Reading", "Moving", "Switches", "Watching", "Access"},
		Headers: headers, Responses: problemResponses(),
	}
}
