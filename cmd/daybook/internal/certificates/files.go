package certificates

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"
)

// File is a file, and the flag that names it. With an empty path there is none.
type File struct{ Flag, Path string }

// Files are the files for one end of TLS connections, in PEM.
type Files struct {
	Cert, Key File // this end's certificate, and its key; both or none
	CA        File // the authorities that sign the certificates of the other ends
}

// Loaded are the contents of Files.
type Loaded struct {
	Pair    *tls.Certificate // nil without a certificate
	CA      *x509.CertPool   // nil without one
	Expires time.Time        // when Pair expires
}

// ErrReadable means that other users of the machine can read a key.
var ErrReadable = errors.New("other users of this machine can read the key")

// Load reads the files. It fails if one is missing or malformed, if the key is not the certificate's, or if users other than
// the key's owner and group can read the key.
func (f Files) Load() (Loaded, error) {
	contents, err := f.read()
	if err != nil {
		return Loaded{}, err
	}
	return f.parse(contents)
}

// contents are the bytes of the files.
type contents struct{ cert, key, ca []byte }

// sum identifies contents.
func (c *contents) sum() [sha256.Size]byte {
	return sha256.Sum256(bytes.Join([][]byte{c.cert, c.key, c.ca}, []byte{0}))
}

func (f Files) read() (c contents, err error) {
	if c.cert, err = f.Cert.read(); err != nil {
		return c, err
	}
	if c.ca, err = f.CA.read(); err != nil || f.Key.Path == "" {
		return c, err
	}
	info, err := os.Stat(f.Key.Path)
	if err != nil {
		return c, f.Key.wrong(err)
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o007 != 0 { // Windows has no such modes
		return c, f.Key.wrong(fmt.Errorf("%w (mode %04o); run: chmod o= %s", ErrReadable, mode, f.Key.Path))
	}
	c.key, err = f.Key.read()
	return c, err
}

func (f File) read() ([]byte, error) {
	if f.Path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, f.wrong(err)
	}
	return text, nil
}

// Error is the error of a file that cannot be used.
type Error struct {
	File
	Err error // the cause, and the next step
}

func (e *Error) Error() string { return fmt.Sprintf("--%s %s: %v", e.Flag, e.Path, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// wrong returns an error about the file.
func (f File) wrong(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok { // it has the path, which is in the text already
		err = path.Err
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = fmt.Errorf("%w; check the path, or make a certificate for trials with: daybook tls self-signed", err)
		case errors.Is(err, fs.ErrPermission):
			err = fmt.Errorf("%w; let the user of this process read the file", err)
		}
	}
	return &Error{f, err}
}

func (f Files) parse(c contents) (l Loaded, err error) {
	if f.Cert.Path != "" {
		pair, err := tls.X509KeyPair(c.cert, c.key)
		if err != nil {
			return l, f.Cert.wrong(fmt.Errorf("%w; --%s needs the certificate and --%s its key, both in PEM", err, f.Cert.Flag, f.Key.Flag))
		}
		l.Pair, l.Expires = &pair, pair.Leaf.NotAfter
	}
	if f.CA.Path != "" {
		l.CA = x509.NewCertPool()
		if !l.CA.AppendCertsFromPEM(c.ca) {
			return l, f.CA.wrong(errors.New("it has no certificate in PEM"))
		}
	}
	return l, nil
}
