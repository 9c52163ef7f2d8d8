package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// identityName is the file that identifies the journal. It is in the directory of the volumes and has one line of text:
//
//	daybook-journal v=1 uuid=0b5c7e0e-7a1f-4a53-9a9a-3d6c1f0f6f3e\n
//
// The store keeps the UUID. A start refuses a store and a journal that do not belong together.
const identityName = "identity"

var identityForm = regexp.MustCompile(`^daybook-journal v=1 uuid=([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\n$`)

// readIdentity returns the UUID of the journal in dir, or "" if dir has no identity file.
func readIdentity(dir string) (string, error) {
	name := filepath.Join(dir, identityName)
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("read identity: %w", err)
	}
	m := identityForm.FindSubmatch(b)
	if m == nil {
		return "", fmt.Errorf("%w: %s does not have the form %q; next step: restore this file from a copy, or write it again with the uuid of the journal; if that is not known, write any uuid, and the next start reports the right one",
			ErrForeign, name, "daybook-journal v=1 uuid=…")
	}
	return string(m[1]), nil
}

// createIdentity makes the identity file with a new UUID. The file is durable when createIdentity returns.
func createIdentity(h *Hooks, dir string) (string, error) {
	var u [16]byte
	rand.Read(u[:]) // it never returns an error
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	uuid := fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
	name := filepath.Join(dir, identityName)
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return "", fmt.Errorf("create identity: %w", err)
	}
	_, err = fmt.Fprintf(f, "daybook-journal v=1 uuid=%s\n", uuid)
	if err == nil {
		err = h.SyncFile(f)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("create identity: %w", err)
	}
	if err := h.Rename(name+".new", name); err != nil {
		return "", fmt.Errorf("create identity: %w", err)
	}
	if err := h.syncPath(dir); err != nil {
		return "", fmt.Errorf("create identity: %w", err)
	}
	return uuid, nil
}
