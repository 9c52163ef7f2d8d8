package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestBodyOfADayAgo: add checks a body that was sent without an answer again just before it would send it, which may be
// hours after it opened the file. It sends the body again only with --unknown repeat.
func TestBodyOfADayAgo(t *testing.T) {
	lines := []byte("a\n")
	b := client.AddedBody{Offset: 0, Bytes: len(lines)}
	for _, c := range []struct {
		name    string
		unknown string
		later   time.Duration
		refused bool
	}{
		{"a young one", "", KeyAge - time.Minute, false},
		{"an old one", "", KeyAge + time.Second, true},
		{"an old one with skip", "skip", KeyAge + time.Second, true}, // it was not old when the bodies were skipped
		{"an old one with repeat", "repeat", KeyAge + time.Second, false},
		{"one of the future", "", -2 * time.Minute, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			s := testkit.Must(OpenAdd(path, Head{}))(t)
			testkit.NoError(t, s.Body(b, lines))
			s.Close()
			s = testkit.Must(OpenAdd(path, Head{}))(t)
			defer s.Close()
			s.Repeat = c.unknown == "repeat"
			_, forgotten := s.Resumed()
			testkit.MustHold(t, len(forgotten) == 0, "it is old at the start", forgotten)
			now := time.Now().Add(c.later)
			s.now = func() time.Time { return now }
			err := s.Body(b, lines)
			testkit.Holds(t, errors.Is(err, client.ErrUnknown) == c.refused && (err == nil || c.refused), err)
			sent := bytes.Count(testkit.Must(os.ReadFile(path))(t), []byte(`"event":"sent"`))
			testkit.Equal(t, sent, map[bool]int{true: 2, false: 1}[s.Repeat], "the file says that it")
		})
	}
}
