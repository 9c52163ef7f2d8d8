package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestManifest: PUT /handlers/{type} takes a manifest in TOML, and stores the same handler as for the equal JSON.
func TestManifest(t *testing.T) {
	r := start(t)
	put := func(kind, text string) reply {
		t.Helper()
		return r.do(http.MethodPut, "/handlers/facts", strings.NewReader(text), "Content-Type", kind)
	}
	address := strings.Repeat("0", 40)
	o := put("application/toml", "name = \"serval-facts\"\nnamespace = \"com.example\"\nversion = \"1\"\nbinary = \""+address+"\"\nrequired_permissions = [\"http:example.com\"]\n").object(http.StatusCreated)
	want(t, o, "kind", "wasi", "type", "facts")
	stored := o["handler"].(map[string]any)
	want(t, stored, "kind", "wasi", "name", "serval-facts", "namespace", "com.example", "version", "1", "binary", address)
	p := stored["required_permissions"].([]any)
	testkit.Holds(t, len(p) == 1 && p[0] == "http:example.com", "the permissions are", p)
	put("application/json", `{"binary":"`+address+`","kind":"wasi","name":"serval-facts","namespace":"com.example","version":"1","required_permissions":["http:example.com"]}`).object(http.StatusOK)
	for _, c := range []struct{ text, field string }{
		{"", "binary"},
		{"binary = \"facts.wasm\"", "binary"},
		{"binary = \"" + address + "\"\nkind = \"wasi\"", "kind"},
		{"binary = \"" + address + "\"\nrequired_permissions = [\"root\"]", "required_permissions"},
		{"binary = \"" + address + "\"\nname = \"a b\"", "name"},
	} {
		o := put("application/toml", c.text).refused(http.StatusBadRequest, "bad_request")
		want(t, o, "field", c.field)
	}
	for _, text := range []string{"binary = ", `{"kind":"wasi"}`, "binary = 1", strings.Repeat("#", 1<<20+1)} {
		put("application/toml", text).refused(http.StatusBadRequest, "bad_request")
	}
	put("application/yaml", "binary: "+address).refused(http.StatusUnsupportedMediaType, "unsupported_media_type")
}
