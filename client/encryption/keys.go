package encryption

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
)

// The errors of Keys, for errors.Is. Those of calls of a client wrap client.ErrUndecodable, too.
var (
	ErrNotEncrypted = errors.New("it is not encrypted")
	ErrNoKey        = errors.New("the key with which it is encrypted is missing")
	ErrAltered      = errors.New("it has been changed, or is of another part of a job")
	// ErrReadable means that other users of the machine can read a file with keys.
	ErrReadable = errors.New("other users of this machine can read the keys")
)

const (
	secretBytes = 32 // of AES-256
	idDigits    = 16
	keyPrefix   = "dbe_"
	// maxKeys bounds the keys of a file, and maxFile its bytes.
	maxKeys = 100
	maxFile = 64 << 10
)

// Keys encrypt with the first key, and decrypt with all. They are a client.Codec.
type Keys struct{ list []key }

type key struct {
	id    string
	aead  cipher.AEAD
	nonce []byte // the key of nonces that are not random
}

// NewKey returns the text of a new key: dbe_ID_SECRET. The secret has 64 hexadecimal digits, and ID the first 16 of its
// SHA-256.
func NewKey() string {
	secret := make([]byte, secretBytes)
	rand.Read(secret) // it never fails
	return keyPrefix + idOf(secret) + "_" + hex.EncodeToString(secret)
}

func idOf(secret []byte) string {
	sum := sha256.Sum256(secret)
	return hex.EncodeToString(sum[:])[:idDigits]
}

// Parse reads the texts of keys, one in each line. Empty lines and lines that begin with # are skipped. An error never has
// the text of a key.
func Parse(text []byte) (*Keys, error) {
	k := &Keys{}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		one, err := parseKey(string(line))
		if err == nil && k.find(one.id) != nil {
			err = fmt.Errorf("the key %s is there twice", one.id)
		}
		if err == nil && len(k.list) == maxKeys {
			err = fmt.Errorf("there are more than %d keys", maxKeys)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		k.list = append(k.list, one)
	}
	if len(k.list) == 0 {
		return nil, errors.New("there is no key")
	}
	return k, nil
}

func parseKey(text string) (k key, err error) {
	wrong := errors.New("it is not the text of an encryption key, dbe_ID_SECRET")
	rest, ok := strings.CutPrefix(text, keyPrefix)
	id, digits, found := strings.Cut(rest, "_")
	secret, err := hex.DecodeString(digits)
	if !ok || !found || err != nil || len(secret) != secretBytes {
		return k, wrong
	}
	if id != idOf(secret) {
		return k, errors.New("the id of the key does not match its secret: some of its characters are wrong")
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return k, err
	}
	k = key{id: id}
	if k.aead, err = cipher.NewGCM(block); err != nil {
		return k, err
	}
	k.nonce = mac(secret, []byte("daybook nonce"))
	return k, nil
}

func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// ReadFile reads a file with keys; see Parse. It fails with ErrReadable if users other than the file's owner and group can
// read it.
func ReadFile(path string) (*Keys, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is not a file of at most %d bytes", maxFile)}
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o007 != 0: // Windows has no such modes
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w (mode %04o); run: chmod o= %s", ErrReadable, info.Mode().Perm(), path)}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, err
	}
	k, err := Parse(text)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return k, nil
}

// IDs returns the ids of the keys. The first one encrypts.
func (k *Keys) IDs() (ids []string) {
	for i := range k.list {
		ids = append(ids, k.list[i].id)
	}
	return ids
}

// String returns the ids of the keys, so that a log never has a secret.
func (k *Keys) String() string { return "encryption keys " + strings.Join(k.IDs(), ", ") }

// GoString is String.
func (k *Keys) GoString() string { return k.String() }

func (k *Keys) find(id string) *key {
	if i := slices.IndexFunc(k.list, func(one key) bool { return one.id == id }); i >= 0 {
		return &k.list[i]
	}
	return nil
}
