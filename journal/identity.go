package journal

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// identityName is the file that identifies the journal. It is in the directory of the volumes and has one line of text:
//
//	daybook-journal v=1 uuid=0b5c7e0e-7a1f-4a53-9a9a-3d6c1f0f6f3e salt=6f1d2a90 crc=43c2b1f7\n
//
// The store keeps the UUID, so that a start can refuse a store and a journal that do not belong together. Each record
// contains the salt. After damage, a start searches bytes for records, and these bytes may be a body that a client
// posted. A client cannot forge a record there because it does not know the salt, which is only in files of the server.
// The crc is computed like a record's, over the bytes before ` crc=`.
const identityName = "identity"

// identity is the content of the file. uuid is "" if the file does not exist.
type identity struct {
	uuid string
	salt uint32 // never anySalt, if the file exists
}

func (id identity) text() []byte {
	text := fmt.Appendf(nil, "daybook-journal v=1 uuid=%s salt=%08x", id.uuid, id.salt)
	return append(appendHex8(append(text, " crc="...), crc32.Checksum(text, castagnoli)), '\n')
}

var identityForm = regexp.MustCompile(`^daybook-journal v=1 uuid=([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) salt=([0-9a-f]{8}) crc=[0-9a-f]{8}\n$`)

// errIdentity: the identity file was changed.
var errIdentity = errors.New("it does not have the right form or checksum")

// readIdentity returns the identity of the journal in dir, or an empty one if dir lacks the file.
func readIdentity(dir string) (id identity, err error) {
	b, err := os.ReadFile(filepath.Join(dir, identityName))
	if errors.Is(err, fs.ErrNotExist) {
		return id, nil
	} else if err != nil {
		return id, fmt.Errorf("read identity: %w", err)
	}
	if m := identityForm.FindSubmatch(b); m != nil {
		salt, err := strconv.ParseUint(string(m[2]), 16, 32)
		if id = (identity{string(m[1]), uint32(salt)}); err == nil && id.salt != anySalt && bytes.Equal(id.text(), b) {
			return id, nil
		}
	}
	return identity{}, fmt.Errorf("read identity: %w", errIdentity)
}

// ReadIdentity returns the UUID of the journal in dir, and the salt of its records.
func ReadIdentity(dir string) (uuid string, salt uint32, err error) {
	id, err := readIdentity(dir)
	return id.uuid, id.salt, err
}

// identityOf is readIdentity for a journal that has volumes.
func identityOf(dir string, vols []volumeDir) (identity, error) {
	id, err := readIdentity(dir)
	if errors.Is(err, errIdentity) || err == nil && id.uuid == "" && len(vols) > 0 {
		err = lostIdentity(dir, "", vols, err)
	}
	return id, err
}

// lostIdentity returns the error for a journal whose identity file is missing or damaged. Its text includes the content
// that the file must have, as far as the store and the first intact record reveal it.
func lostIdentity(dir, uuid string, vols []volumeDir, cause error) error {
	if cause == nil {
		cause = errors.New("it is missing, and there are volumes")
	}
	next := "restore it from a copy"
	if id := (identity{uuid, firstSalt(vols)}); id.salt != anySalt {
		of := "the store's uuid and the salt of the records are"
		if uuid == "" {
			id.uuid, of = newUUID(), "the salt of the records is as here, and a start says so if a store has another uuid than"
		}
		next += fmt.Sprintf(", or write it again: %s %q", of, id.text())
	}
	return fmt.Errorf("%w: the file %s: %w; next step: %s", ErrForeign, filepath.Join(dir, identityName), cause, next)
}

// firstSalt returns the salt of the first segment that begins with an intact record, or anySalt if no segment does.
func firstSalt(vols []volumeDir) uint32 {
	for i := range vols {
		for _, s := range vols[i].segments {
			data, err := readSegment(s.path, nil)
			if sc := (scanner{data: data, next: s.first}); err == nil && sc.step() {
				return sc.rec.Salt
			}
		}
	}
	return anySalt
}

func newUUID() string {
	var u [16]byte
	rand.Read(u[:]) // never returns an error
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// createIdentity makes the identity file with a new UUID and a new salt. The file is durable when createIdentity returns.
func createIdentity(h *Hooks, dir string) (identity, error) {
	id := identity{uuid: newUUID()}
	for id.salt == anySalt {
		var salt [4]byte
		rand.Read(salt[:])
		id.salt = binary.NativeEndian.Uint32(salt[:])
	}
	name := filepath.Join(dir, identityName)
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return id, fmt.Errorf("create identity: %w", err)
	}
	_, err = f.Write(id.text())
	if err == nil {
		err = h.SyncFile(f)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return id, fmt.Errorf("create identity: %w", err)
	}
	if err := h.Rename(name+".new", name); err != nil {
		return id, fmt.Errorf("create identity: %w", err)
	}
	if err := h.syncPath(dir); err != nil {
		return id, fmt.Errorf("create identity: %w", err)
	}
	return id, nil
}
