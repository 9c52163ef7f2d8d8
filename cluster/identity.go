package cluster

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Identity says which node of which cluster a data directory belongs to. The UUID of the journal is a part of the state,
// and a restored backup keeps it, so the cluster has an id of its own.
type Identity struct {
	Cluster string // 16 hexadecimal digits
	ID      uint64 // of this member, for Raft
	Node    string // its name
	UUID    string // of the journal
	Salt    uint32 // of its records
}

// NewIdentity returns the identity of a node that founds a cluster with a journal.
func NewIdentity(node, uuid string, salt uint32) *Identity {
	return &Identity{Cluster: fmt.Sprintf("%016x", draw()), ID: draw(), Node: node, UUID: uuid, Salt: salt}
}

// identityName is the file with the identity, in the directory of the cluster.
const identityName = "node"

// ReadIdentity reads the identity in a directory. It is nil if the directory has none.
func ReadIdentity(dir string) (*Identity, error) {
	path := filepath.Join(dir, identityName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var i Identity
	line, sum, _ := strings.Cut(string(text), " crc=")
	if _, err := fmt.Sscanf(line, "daybook-node v=1 cluster=%s id=%x node=%s uuid=%s salt=%x", &i.Cluster, &i.ID, &i.Node, &i.UUID, &i.Salt); err != nil || sum != checksum(line) {
		return nil, fmt.Errorf("read %s: it does not have the right form or checksum; next step: empty the data directory and let the node join again under another name", path)
	}
	return &i, nil
}

func checksum(line string) string {
	return fmt.Sprintf("%08x\n", crc32.Checksum([]byte(line), crc32.MakeTable(crc32.Castagnoli)))
}

// write makes the file durable.
func (i *Identity) write(dir string) error {
	line := fmt.Sprintf("daybook-node v=1 cluster=%s id=%016x node=%s uuid=%s salt=%08x", i.Cluster, i.ID, i.Node, i.UUID, i.Salt)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	path := filepath.Join(dir, identityName)
	if err := writeSynced(path+".new", []byte(line+" crc="+checksum(line))); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return errors.Join(syncDir(dir), syncDir(filepath.Dir(dir)))
}

func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// draw returns a random number that is not 0.
func draw() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return max(1, binary.BigEndian.Uint64(b[:]))
}
