package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// publish gives uploads their names, all of them or none, and makes the names durable. The files are already durable.
// The caller owns their addresses, and discards the uploads afterwards. An upload without a file belongs to a blob that
// is already stored; it only needs its SHA-1.
//
// The SHA-1 entries become durable first, so that each blob that is visible after a crash has one. Until the last fsync
// reads see none of the new blobs.
func (s *Dir) publish(ctx context.Context, all []*upload) error {
	owned := map[SHA1]bool{}
	for _, u := range all {
		owned[u.info.SHA1] = true
	}
	for _, x := range slices.SortedFunc(maps.Keys(owned), func(x, y SHA1) int { return bytes.Compare(x[:], y[:]) }) {
		defer s.own(x)()
	}
	err := s.inDir(s.sha1s(), func() error {
		for _, u := range all {
			if err := errors.Join(ctx.Err(), u.publishSHA1()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return noSpace("store SHA-1 of blob", err)
	}
	var named []*naming
	err = s.inDir(s.blobs(), func() error {
		for _, u := range all {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := &naming{upload: u}
			named = append(named, n)
			if err := n.rename(); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, s.settle(named, err == nil))
}

// inDir calls change and makes the names in a directory durable. It opens the directory first, so that the directory's
// fsync reports every error since then: the kernel reports an error once to each open file.
func (s *Dir) inDir(path string, change func() error) error {
	dir, err := open(path)
	if err != nil {
		return err
	}
	err = change()
	if err == nil {
		if err = s.h.Sync(dir); err != nil {
			err = noSpace("sync "+filepath.Base(path), err)
		}
	}
	return errors.Join(err, dir.Close())
}

// publishSHA1 gives the entry of the table its name, unless the table already has one.
func (u *upload) publishSHA1() error {
	kept, err := u.s.keepsSHA1(u.info.SHA1, u.info.Address)
	if kept || err != nil {
		return err
	}
	if u.table == "" { // none was prepared
		f, err := u.s.writeTemp(u.info.Address.String() + "\n")
		if err != nil {
			return err
		}
		u.table = f.Name()
		if err := errors.Join(u.s.h.Sync(f), f.Close()); err != nil {
			return err
		}
	}
	if err := u.s.h.Rename(u.table, u.s.sha1Path(u.info.SHA1)); err != nil {
		return err
	}
	u.table = ""
	return nil
}

// naming is an upload that is getting its name.
type naming struct {
	*upload
	begun   bool // reads treat the blob as absent until the naming is settled
	renamed bool
}

// rename gives the file its name. If the blob was not stored before, reads do not see it yet.
func (n *naming) rename() error {
	s, a := n.s, n.info.Address
	old, there, err := s.stat(a)
	if err != nil {
		return err
	}
	if n.path == "" {
		if !there {
			return n.deleted()
		}
		return nil
	}
	n.info.Existed = there
	oldSize := int64(0)
	if old != nil && old.Mode().IsRegular() {
		oldSize = old.Size()
	}
	s.mu.Lock()
	if err = n.recharge(max(n.size-oldSize, 0)); err == nil && !there {
		s.unsynced[a], n.begun = true, true
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.h.Rename(n.path, s.path(a)); err != nil {
		return noSpace("name blob", err)
	}
	n.path, n.renamed = "", true
	s.mu.Lock()
	s.count(n.size - oldSize - n.charged)
	s.mu.Unlock()
	n.charged = 0
	return nil
}

// deleted is the error for a blob that was deleted after it was added to a batch. The batch has not written such a
// blob, because the store had it.
func (u *upload) deleted() error {
	return fmt.Errorf("%w: %s was deleted after it had been added to the batch; next step: add everything to a new batch", ErrNotFound, u.info.Address)
}

// settle shows all new blobs to reads at once, or removes them. If a blob can neither be shown nor removed, it stays in
// unsynced, and the next Put tries again.
func (s *Dir) settle(all []*naming, succeeded bool) (err error) {
	var shown []Address
	for _, n := range all {
		a := n.info.Address
		switch {
		case !n.begun:
		case succeeded:
			shown = append(shown, a)
		case n.renamed:
			// Nobody may rely on the name.
			if removeErr := s.remove(a, n.size); err == nil {
				err = removeErr // one error is enough
			}
		default: // a rename that failed may still have happened
			if _, lookErr := os.Lstat(s.path(a)); errors.Is(lookErr, fs.ErrNotExist) {
				shown = append(shown, a)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range shown {
		delete(s.unsynced, a)
	}
	return err
}
