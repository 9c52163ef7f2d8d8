package crash

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

// The rows of a user's keys. They need no random numbers.

// ownKeys are the keys of a user.
type ownKeys struct {
	keys int // how many it has tried to create
	// The keys that were created and revoked, the newest last. A request for one of them that has no answer yet may have
	// been carried out.
	good, revoked []ownKey
}

type ownKey struct{ name, text string }

// maxRevokedKeys is how many of its revoked keys a user tries.
const maxRevokedKeys = 6

// newOwnKey returns a key whose text a user makes itself, so that it knows the text even if the answer is lost.
func newOwnKey(name string) ownKey {
	return ownKey{name, job.KeyText(name, sha256.Sum256([]byte(name)))}
}

func (k *ownKey) request(role string) client.KeyRequest {
	return client.KeyRequest{Name: k.name, KeyLimits: client.KeyLimits{Roles: []string{role}}, SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(k.text)))}
}

// firstKey creates the key of all users of the server. From now on each request needs a key.
func firstKey(ctx context.Context, url string) (text string, err error) {
	boss := newOwnKey("boss")
	_, err = client.New(url, client.Options{}).CreateKey(ctx, boss.request("admin"))
	return boss.text, err
}

func (s *trial) firstKey() (err error) {
	s.u.key, err = firstKey(context.Background(), s.server.URL())
	return err
}

// createKey creates a key.
func (e *errands) createKey() row {
	e.keys++
	k := newOwnKey(fmt.Sprintf("%s-key-%d", e.name, e.keys))
	return row{
		verb: "create a key",
		request: func(c call) (any, error) {
			made, err := c.CreateKey(c, k.request("reader"))
			if errors.Is(err, client.ErrConflict) && e.open { // an earlier try, whose answer was lost, has created it
				return c.Key(c, k.name)
			}
			return made, err
		},
		change: func() { e.good = append(e.good, k) },
		answer: fields{"Name": k.name, "Generation": 1, "Roles": []string{"reader"}, "By": "boss"},
	}
}

// revokeKey revokes the oldest key.
func (e *errands) revokeKey() row {
	return row{
		verb: "revoke a key", removes: neverRemoved,
		request: func(c call) (any, error) { return nil, c.RevokeKey(c, e.good[0].name) },
		change: func() {
			if e.revoked = append(e.revoked, e.good[0]); len(e.revoked) > maxRevokedKeys {
				e.revoked = e.revoked[1:]
			}
			e.good = e.good[1:]
		},
	}
}

// useKeys uses each key. The server must know the keys that were created, and refuse those that were revoked. It limits wrong keys
// and never right ones, so an answer that there were too many is a refusal, too. Users that waited for the limit, which is ten a
// minute, would do hardly anything else.
func (e *errands) useKeys() row {
	whoami := func(ctx context.Context, k ownKey, retryFor time.Duration) (client.Key, error) {
		return client.New(e.raw.url, client.Options{RetryFor: retryFor, Key: k.text}).Whoami(ctx)
	}
	return own("use the keys", func(ctx context.Context) error {
		for _, k := range e.good {
			if who, err := whoami(ctx, k, maxWait); err != nil {
				return err
			} else if who.Name != k.name {
				return impossiblef("key %s is %s", k.name, who.Name)
			}
		}
		for _, k := range e.revoked {
			var refused *client.Error
			if _, err := whoami(ctx, k, -1); err == nil {
				return impossiblef("revoked key %s is good", k.name)
			} else if !errors.As(err, &refused) || refused.Code != "key_refused" && refused.Code != "rate_limited" {
				return err
			}
		}
		return nil
	})
}
