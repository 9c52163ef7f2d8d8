package command

import (
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/job"
)

// NewItem and NewBatch describe bodies of POST /jobs/create: an item of a list, and a batch with its jobs.
type (
	NewItem  struct{}
	NewBatch struct {
		Batch batchRequest    `json:"batch" required:"true"`
		Jobs  []CreateRequest `json:"jobs"`
	}
)

// OutcomeForAll and Outcomes describe the two forms of a CompleteRequest.
type (
	outcomeForAll struct {
		ClaimID  job.ID  `json:"claim_id" required:"true"`
		RunnerID *string `json:"runner_id" schema:"RunnerId"`
		OutcomeFields
		Except   []exceptItem `json:"except" maxItems:"1000" nullable:"true"`
		Outcomes struct{}     `json:"outcomes" schema:"Null"`
	}
	outcomes struct {
		Fences
		Outcomes []outcomeItem `json:"outcomes" required:"true"`
	}
)

// Describe adds the schemas of requests about jobs, and the rules between their fields.
func Describe(s *openapi.Schemas) {
	null, text, number := openapi.Of("null"), openapi.Of("string"), openapi.Of("integer")
	is := func(name string, schema *openapi.Schema) openapi.Property {
		return openapi.Property{Name: name, Schema: schema}
	}
	// where returns the schema of objects that have one property, while others, if they are there, have a schema.
	where := func(has openapi.Property, others ...openapi.Property) *openapi.Schema {
		o := openapi.With(has)
		o.Properties = append(o.Properties, others...)
		return o
	}
	s.Define("Null", null)
	s.Define("Timeout", openapi.Either(openapi.Integer(job.MinTimeoutMs, job.MaxTimeoutMs), openapi.Const(0)))
	s.Define("MetaValue", &openapi.Schema{Type: openapi.Types{"string", "integer"}})
	runs := openapi.Pattern("^#:(create|claim|complete|results|batch) v=1 ")
	s.Define("Runs", runs.As("Jobs, outcomes or results in runs. A run is a stretch of jobs with consecutive ids that have everything but their payloads\n"+
		"in common. One head line describes them, and their payloads follow as they were posted. docs/reference/format-runs.md has\n"+
		"the grammar. Payloads may have bytes that are not text.\n"))

	openapi.Name[backoff](s, openapi.InRequest, "Backoff")
	openapi.Name[CreateRequest](s, openapi.InRequest, "NewJob")
	openapi.Rule[CreateRequest](s, func(o *openapi.Schema) {
		o.Description = "A job has at most one of payload, payload_b64 and binary_addr, and at most one of run_at and delay_ms. null\nmeans that the field is absent.\n"
		o.NotBoth("payload", "payload_b64")
		o.NotBoth("payload", "binary_addr")
		o.NotBoth("payload_b64", "binary_addr")
		o.NotBoth("run_at", "delay_ms")
		o.AllOf = append(o.AllOf, &openapi.Schema{Not: where(is("input_addr", text), is("binary_addr", null))})
	})
	followOn := openapi.Object[Attributes](s, openapi.InRequest)
	followOn.Description = "The job that is created when a job completes, in the same record of the journal. Its payload is the output of\n" +
		"that job; if the output is stored elsewhere, its address as a text. It inherits client, traceparent and meta\n" +
		"where these are absent. null means that a field is absent. All jobs after a job together take at most 4 KiB in\nthe journal.\n"
	followOn.Required = []string{"type"}
	followOn.Property("type").Schema = openapi.Ref("Name")
	followOn.Property("run_at").Schema, followOn.Property("expires_at").Schema = null, null
	followOn.Property("delay_ms").Schema.Description = "how long after the completion the job becomes pending"
	s.Define("FollowOn", followOn)

	openapi.Name[batchRequest](s, openapi.InRequest, "BatchAttributes")
	openapi.Name[NewBatch](s, openapi.InRequest, "NewBatch")
	openapi.Rule[batchRequest](s, func(o *openapi.Schema) { o.Description = "what is said of a batch at its creation" })
	first := openapi.Object[NewBatch](s, openapi.InRequest)
	first.Properties = first.Properties[:1]
	openapi.Describe[NewItem](s, "NewItem", openapi.Either(openapi.Ref("NewJob"), first).As("a job or, as the first item only, the batch that the jobs belong to"))
	openapi.Name[positionResult](s, openapi.InAnswer, "Position")
	openapi.Rule[CreatedDocument](s, func(o *openapi.Schema) {
		o.Properties = append(o.Properties, is("run_at", openapi.List(&openapi.Schema{Type: number.Type, Minimum: []byte("0")}).
			As("if the jobs belong to no batch and at least one is deferred: for each job when it becomes pending, in unix ms, or 0")))
	})

	openapi.Rule[OutcomeFields](s, func(o *openapi.Schema) {
		o.Description = "How a run ended. status completed means code ok, and status failed means code failed. An exit_code without a\n" +
			"code implies the code. At least one of them is required. null means that the field is absent.\n"
		o.NotBoth("output", "output_b64")
		delay := openapi.With(is("delay_ms", number)).As("delay_ms requires the code retry or error")
		delay.AnyOf = []*openapi.Schema{openapi.With(is("status", text)), openapi.With(is("code", &openapi.Schema{Enum: []any{"ok", "failed"}}))}
		o.AllOf = append(o.AllOf, &openapi.Schema{Not: delay})
		o.AnyOf = append(o.AnyOf, openapi.With(is("status", text)), openapi.With(is("code", text)), openapi.With(is("exit_code", number)))
	})
	openapi.Name[EndRequest](s, openapi.InRequest, "Completion")
	openapi.Name[outcomeItem](s, openapi.InRequest, "Outcome")
	openapi.Name[exceptItem](s, openapi.InRequest, "Exception")
	openapi.Name[outcomeForAll](s, openapi.InRequest, "OutcomeForAll")
	openapi.Name[outcomes](s, openapi.InRequest, "Outcomes")
	openapi.Part[outcomeForAll](s, openapi.InRequest)
	openapi.Part[outcomes](s, openapi.InRequest)
	openapi.Describe[CompleteRequest](s, "Completions", openapi.Either(openapi.Ref("OutcomeForAll"), openapi.Ref("Outcomes")))
	list := openapi.List(openapi.Ref("Outcome"))
	list.MaxItems = []byte("1000")
	s.Define("ClaimedOutcomes", openapi.Either(list, openapi.Ref("Completions")))

	openapi.Name[TickleFields](s, openapi.InRequest, "Tickle")
	openapi.Name[TickleManyRequest](s, openapi.InRequest, "Tickles")
	openapi.Rule[TickleManyRequest](s, func(o *openapi.Schema) {
		o.Description = "A tickle of the jobs in job_ids. Without job_ids, it is for all jobs that the claim holds. Without a claim_id,\n" +
			"it is for all jobs that the runner holds. step and progress require job_ids.\n"
		o.AnyOf = []*openapi.Schema{openapi.With(is("job_ids", openapi.Of("array"))), where(is("claim_id", text), is("step", null), is("progress", null)),
			where(is("runner_id", text), is("step", null), is("progress", null))}
	})
	openapi.Name[ReleaseRequest](s, openapi.InRequest, "Release")
	openapi.Rule[ReleaseRequest](s, func(o *openapi.Schema) {
		o.AllOf = append(o.AllOf, &openapi.Schema{Not: openapi.With(is("how", &openapi.Schema{Enum: []any{"unget", "archive"}}), is("delay_ms", number)).As("delay_ms requires how to be retry")})
	})
	describeStrategy(s)
}
