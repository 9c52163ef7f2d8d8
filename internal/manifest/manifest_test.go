package manifest

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
)

func TestParse(t *testing.T) {
	got, err := Parse([]byte(`name = "serval-facts" # digits and hyphens are fine
namespace = "com.example"
version = "1.0.0"
binary = "sha256-3liqNz2EfPx2zlWscP9ijO5U3GSLdPD+mUKCQkBd670="
description = "facts"
required_extensions = ["as-fib"]
required_permissions = [
  "http:example.com",
  "extension:as-fib",
]
`))
	want := handler.Document{
		Kind: handler.WASI, Name: "serval-facts", Namespace: "com.example", Version: "1.0.0", Binary: "sha256-3liqNz2EfPx2zlWscP9ijO5U3GSLdPD+mUKCQkBd670=", Description: "facts",
		RequiredExtensions: []string{"as-fib"}, RequiredPermissions: []string{"http:example.com", "extension:as-fib"},
	}
	testkit.Holds(t, err == nil && reflect.DeepEqual(got, want), got, err)
	testkit.Check(t, got.Check())
	for text, message := range map[string]string{
		"binary = \"a\"\nurl = \"b\"":       "url is no key of a manifest",
		"[options]\nslots = 1":              "options is no key",
		"name = 1":                          "line 1 of the manifest",
		"name = \"a\"\nname = \"b\"":        "line 2 of the manifest",
		"version = \"a":                     "line 1 of the manifest",
		"{\"binary\":\"a\"}":                "line 1 of the manifest",
		strings.Repeat("#", MaxBytes+1):     "1048577 bytes",
		"required_permissions = \"http:*\"": "line 1 of the manifest",
	} {
		d, err := Parse([]byte(text))
		testkit.Holds(t, err != nil && strings.Contains(err.Error(), message), text, d, err, "want", message)
	}
	_, err = Parse([]byte("source = \"a\""))
	wrong, ok := errors.AsType[*handler.FieldError](err)
	testkit.Holds(t, ok && wrong.Field == "source", err, "does not name the field")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("binary = \"a\"\nrequired_permissions = [\"http:*\"]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse(text)
		testkit.Holds(t, err != nil || d.Kind == handler.WASI, string(text), d)
	})
}
