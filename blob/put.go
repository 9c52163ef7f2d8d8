package blob

import (
	"context"
	"errors"
	"io"
)

// Put stores a stream and returns when it is durable. If want names a digest, other content is refused with ErrDigest.
// It also returns ErrTooLarge, ErrQuota, ErrNoSpace, or the error of ctx or of r. After an error the upload leaves
// nothing, and an older blob stays unchanged.
//
// If the blob is already stored, Put replaces its file. This repairs a damaged file without reading it first, which
// would cost as much. It renews the blob's age, and makes the blob durable in any state of the old file. Readers that
// have the old file open continue with it.
//
// If the quota is nearly used up, a repeated Put needs want: only then does the store know in time that no bytes are
// added.
func (s *Dir) Put(ctx context.Context, r io.Reader, want Ref) (_ Info, err error) {
	free, err := s.files.take(ctx, uploadFiles)
	if err != nil {
		return Info{}, err
	}
	defer free()
	u := newUpload(s)
	defer func() { err = errors.Join(err, u.discard()) }()
	if err := u.begin(ctx, want); err != nil {
		return Info{}, err
	}
	if u.info, err = u.receive(ctx, r); err != nil {
		return Info{}, err
	}
	if err := checkDigest(want, u.info); err != nil {
		return Info{}, err
	}
	if err := u.commit(ctx); err != nil {
		return Info{}, err
	}
	return u.info, nil
}

// commit makes the upload durable and gives it its name. ctx ends only the copy to a Remote.
func (u *upload) commit(ctx context.Context) error {
	if u.s.remote != nil {
		return u.s.remote.keep(ctx, u)
	}
	defer u.s.own(u.info.Address)()
	if err := u.setAge(); err != nil {
		return err
	}
	if err := u.s.h.Sync(u.f); err != nil {
		return noSpace("sync blob", err)
	}
	return u.s.publish(context.Background(), []*upload{u})
}
