package blob

import (
	"context"
	"errors"
	"io"
)

// Put stores a stream and returns when it is durable. If want names a digest, other content is refused with ErrDigest.
// It also returns ErrTooLarge, ErrQuota, ErrNoSpace, the error of ctx or of r; then nothing of the upload stays. A
// blob that was there before stays as it was.
//
// If the blob is there, Put replaces its file. This repairs a damaged file without reading it first, which would cost
// as much; it renews its age; and it makes the blob durable whatever happened to the old file. Readers that have the
// old file open go on with it.
//
// If the quota is nearly used up, a repeated Put needs want: only then is it known in time that nothing is added.
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
