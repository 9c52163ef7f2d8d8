package lsm

import "encoding/binary"

// KeyBuilder appends big-endian numbers, so that keys sort by them.
type KeyBuilder []byte

// U8, U32 and U64 append a number of that many bits.
func (k *KeyBuilder) U8(n byte)    { *k = append(*k, n) }
func (k *KeyBuilder) U32(n uint32) { *k = binary.BigEndian.AppendUint32(*k, n) }
func (k *KeyBuilder) U64(n uint64) { *k = binary.BigEndian.AppendUint64(*k, n) }

// U32At and U64At read the number that begins at byte at of a key. They fail with ErrShortRow if the key ends before.
func U32At(key string, at int) uint32 {
	if len(key) < at+4 {
		Fail("split key", ErrShortRow)
	}
	return binary.BigEndian.Uint32([]byte(key[at : at+4]))
}

func U64At(key string, at int) uint64 {
	if len(key) < at+8 {
		Fail("split key", ErrShortRow)
	}
	return binary.BigEndian.Uint64([]byte(key[at : at+8]))
}

// After returns the smallest key that is greater than every key with this prefix.
func After(prefix string) string {
	k := []byte(prefix)
	for i := len(k) - 1; i >= 0; i-- {
		if k[i]++; k[i] != 0 {
			return string(k[:i+1])
		}
	}
	panic("store: a prefix of nothing but 0xff has no successor")
}
