package files

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/blob"
)

type missingRequest struct {
	ofClient
	Body struct {
		Addresses []string `json:"addresses" required:"true" schema:"Address" minItems:"1" maxItems:"10000"`
	} `required:"true"`
}

type missingBlobs struct {
	Body struct {
		Missing []string `json:"missing" schema:"Address" maxItems:"10000"`
	}
}

// missing answers with the blobs that are not stored. The server keeps the stored ones for a
// day from now on, so a producer uploads the missing ones and then creates its jobs.
func (s *Blobs) missing(ctx context.Context, in *missingRequest) (out missingBlobs, err error) {
	of, client, err := s.of(in.ofClient)
	if err != nil {
		return out, err
	}
	texts := in.Body.Addresses
	if len(texts) == 0 || len(texts) > MaxAddresses {
		return out, web.BadRequest("addresses", fmt.Sprintf("addresses must have 1 to %d addresses, not %d", MaxAddresses, len(texts)))
	}
	if err := operation.Reserve(ctx, 2); err != nil { // for the addresses, and the answer
		return out, err
	}
	refs := make([]blob.Ref, len(texts))
	for i, text := range texts {
		if refs[i], err = blob.Parse(text); err != nil {
			return out, &web.Problem{Status: http.StatusBadRequest, Code: web.CodeBadAddress, Field: fmt.Sprintf("addresses[%d]", i), Detail: err.Error()}
		}
	}
	addresses, err := resolveAll(ctx, refs, func(ctx context.Context, ref blob.Ref) (blob.Address, error) { return of.Resolve(ctx, client, ref) })
	if err != nil {
		return out, readRefused(err)
	}
	var all []blob.Address
	for _, a := range addresses {
		if a != nil {
			all = append(all, *a)
		}
	}
	missing, err := of.Missing(ctx, client, all)
	if err != nil {
		return out, err
	}
	gone := map[blob.Address]bool{}
	for _, a := range missing {
		gone[a] = true
	}
	for i, text := range texts { // in the forms that the client sent
		if a := addresses[i]; a == nil || gone[*a] {
			out.Body.Missing = append(out.Body.Missing, text)
		}
	}
	return out, nil
}

// resolveAll resolves digests, resolveAtOnce at a time. An address is nil if no stored blob has this SHA-1.
func resolveAll(ctx context.Context, refs []blob.Ref, resolve func(context.Context, blob.Ref) (blob.Address, error)) ([]*blob.Address, error) {
	all := make([]*blob.Address, len(refs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(resolveAtOnce)
	for i, ref := range refs {
		if ref.SHA256 != nil {
			all[i] = ref.SHA256
			continue
		}
		group.Go(func() error {
			a, err := resolve(ctx, ref)
			if errors.Is(err, blob.ErrNotFound) {
				return nil
			}
			all[i] = &a
			return err
		})
	}
	return all, group.Wait()
}
