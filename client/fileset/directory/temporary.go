package directory

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// temporaryPrefix begins the name of the directory at the top into which Pull first writes its files. Scan skips
// directories with this prefix, because a killed process may have left one.
const temporaryPrefix = ".daybook-pull-"

func isTemporary(path string) bool { return strings.HasPrefix(path, temporaryPrefix) }

// newTemporary creates the directory, and returns its name and a function that removes it.
func newTemporary(root *os.Root) (name string, remove func() error, err error) {
	name = temporaryPrefix + rand.Text()
	if err := root.Mkdir(name, 0o700); err != nil {
		return "", nil, fmt.Errorf("create directory for temporary files: %w", err)
	}
	return name, func() error {
		if err := root.RemoveAll(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove temporary files: %w", err)
		}
		return nil
	}, nil
}
