package answer

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/job"
)

// The answers about jobs are encoded by hand; see JobFields. The types in this file describe them, and tests compare the
// names.

// jobFields describes the fields of a job's document.
type jobFields struct {
	JobID          job.ID            `json:"job_id"`
	BatchID        *job.ID           `json:"batch_id" doc:"the batch that the job belongs to. It is null if a request without a key created the job alone, because such a job belongs to no batch, and if the job was purged before the answer was made."`
	Client         *string           `json:"client" schema:"Name"`
	Type           *string           `json:"type" schema:"Name"`
	Status         *string           `json:"status" schema:"Status" doc:"It is null only in the answer to a create whose existing job has been purged in the meantime."`
	Priority       *int64            `json:"priority" minimum:"0" maximum:"9"`
	Payload        jsontext.Value    `json:"payload" doc:"a string, or any other JSON value, which is kept as it was sent"`
	PayloadB64     *string           `json:"payload_b64"`
	BinaryAddr     *string           `json:"binary_addr"`
	InputAddr      *string           `json:"input_addr"`
	OutputAddr     *string           `json:"output_addr" doc:"address of an output that is stored elsewhere"`
	OutputAddrKind *string           `json:"output_addr_kind" enum:"text,json,bytes" doc:"kind of what output_addr names, if the runner has said it; /output answers with its media type"`
	LogAddr        *string           `json:"log_addr" doc:"address of what the run printed"`
	Output         jsontext.Value    `json:"output" doc:"a string, or any other JSON value, which is kept as it was sent"`
	OutputB64      *string           `json:"output_b64"`
	Code           *string           `json:"code" enum:"ok,failed,retry,error,damaged,lost" doc:"Only the server sets damaged, if it cannot read the payload of the job, and lost, if the runner vanished after the run had begun. See docs/reference/api.md."`
	ExitCode       *int64            `json:"exit_code" minimum:"100" maximum:"599"`
	ProcessExit    *int64            `json:"process_exit" doc:"exit status of a process"`
	Error          *string           `json:"error"`
	Attempts       []attempt         `json:"attempts" maxItems:"20" doc:"the newest 20 runs that did not succeed, the oldest first"`
	Step           *string           `json:"step"`
	Steps          []step            `json:"steps" nullable:"true" doc:"the steps that runners reported in all runs, oldest first, the newest 50"`
	Progress       *float64          `json:"progress" minimum:"0" maximum:"1"`
	RunnerID       *string           `json:"runner_id"`
	ClaimID        *job.ID           `json:"claim_id"`
	RunAttempts    *int64            `json:"run_attempts" minimum:"0" maximum:"1000" doc:"number of claims since the creation or the last redrive, without claims that ended with unget"`
	MaxAttempts    *int64            `json:"max_attempts" minimum:"1" maximum:"1000"`
	Redrives       *int64            `json:"redrives" minimum:"0" doc:"how often the job was redriven"`
	LeaseMs        *int64            `json:"lease_ms" minimum:"1000" maximum:"86400000"`
	RunAt          *int64            `json:"run_at" minimum:"0"`
	CreatedAt      *int64            `json:"created_at" minimum:"0"`
	UpdatedAt      *int64            `json:"updated_at" minimum:"0" doc:"when it was created, or last moved to another status, or patched"`
	TickledAt      *int64            `json:"tickled_at" minimum:"0" doc:"of an active job: when it was claimed or last tickled"`
	CompletedAt    *int64            `json:"completed_at" minimum:"0"`
	DeadlineAt     *int64            `json:"deadline_at" minimum:"0" doc:"when an active job counts as abandoned, unless a tickle extends its lease"`
	ExpiresAt      *int64            `json:"expires_at" minimum:"0"`
	TimeoutMs      *int64            `json:"timeout_ms" minimum:"1000" maximum:"86400000"`
	Why            *string           `json:"why" enum:"reported,abandoned,runner_lost,cancelled,expired" doc:"Why the job ended. reported: its runner reported it. abandoned: the lease or the time-out of its last attempt ended. cancelled: somebody cancelled it. expired: it was not started by its expires_at."`
	UniqueKey      *string           `json:"unique_key"`
	Traceparent    *string           `json:"traceparent"`
	Meta           map[string]string `json:"meta" type:"Meta"`
	OnComplete     *struct{}         `json:"on_complete" schema:"FollowOn"`
	Hops           *int64            `json:"hops" minimum:"1" maximum:"100" doc:"how many jobs created each other before this one; null if no job created it"`
	CreatedBy      *string           `json:"created_by" maxLength:"128" doc:"the key that created the job; null while there are no keys"`
}

