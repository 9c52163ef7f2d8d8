package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// strategy reads a strategy: the name of a base strategy, an object with such a name, or
//
//	{"name":"prefer_distinct","meta_key":"user","underlying":{"name":"random"}}
//
// field is the strategy's place in the body. above is the number of prefer_distinct strategies around it.
func strategy(field string, v jsontext.Value, above int) (job.Strategy, error) {
	if v.Kind() != jsontext.KindBeginObject {
		var name string
		if err := web.DecodeValue(field, v, &name); err != nil {
			return job.Oldest, err
		}
		if name == job.PreferDistinctName {
			return job.Oldest, web.BadRequest(field, fmt.Sprintf("%s %s needs a meta_key, as in %s", field, name, distinctExample))
		}
		return baseStrategy(field, name)
	}
	var object distinctStrategy
	if err := web.DecodeValue(field, v, &object); err != nil {
		return job.Oldest, err
	}
	switch {
	case object.Name == nil:
		return job.Oldest, web.BadRequest(field+".name", field+".name is missing")
	case *object.Name != job.PreferDistinctName && object.MetaKey != nil:
		return job.Oldest, web.BadRequest(field+".meta_key", fmt.Sprintf("%s.meta_key is a field of %s only", field, job.PreferDistinctName))
	case *object.Name != job.PreferDistinctName && !web.Absent(object.Underlying):
		return job.Oldest, web.BadRequest(field+".underlying", fmt.Sprintf("%s.underlying is a field of %s only", field, job.PreferDistinctName))
	case *object.Name != job.PreferDistinctName:
		return baseStrategy(field, *object.Name)
	case object.MetaKey == nil:
		return job.Oldest, web.BadRequest(field+".meta_key", field+".meta_key is missing: the key of meta whose values are preferred by how few active jobs they have, as in "+distinctExample)
	case above == job.MaxDistinctKeys: // checked before the underlying strategy, so that a body cannot nest more
		return job.Oldest, web.BadRequest(field, fmt.Sprintf("%s is nested more than %d times", job.PreferDistinctName, job.MaxDistinctKeys))
	}
	underlying := job.Oldest
	if !web.Absent(object.Underlying) {
		var err error
		if underlying, err = strategy(field+".underlying", object.Underlying, above+1); err != nil {
			return job.Oldest, err
		}
	}
	s, err := job.PreferDistinct(*object.MetaKey, underlying)
	return s, web.BadField(field+".meta_key", err)
}

const distinctExample = `{"name":"prefer_distinct","meta_key":"user"}`

func baseStrategy(field, name string) (job.Strategy, error) {
	if !slices.Contains(job.StrategyNames, name) {
		return job.Oldest, web.BadRequest(field, fmt.Sprintf("%s must be %s, or an object with the name %s, not %q",
			field, strings.Join(job.StrategyNames, ", "), job.PreferDistinctName, web.Shortened(name)))
	}
	return job.ParseStrategy(name)
}

// distinctStrategy is a strategy as an object. Only prefer_distinct has the fields after the name.
type distinctStrategy struct {
	Name       *string        `json:"name" required:"true" nullable:"false" enum:"prefer_distinct"`
	MetaKey    *string        `json:"meta_key" required:"true" nullable:"false" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9._:-]+$"`
	Underlying jsontext.Value `json:"underlying" schema:"Strategy" nullable:"true" doc:"a strategy, or null for oldest; prefer_distinct may be nested four times in all"`
}

func describeStrategy(s *openapi.Schemas) {
	s.Define("BaseStrategy", openapi.Enum(job.StrategyNames...))
	named := openapi.With(openapi.Property{Name: "name", Schema: openapi.Ref("BaseStrategy")})
	named.Type, named.AdditionalProperties = openapi.Types{"object"}, false
	distinct := openapi.Object[distinctStrategy](s, openapi.InRequest)
	distinct.Description = "The jobs whose value of a key of meta has the fewest active jobs of the same client come first. Jobs without\n" +
		"the key count as of a value without active jobs. Among equals, the order is that of the underlying strategy.\n"
	s.Define("Strategy", openapi.Either(openapi.Ref("BaseStrategy"), named, distinct))
}
