package serve

import (
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestDefaultData: the default data directory need not have a journal.
func TestDefaultData(t *testing.T) {
	f := NewFlags(api.Version{})
	f.Define(pflag.NewFlagSet("serve", pflag.ContinueOnError))
	testkit.Check(t, f.checkData())
}

// TestFatalCode: a full disk has the exit code of files.
func TestFatalCode(t *testing.T) {
	for reason, code := range map[string]int{
		"store: MANIFEST flush failed: write store/MANIFEST-000005: " + syscall.ENOSPC.Error(): terminal.ExitFile,
		"store: MANIFEST flush failed: write store/MANIFEST-000005: " + syscall.EIO.Error():    terminal.ExitError,
	} {
		testkit.Equal(t, fatalCode(reason), code, reason)
	}
}
