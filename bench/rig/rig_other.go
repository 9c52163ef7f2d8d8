//go:build !linux

package rig

import (
	"errors"
	"time"

	"github.com/daybookq/daybook/client/daybooktest"
)

// Freeze returns errors.ErrUnsupported: only Linux shows in /proc when all threads are stopped.
func Freeze(*daybooktest.Process) error { return errors.ErrUnsupported }

// Thaw returns errors.ErrUnsupported.
func Thaw(*daybooktest.Process) error { return errors.ErrUnsupported }

// ProcessorTime returns errors.ErrUnsupported: only Linux has a clock for another process.
func ProcessorTime(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
