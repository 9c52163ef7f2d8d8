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
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
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
		if d, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%.50q: %+v, %v, want %q", text, d, err, message)
		}
	}
	_, err = Parse([]byte("source = \"a\""))
	if wrong, ok := errors.AsType[*handler.FieldError](err); !ok || wrong.Field != "source" {
		t.Errorf("%v does not name the field", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("binary = \"a\"\nrequired_permissions = [\"http:*\"]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if d, err := Parse(text); err == nil && d.Kind != handler.WASI {
			t.Errorf("%q: %+v", text, d)
		}
	})
}