// attempt describes a run that did not succeed.
type attempt struct {
	At       int64   `json:"at" minimum:"0"`
	RunnerID *string `json:"runner_id"`
	Code     *string `json:"code" enum:"ok,failed,retry,error"`
	ExitCode *int64  `json:"exit_code" minimum:"100" maximum:"599"`
	Error    *string `json:"error"`
	Why      string  `json:"why" enum:"reported,abandoned,runner_lost,cancelled" doc:"reported: the runner reported how the run ended. abandoned: the lease or the time-out of the run ended. cancelled: somebody cancelled the job."`
	// The fields below are null in the answer to a claim.
	ClaimID     *job.ID `json:"claim_id" doc:"null if no claim had the job, and in the answer to a claim"`
	StartedAt   *int64  `json:"started_at" minimum:"0" doc:"when the claim got the job, in unix ms; null like claim_id"`
	ProcessExit *int64  `json:"process_exit" doc:"exit status of a process; null also in the answer to a claim"`
	LogAddr     *string `json:"log_addr" doc:"address of what the run printed; null also in the answer to a claim"`
}

type step struct {
	At   int64  `json:"at" minimum:"0"`
	Step string `json:"step"`
}

// JobPart, Job and CreatedJob name the documents of a job in descriptions: with the fields that a request selects, with all
// fields, and as a create answers it.
type (
	JobPart    struct{}
	Job        struct{}
	CreatedJob struct{}
)

// Result describes the result of an outcome.
type Result struct {
	JobID  job.ID  `json:"job_id"`
	Status *string `json:"status" schema:"Status"`
	Code   string  `json:"code,omitzero" schema:"Code"`
	Detail string  `json:"detail,omitzero"`
}

// Results and Accepted describe the answers to completions. The second is for a request in runs.
type (
	Results struct {
		Ended   int64    `json:"ended,omitzero" minimum:"0" doc:"number of jobs that have the outcome for all"`
		Results []Result `json:"results"`
	}
	Accepted struct {
		Ended    int64    `json:"ended,omitzero" minimum:"0" doc:"number of jobs that have the outcome for all"`
		Accepted int64    `json:"accepted" minimum:"0" doc:"number of outcomes that were accepted"`
		Refused  []Result `json:"refused"`
	}
)

type refusalDocument struct {
	Code   string `json:"code" schema:"Code"`
	Detail string `json:"detail"`
}

// ClaimHead describes the first line of a claim as NDJSON. Each following line is the document of a job.
type ClaimHead struct {
	Results         []Result         `json:"results,omitzero"`
	Ended           int64            `json:"ended,omitzero" minimum:"0" doc:"number of jobs that have the outcome for all"`
	CompleteRefused *refusalDocument `json:"complete_refused,omitzero" nullable:"false" doc:"why the outcome for all was refused"`
	ClaimRefused    *refusalDocument `json:"claim_refused,omitzero" nullable:"false" doc:"why the claim was refused"`
	ClaimID         *job.ID          `json:"claim_id"`
	LeaseMs         *int64           `json:"lease_ms" minimum:"1000" maximum:"86400000"`
	Handlers        []claimHandler   `json:"handlers,omitzero" minItems:"1" maxItems:"1000" doc:"the newest versions of the handlers of the jobs; missing if there are none"`
}

// Claimed describes a claim as one document.
type Claimed struct {
	ClaimHead
	Jobs []JobPart `json:"jobs" maxItems:"1000"`
}

// Describe adds the schemas of the answers about jobs.
func Describe(s *openapi.Schemas) {
	fields := openapi.Object[jobFields](s, openapi.InAnswer)
	names := fields.Required
	fields.Required, fields.AdditionalProperties = nil, nil
	fields.Description = "the fields of a job's document. A field without a value is null. Times are in unix ms."
	s.Define("JobFields", fields)
	document := func(text string, required []string, more ...openapi.Property) *openapi.Schema {
		return &openapi.Schema{Description: text, AllOf: []*openapi.Schema{openapi.Ref("JobFields")}, Required: required, Properties: more, UnevaluatedProperties: false}
	}
	openapi.Describe[JobPart](s, "JobPart", document("job_id, and the fields of the job's document that the request selects. In claims of several jobs, without those that are null.", names[:1]))
	openapi.Describe[Job](s, "Job", document("the document of a job", names, openapi.Property{Name: "status", Schema: openapi.Ref("Status")}))
	openapi.Describe[CreatedJob](s, "CreatedJob", document("the document of the new job, or of the unfinished job with the same unique_key", names,
		openapi.Property{Name: "existing", Schema: openapi.Of("boolean").As("only with a unique_key: whether an unfinished job already had it")}))

	var selectable []string
	for _, f := range JobFields {
		selectable = append(selectable, f.Name)
	}
	list := openapi.List(openapi.Enum(selectable...))
	list.MinItems, list.UniqueItems = []byte("1"), true
	openapi.Describe[Selection](s, "FieldNames", list)
}
