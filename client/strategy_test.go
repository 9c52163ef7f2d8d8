package client_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

func TestStrategy(t *testing.T) {
	for strategy, want := range map[client.Strategy]string{
		client.Fair: `"fair"`,
		"best":      `"best"`, // which the server refuses
		client.PreferDistinct("user", client.Random):                                  `{"meta_key":"user","name":"prefer_distinct","underlying":"random"}`,
		client.PreferDistinct("region", client.PreferDistinct("user", client.Newest)): `{"meta_key":"region","name":"prefer_distinct","underlying":{"meta_key":"user","name":"prefer_distinct","underlying":"newest"}}`,
		client.PreferDistinct("user", ""):                                             `{"meta_key":"user","name":"prefer_distinct","underlying":"oldest"}`,
	} {
		got, err := json.Marshal(strategy)
		testkit.Holds(t, string(got) == want && err == nil, strategy, "is sent as", got, err)
	}
	five := client.Oldest
	for range 5 {
		five = client.PreferDistinct("k", five)
	}
	for _, strategy := range []client.Strategy{five, client.PreferDistinct("a b", client.Oldest), client.PreferDistinct("a/b", client.Oldest), client.PreferDistinct("", client.Oldest), client.PreferDistinct("a", "best")} {
		if got, err := json.Marshal(strategy); !errors.Is(err, problem.ErrBadRequest) {
			t.Errorf("%s is sent as %s, %v", strings.TrimSpace(string(strategy)), got, err)
		}
	}
}
