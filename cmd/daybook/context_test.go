package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// TestContextsAtOnce: no context is lost if several commands add one at the same time.
func TestContextsAtOnce(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	const n = 20
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			if r := execute(t, "", "context", "add", fmt.Sprint("c", i), "http://127.0.0.1:1"); r.code != terminal.ExitOK {
				t.Errorf("%+v", r)
			}
		})
	}
	group.Wait()
	if got := strings.Count(ok(t, "context", "list", "--json"), "\n"); got != n {
		t.Errorf("%d contexts", got)
	}
}
