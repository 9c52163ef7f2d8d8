package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
)

// TestRates: a request beyond a rate is repeated when the server says so, over HTTP and in streams.
func TestRates(t *testing.T) {
	ctx := t.Context()
	url := daybooktest.Start(t).URL
	boss := testkit.Must(client.New(url, client.Options{}).CreateKey(ctx, client.KeyRequest{Name: "boss", KeyLimits: client.KeyLimits{Roles: []string{"admin"}}}))(t)
	admin := client.New(url, client.Options{Key: boss.Text})
	want := client.Rates{Creates: 1}
	key := func(name string) string {
		made := testkit.Must(admin.CreateKey(ctx, client.KeyRequest{Name: name, KeyLimits: client.KeyLimits{Roles: []string{"producer"}, Rates: &want}}))(t)
		testkit.Equal(t, *made.Rates, want)
		return made.Text
	}
	once := client.New(url, client.Options{Key: key("p"), RetryFor: time.Nanosecond})
	testkit.Equal(t, *testkit.Must(once.Whoami(ctx))(t).Rates, want)
	_, err := once.CreateMany(ctx, make([]client.NewJob, 3600), client.CreateOptions{})
	testkit.NoError(t, err)
	_, err = once.Create(ctx, client.NewJob{})
	refused, ok := errors.AsType[*client.Error](err)
	testkit.MustHold(t, ok && errors.Is(err, client.ErrOverloaded), err)
	testkit.Holds(t, refused.Code == "rate_limited" && refused.RetryAfter > time.Minute && refused.Outcome == "not_stored", refused)
	var streamed client.Error
	testkit.NoError(t, json.Unmarshal([]byte(`{"status":429,"code":"rate_limited","retry_after":7}`), &streamed))
	testkit.Equal(t, streamed.RetryAfter, 7*time.Second)
	patient := client.New(url, client.Options{Key: key("q")})
	testkit.Must(patient.Create(ctx, client.NewJob{}))(t)
	testkit.Must(patient.Create(ctx, client.NewJob{}))(t)
}
