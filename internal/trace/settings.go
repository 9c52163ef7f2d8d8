package trace

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Settings define whether spans are exported, and where to.
type Settings struct {
	On bool
	// Endpoint is the URL to which spans are posted.
	Endpoint string
	// Warning, if not empty, names a variable with an invalid value, and the consequence.
	Warning string
	sampling
}

// tracesPath is the path for spans, relative to a collector's URL.
const tracesPath = "/v1/traces"

// Variables that switch the export on or off. The SDK reads further variables.
const (
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envDisabled       = "OTEL_SDK_DISABLED"
	envExporter       = "OTEL_TRACES_EXPORTER"
)

// NewSettings returns the settings from the flag, which may be empty, and from the environment. The flag is the URL of a
// collector, and has precedence over the variables with an endpoint. Spans are not exported if there is no endpoint, if
// OTEL_SDK_DISABLED is true, or if OTEL_TRACES_EXPORTER does not name otlp. NewSettings returns an error if the flag is
// invalid. An invalid variable only sets Warning, since other programs may share the environment.
func NewSettings(flag string, getenv func(string) string) (s Settings, err error) {
	env := func(name string) string { return strings.TrimSpace(getenv(name)) }
	if flag != "" {
		if s.Endpoint, err = endpointOf(flag, true); err != nil {
			return s, err
		}
	}
	if strings.EqualFold(env(envDisabled), "true") {
		return Settings{}, nil
	}
	if list := env(envExporter); list != "" {
		names := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
		if !slices.Contains(names, "otlp") {
			off := Settings{}
			if !slices.Equal(names, []string{"none"}) {
				off.Warning = envExporter + " does not name otlp, and no other exporter is supported; no spans are exported"
			}
			return off, nil
		}
	}
	if s.Endpoint == "" {
		name, base := envTracesEndpoint, false
		if env(name) == "" {
			name, base = envEndpoint, true
		}
		if env(name) == "" {
			return s, nil
		}
		if s.Endpoint, err = endpointOf(env(name), base); err != nil {
			s.Warning = fmt.Sprintf("%s: %v; no spans are exported", name, err)
			return s, nil
		}
	}
	s.On = true
	s.sampling, s.Warning = newSampling(env(envSampler), env(envSamplerArg))
	return s, nil
}

// endpointOf checks a URL, and returns the URL to which spans are posted. If base is set, the URL is a collector's, and
// endpointOf appends tracesPath unless the URL already ends in it. Its errors contain no part of the URL, which may have
// secrets.
func endpointOf(text string, base bool) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", errors.New("it is not a URL such as http://127.0.0.1:4318")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", errors.New("it must begin with http:// or https:// and have a host, as in http://127.0.0.1:4318")
	case u.User != nil:
		return "", errors.New("it must not have a user name or password; set OTEL_EXPORTER_OTLP_HEADERS instead")
	case u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("it must not have a query or a fragment")
	}
	if base && !strings.HasSuffix(u.Path, tracesPath) {
		u.Path = strings.TrimRight(u.Path, "/") + tracesPath
	}
	u.Path = cmp.Or(u.Path, "/")
	return u.String(), nil
}
