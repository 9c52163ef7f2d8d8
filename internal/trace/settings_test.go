package trace

import (
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

const (
	sampled   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestSettings(t *testing.T) {
	for name, c := range map[string]struct {
		flag     string
		env      []string
		endpoint string // "": off
		warning  string
	}{
		"nothing":                   {},
		"a flag":                    {flag: "http://a:4318", endpoint: "http://a:4318/v1/traces"},
		"a flag with a slash":       {flag: "https://a/", endpoint: "https://a/v1/traces"},
		"a flag with the whole URL": {flag: "https://a/x/v1/traces", endpoint: "https://a/x/v1/traces"},
		"an endpoint":               {env: []string{envEndpoint, " http://a:4318/x "}, endpoint: "http://a:4318/x/v1/traces"},
		"an endpoint of traces":     {env: []string{envEndpoint, "http://b", envTracesEndpoint, "http://a:4318/x"}, endpoint: "http://a:4318/x"},
		"and one without a path":    {env: []string{envTracesEndpoint, "http://a:4318"}, endpoint: "http://a:4318/"},
		"a flag before both":        {flag: "http://c", env: []string{envEndpoint, "http://b", envTracesEndpoint, "http://a"}, endpoint: "http://c/v1/traces"},
		"disabled":                  {flag: "http://c", env: []string{envDisabled, "TRUE"}},
		"not disabled":              {flag: "http://c", env: []string{envDisabled, "false"}, endpoint: "http://c/v1/traces"},
		"no exporter":               {flag: "http://c", env: []string{envExporter, "none"}},
		"another exporter":          {flag: "http://c", env: []string{envExporter, "zipkin"}, warning: envExporter},
		"one of two exporters":      {flag: "http://c", env: []string{envExporter, "console,otlp"}, endpoint: "http://c/v1/traces"},
		"an endpoint of gRPC":       {env: []string{envEndpoint, "collector:4317"}, warning: envEndpoint},
		"an endpoint with secrets":  {env: []string{envTracesEndpoint, "http://user:secret@collector"}, warning: envTracesEndpoint},
		"a strange sampler":         {flag: "http://c", env: []string{envSampler, "secret"}, endpoint: "http://c/v1/traces", warning: envSampler},
		"a ratio above 1":           {flag: "http://c", env: []string{envSampler, "traceidratio", envSamplerArg, "1.5"}, endpoint: "http://c/v1/traces", warning: envSamplerArg},
		"a ratio that is none":      {flag: "http://c", env: []string{envSampler, "parentbased_traceidratio", envSamplerArg, "NaN"}, endpoint: "http://c/v1/traces", warning: envSamplerArg},
		"a good ratio":              {flag: "http://c", env: []string{envSampler, "parentbased_traceidratio", envSamplerArg, "0.25"}, endpoint: "http://c/v1/traces"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := NewSettings(c.flag, environment(c.env...))
			testkit.Holds(t, err == nil && s.On == (c.endpoint != "") && (!s.On || s.Endpoint == c.endpoint), s, err)
			testkit.Holds(t, (s.Warning == "") == (c.warning == "") && strings.HasPrefix(s.Warning, c.warning) &&
				!strings.Contains(s.Warning, "secret"), "warning", s.Warning)
		})
	}
	for _, flag := range []string{"collector:4318", "ftp://a", "http://", "http://user:secret@a", "http://a?key=secret", "http://a#secret", "http://a\x7fsecret"} {
		s, err := NewSettings(flag, environment())
		testkit.Holds(t, err != nil && !strings.Contains(err.Error(), "secret"), "flag", flag, s, err)
	}
}

// TestNever: each sampler refuses the right runs before they are queued.
func TestNever(t *testing.T) {
	for name, want := range map[string][3]bool{ // without a producer, producer not sampled, producer sampled
		"":                         {false, true, false},
		"parentbased_always_on":    {false, true, false},
		"parentbased_always_off":   {true, true, false},
		"parentbased_traceidratio": {false, true, false},
		"always_on":                {false, false, false},
		"always_off":               {true, true, true},
		"traceidratio":             {false, false, false},
	} {
		s, warning := newSampling(name, "")
		testkit.Equal(t, warning, "", name)
		for i, traceparent := range []string{"", unsampled, sampled} {
			testkit.Equal(t, s.never(&job.RunEnd{Traceparent: traceparent}), want[i], name, traceparent)
		}
	}
}
