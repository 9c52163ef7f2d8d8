//go:build !linux

package rig

import (
	"errors"
	"time"

	"github.com/daybookq/daybook/client/daybooktest"
)

// Freeze returns errors.ErrUnsupported: only Linux says in /proc when all threads are stopped.
func Freeze(*daybooktest.Process) error { return errors.ErrUnsupported }

// Thaw returns errors.ErrUnsupported.
func Thaw(*daybooktest.Process) error { return errors.ErrUnsupported }

// ProcessorTime returns errors.ErrUnsupported: the clock of another process is one of Linux.
func ProcessorTime(*daybooktest.Process) (time.Duration, error) { return 0, errors.ErrUnsupported }
