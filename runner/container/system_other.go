//go:build !linux && !darwin

package container

import (
	"errors"
	"os"
)

var errSystem = errors.New("containers do not run on this system")

func openDirectory(*os.Root, string) (*os.Root, error) { return nil, errSystem }
func processLimit() (int64, bool)                      { return 0, false }
func diskBytes(info os.FileInfo) int64                 { return info.Size() }
func safeOwner(os.FileInfo) error                      { return errSystem }
func ownSocket(string) error                           { return errSystem }
