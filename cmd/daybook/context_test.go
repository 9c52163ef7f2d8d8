package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestContextsAtOnce: no context is lost if several commands add one at the same time.
func TestContextsAtOnce(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	const n = 20
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			execute(t, "", "context", "add", fmt.Sprint("c", i), "http://127.0.0.1:1").ends(t, terminal.ExitOK)
		})
	}
	group.Wait()
	testkit.Equal(t, strings.Count(ok(t, "context", "list", "--json"), "\n"), n)
}
