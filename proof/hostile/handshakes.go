package hostile

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"strings"
	"time"
)

// handshakeAttacks is a list of attacks by clients that never finish a handshake of TLS, finish as many as they can, or break the
// rules of TLS after one.
var handshakeAttacks = []*request{
	{what: "half of a hello", tls: func(ctx context.Context, c net.Conn, hello []byte) { send(ctx, c, hello[:len(hello)/2]); wait(ctx, c) }},
	{what: "a hello, and then nothing", tls: func(ctx context.Context, c net.Conn, hello []byte) { send(ctx, c, hello); <-ctx.Done() }},
	{what: "a hello, a byte a second", tls: byteOfHello},
	{what: "garbage", tls: garbage},
	{what: "records without content", tls: emptyRecords},
	{what: "handshakes without end", tls: handshakesWithoutEnd},
	{what: "another hello after the handshake", tls: secondHello},
	{what: "new keys without end", tls: newKeys},
}

// send sends bytes, and reports whether the connection takes them and the attack goes on.
func send(ctx context.Context, c net.Conn, b []byte) bool {
	_, err := c.Write(b)
	return err == nil && ctx.Err() == nil
}

// wait reads until the server closes the connection.
func wait(ctx context.Context, c net.Conn) {
	b := make([]byte, 4<<10)
	for ctx.Err() == nil {
		if _, err := c.Read(b); err != nil {
			return
		}
	}
}

func byteOfHello(ctx context.Context, c net.Conn, hello []byte) {
	for i := 0; i < len(hello) && send(ctx, c, hello[i:i+1]); i++ {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// garbage sends random bytes in a record of the type that begins a handshake.
func garbage(ctx context.Context, c net.Conn, _ []byte) {
	b := make([]byte, 5+16<<10)
	_, _ = rand.Read(b) // never fails
	copy(b, []byte{22, 3, 1, 0x40, 0})
	send(ctx, c, b)
	wait(ctx, c)
}

func emptyRecords(ctx context.Context, c net.Conn, _ []byte) {
	for send(ctx, c, bytes.Repeat([]byte{22, 3, 1, 0, 0}, 100)) {
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// handshakesWithoutEnd finishes a handshake and closes the connection. attackWith opens the next one a second later.
func handshakesWithoutEnd(ctx context.Context, c net.Conn, _ []byte) {
	_, _ = shaken(ctx, c) // the server may refuse the connection
}

// secondHello tries to negotiate again, which TLS 1.3 forbids.
func secondHello(ctx context.Context, c net.Conn, hello []byte) {
	if s, err := shaken(ctx, c); err == nil && send(ctx, c, s.record(hello[5:])) {
		wait(ctx, c)
	}
}

// newKeys announces new keys and asks the server for new ones, again and again. The server must answer each time, and the client
// reads no answer.
func newKeys(ctx context.Context, c net.Conn, _ []byte) {
	s, err := shaken(ctx, c)
	for err == nil && send(ctx, c, s.record([]byte{keyUpdate, 0, 0, 1, 1})) {
		s.next()
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}

const keyUpdate = 24 // type of a message of a handshake

// secret encrypts records of a client of TLS 1.3, since crypto/tls would keep to the rules.
type secret struct {
	traffic []byte
	aead    cipher.AEAD
	iv      []byte
	n       uint64 // records since the last change of keys
}

var errSuite = errors.New("the connection has another cipher suite")

// shaken makes a handshake, and returns the secret with which the client encrypts what follows.
func shaken(ctx context.Context, c net.Conn) (*secret, error) {
	var log bytes.Buffer
	secure := tls.Client(c, &tls.Config{InsecureSkipVerify: true, KeyLogWriter: &log, MinVersion: tls.VersionTLS13})
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	if secure.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 { // a machine without instructions for AES
		return nil, errSuite
	}
	_, line, _ := strings.Cut(log.String(), "CLIENT_TRAFFIC_SECRET_0 ")
	line, _, _ = strings.Cut(line, "\n")
	_, digits, _ := strings.Cut(line, " ")
	traffic, err := hex.DecodeString(digits)
	if err != nil || len(traffic) != sha256.Size {
		return nil, errors.Join(errSuite, err)
	}
	s := &secret{traffic: traffic}
	s.derive()
	return s, nil
}

// expand is HKDF-Expand-Label of RFC 8446, part 7.1.
func (s *secret) expand(label string, length int) []byte {
	label = "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(length))
	info = append(append(append(info, byte(len(label))), label...), 0)
	b, err := hkdf.Expand(sha256.New, s.traffic, string(info), length)
	if err != nil {
		panic(err)
	}
	return b
}

func (s *secret) derive() {
	block, err := aes.NewCipher(s.expand("key", 16))
	if err != nil {
		panic(err)
	}
	if s.aead, err = cipher.NewGCM(block); err != nil {
		panic(err)
	}
	s.iv, s.n = s.expand("iv", 12), 0
}

// next changes the keys, as after a message keyUpdate.
func (s *secret) next() {
	s.traffic = s.expand("traffic upd", sha256.Size)
	s.derive()
}

// record encrypts a message of a handshake.
func (s *secret) record(message []byte) []byte { return s.seal(message, 22) }

// content encrypts content.
func (s *secret) content(text string) []byte { return s.seal([]byte(text), 23) }

func (s *secret) seal(message []byte, kind byte) []byte {
	plain := append(bytes.Clone(message), kind)
	head := binary.BigEndian.AppendUint16([]byte{23, 3, 3}, uint16(len(plain)+s.aead.Overhead()))
	nonce := bytes.Clone(s.iv)
	for i, b := range binary.BigEndian.AppendUint64(nil, s.n) {
		nonce[len(nonce)-8+i] ^= b
	}
	s.n++
	return s.aead.Seal(head, nonce, plain, head)
}
