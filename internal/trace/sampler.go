package trace

import (
	"fmt"
	"strconv"
	"strings"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"github.com/daybookq/daybook/job"
)

const (
	envSampler    = "OTEL_TRACES_SAMPLER"
	envSamplerArg = "OTEL_TRACES_SAMPLER_ARG"
)

// parentBased is the prefix of samplers that follow the producer's flag.
const parentBased = "parentbased_"

const defaultSampler = parentBased + "always_on"

// sampling decides which runs become spans.
type sampling struct {
	sampler sdk.Sampler
	// These runs need not be queued, because the sampler always refuses them:
	unlinkedNever  bool // runs of jobs without a traceparent
	unsampledNever bool // runs of jobs whose producer was not sampled
	sampledNever   bool // runs of jobs whose producer was sampled
}

// newSampling returns the sampler that the variables name, as the OpenTelemetry specification defines them. If they are
// invalid, it returns a default and a warning.
func newSampling(name, arg string) (s sampling, warning string) {
	if name = strings.ToLower(name); name == "" {
		name = defaultSampler
	}
	root, follows := strings.CutPrefix(name, parentBased)
	var base sdk.Sampler
	switch root {
	case "always_on":
		base = sdk.AlwaysSample()
	case "always_off":
		base = sdk.NeverSample()
	case "traceidratio":
		ratio := 1.0
		if arg != "" {
			given, err := strconv.ParseFloat(arg, 64)
			if err != nil || !(given >= 0 && given <= 1) {
				warning = fmt.Sprintf("%s must be a number from 0 to 1; all runs are sampled that %s lets through", envSamplerArg, name)
			} else {
				ratio = given
			}
		}
		base = sdk.TraceIDRatioBased(ratio)
	default:
		s, _ = newSampling(defaultSampler, "")
		return s, fmt.Sprintf("%s names no supported sampler; %s is used", envSampler, defaultSampler)
	}
	never := root == "always_off"
	s = sampling{sampler: base, unlinkedNever: never, unsampledNever: follows || never, sampledNever: never && !follows}
	if follows {
		s.sampler = sdk.ParentBased(base)
	}
	s.sampler = byLink{s.sampler}
	return s, warning
}

// never reports whether the sampler always refuses runs such as this.
func (s *sampling) never(e *job.RunEnd) bool {
	switch {
	case e.Traceparent == "":
		return s.unlinkedNever
	case isSampled(e.Traceparent):
		return s.sampledNever
	}
	return s.unsampledNever
}

// isSampled reports whether the flag of a traceparent says that the producer was sampled. Package job has already checked
// the traceparent's form.
func isSampled(traceparent string) bool {
	flags, err := strconv.ParseUint(traceparent[len(traceparent)-2:], 16, 8)
	return err == nil && api.TraceFlags(flags).IsSampled()
}

// byLink makes a sampler treat the linked span of a span as its remote parent.
type byLink struct{ sdk.Sampler }

// ShouldSample passes the linked context and its trace id to the sampler.
func (s byLink) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	if len(p.Links) == 1 {
		linked := p.Links[0].SpanContext
		p.ParentContext, p.TraceID = api.ContextWithRemoteSpanContext(p.ParentContext, linked), linked.TraceID()
	}
	return s.Sampler.ShouldSample(p)
}
