//go:build !linux

package rig

import (
	"errors"
	"fmt"
)

type memoryCgroup struct{}

func newMemoryCgroup(int64) (memoryCgroup, error) {
	return memoryCgroup{}, fmt.Errorf("only Linux has cgroups: %w", errors.ErrUnsupported)
}

func (memoryCgroup) enter() string { return "" }

func (memoryCgroup) remove() error { return nil }
