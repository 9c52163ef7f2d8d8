package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestOfMachine: ofMachine recognizes errors of the machine, but not a module's names, which errors quote.
func TestOfMachine(t *testing.T) {
	for _, c := range []struct {
		err     error
		machine bool
	}{
		{&os.PathError{Op: "write", Path: "a", Err: syscall.ENOSPC}, true},
		{fmt.Errorf("compile: %w", syscall.ENOMEM), true},
		{errors.New("compilationcache: error mmapping executable (len=100): " + syscall.ENOMEM.Error()), true},
		{&os.PathError{Op: "write", Path: "a", Err: syscall.EFBIG}, false},
		{errors.New("the export compilationcache: error mmapping " + syscall.ENOMEM.Error()), false},
		{errors.New(syscall.ENOMEM.Error()), false},
	} {
		testkit.Equal(t, ofMachine(c.err), c.machine, c.err)
	}
}

// TestCompileErrors: a wrong path is not taken for an error of the machine.
func TestCompileErrors(t *testing.T) {
	dir := t.TempDir()
	err := compile(filepath.Join(dir, "none.wasm"), dir)
	testkit.Holds(t, err != nil && !errors.Is(err, errMachine), "no module", err)
	file := []byte("\x00asm\x01\x00\x00\x00")
	sum := sha256.Sum256(file)
	path := filepath.Join(dir, hex.EncodeToString(sum[:])+Suffix)
	testkit.NoError(t, os.WriteFile(path, file, 0o600))
	err = compile(path, filepath.Join(path, "below a file"))
	testkit.Holds(t, err != nil && !errors.Is(err, errMachine), "no directory", err)
}
