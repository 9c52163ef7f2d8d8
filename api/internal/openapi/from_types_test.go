package openapi

import (
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/internal/testkit"
)

type part struct {
	N int64 `json:"n" minimum:"0" maximum:"9"`
}

type embedded struct {
	Inner string `json:"inner"`
}

type sampleDocument struct {
	*embedded
	Text   string            `json:"text" doc:"a text" minLength:"1" maxLength:"8"`
	Whole  *part             `json:"whole"`
	Left   *int64            `json:"left,omitzero" minimum:"1"`
	Named  *string           `json:"named" schema:"Name"`
	Choice *string           `json:"choice" enum:"a,b"`
	List   []string          `json:"list" maxItems:"3" maxLength:"5"`
	Parts  []part            `json:"parts" nullable:"true"`
	Labels map[string]string `json:"labels" maxProperties:"4" names:"^x$" maxLength:"6"`
	Not    int               `json:"-"`
}

// TestSchemas: fields have the bounds of their tags, and null where the value can be null.
func TestSchemas(t *testing.T) {
	var s Schemas
	got := s.Value(reflect.TypeFor[sampleDocument](), InAnswer)
	testkit.Equal(t, got.Ref, "#/components/schemas/Sample", got)
	s.Value(reflect.TypeFor[sampleDocument](), InAnswer) // a second use is the same component
	text := testkit.Must(json.Marshal(s.Components()))(t)
	want := `{"Part":{"type":"object","required":["n"],"properties":{"n":{"type":"integer","minimum":0,"maximum":9}},"additionalProperties":false},` +
		`"Sample":{"type":"object","required":["text","whole","named","choice","list","parts","labels"],"properties":{` +
		`"inner":{"type":"string"},` +
		`"text":{"type":"string","description":"a text","minLength":1,"maxLength":8},` +
		`"whole":{"oneOf":[{"$ref":"#/components/schemas/Part"},{"type":"null"}]},` +
		`"left":{"type":["integer","null"],"minimum":1},` +
		`"named":{"oneOf":[{"$ref":"#/components/schemas/Name"},{"type":"null"}]},` +
		`"choice":{"type":["string","null"],"enum":["a","b",null]},` +
		`"list":{"type":"array","items":{"type":"string","maxLength":5},"maxItems":3},` +
		`"parts":{"type":["array","null"],"items":{"$ref":"#/components/schemas/Part"}},` +
		`"labels":{"type":"object","maxProperties":4,"propertyNames":{"pattern":"^x$"},"additionalProperties":{"type":"string","maxLength":6}}},"additionalProperties":false}}`
	testkit.Equal(t, string(text), want)
}

// TestNames: two types with the same name would describe each other's values.
func TestNames(t *testing.T) {
	type sample struct{}
	var s Schemas
	s.Value(reflect.TypeFor[sampleDocument](), InAnswer)
	defer func() { testkit.Holds(t, recover() != nil, "two types have one name") }()
	s.Value(reflect.TypeFor[sample](), InAnswer)
}

// TestRequests: a field of a request is required only if it says so, and a type has another schema in requests.
func TestRequests(t *testing.T) {
	type thing struct {
		A string `json:"a" required:"true"`
		B string `json:"b"`
	}
	var s Schemas
	s.Value(reflect.TypeFor[thing](), InAnswer)
	got := s.Value(reflect.TypeFor[thing](), InRequest)
	testkit.Equal(t, got.Ref, "#/components/schemas/ThingRequest", got)
	testkit.EqualSlices(t, s.Components()[1].Schema.Required, []string{"a"}, "required")
}

// TestDocumentRefusesTwoDescriptions: an operation has one description.
func TestDocumentRefusesTwoDescriptions(t *testing.T) {
	for name, c := range map[string]struct {
		operations []*Operation
		ok         bool
	}{
		"another method": {[]*Operation{{Method: "GET", Path: "/a"}, {Method: "POST", Path: "/a"}}, true},
		"the same":       {[]*Operation{{Method: "GET", Path: "/a"}, {Method: "GET", Path: "/a"}}, false},
	} {
		text, _, err := Document(&Head{}, c.operations, &Schemas{})
		testkit.Holds(t, (err == nil) == c.ok, name, err, text)
	}
}

// TestSharedParameters: a parameter that three operations have is a component, and another one of its name stays where it is.
func TestSharedParameters(t *testing.T) {
	limit := Parameter{Name: "limit", In: "query", Schema: Integer(1, 9)}
	var operations []*Operation
	for _, path := range []string{"/a", "/b", "/c", "/d"} {
		operations = append(operations, &Operation{Method: "GET", Path: path, Parameters: []Parameter{limit}})
	}
	operations[3].Parameters[0].Schema = Integer(1, 10)
	shared, err := sharedParameters(operations)
	if err != nil || len(shared) != 1 || shared["query.limit"].Name != "limit" || operations[0].Parameters[0].Ref != "#/components/parameters/query.limit" || operations[3].Parameters[0].Ref != "" {
		t.Errorf("%v, %+v, %v", shared, operations[3].Parameters, err)
	}
}
