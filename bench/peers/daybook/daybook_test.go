package daybook

import (
	"os"
	"slices"
	"testing"

	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/bench/peers/peer"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
)

func TestMain(m *testing.M) {
	if port := os.Getenv(peer.EchoVar); port != "" { // the server of echo
		panic(peer.ServeEcho(port))
	}
	os.Exit(m.Run())
}

// TestDrivers: every client does each of its works on the real server.
func TestDrivers(t *testing.T) {
	if _, err := daybooktest.Binary(); err != nil {
		t.Skip(err)
	}
	works := measure.Works()
	for _, d := range Drivers() {
		t.Run(d.Name(), func(t *testing.T) {
			_, err := d.Describe(t.Context())
			testkit.Check(t, err)
			s := testkit.Must(d.Start(t.Context(), t.TempDir()))(t)
			defer func() { testkit.Check(t, s.Close()) }()
			for _, w := range slices.DeleteFunc(slices.Clone(works), func(w measure.Work) bool { return !d.Does(w) }) {
				result, err := measure.Do(t.Context(), s, w, 300)
				testkit.Holds(t, err == nil && result.Jobs == 300 && result.Seconds > 0, w.Name, result, err)
			}
		})
	}
}
