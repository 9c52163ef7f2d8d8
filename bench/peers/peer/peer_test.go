package peer

import (
	"errors"
	"os"
	"testing"

	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/internal/testkit"
)

func TestMain(m *testing.M) {
	if port := os.Getenv(EchoVar); port != "" { // the server of echo
		panic(ServeEcho(port))
	}
	os.Exit(m.Run())
}

// TestDrivers: every installed peer does each of its works.
func TestDrivers(t *testing.T) {
	works := measure.Works()
	work := reachable(t)
	for _, d := range Drivers(work) {
		t.Run(d.Name(), func(t *testing.T) {
			described, err := d.Describe(t.Context())
			if errors.Is(err, measure.ErrMissing) {
				t.Skip(err)
			}
			testkit.Holds(t, err == nil && described.Driver == d.Name() && described.System != "" && described.Durable != "" &&
				described.Usage != "", "the description is", described, err)
			s := testkit.Must(d.Start(t.Context(), reachable(t)))(t)
			defer func() { testkit.Check(t, s.Close()) }()
			for _, w := range works {
				if !d.Does(w) {
					continue
				}
				result, err := measure.Do(t.Context(), s, w, 200)
				testkit.Holds(t, err == nil && result.Jobs == 200 && result.Seconds > 0, w.Name, result, err)
			}
		})
	}
}

// reachable returns a temporary directory that a server of another user can reach. It cannot reach those from t.TempDir.
func reachable(t *testing.T) string {
	t.Helper()
	dir := testkit.Must(os.MkdirTemp("", "peer-test-"))(t)
	t.Cleanup(func() { testkit.Check(t, os.RemoveAll(dir)) })
	testkit.NoError(t, os.Chmod(dir, 0o755))
	return dir
}
