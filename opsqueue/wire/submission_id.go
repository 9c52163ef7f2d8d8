package wire

import (
	"fmt"
	"strconv"
)

// SubmissionID is the id of a submission: a snowflake of 63 bits, which sorts by the time of creation.
//
//	0 | 41 bits unix time in ms | 22 bits that distinguish the submissions of one millisecond
//
// The original uses ten of the low bits for an instance, which is always 0, and twelve for a sequence. Clients read only
// the time. As text, an id is the decimal number. In JSON, it is a number that usually exceeds 2^53, so a float cannot
// hold it.
type SubmissionID int64

const (
	lowBits = 22

	// MaxIDTimeMS is the last unix time in ms that a SubmissionID can hold, which is on 2039-09-07.
	MaxIDTimeMS = 1<<(63-lowBits) - 1

	// MaxIDLow is the greatest value of the low bits of a SubmissionID.
	MaxIDLow = 1<<lowBits - 1
)

// NewSubmissionID returns the id for a unix time in ms and the low bits. It returns an error if the time is before 1970
// or after MaxIDTimeMS, or if low exceeds MaxIDLow.
func NewSubmissionID(unixMS int64, low uint32) (SubmissionID, error) {
	if unixMS < 0 || unixMS > MaxIDTimeMS {
		return 0, fmt.Errorf("submission id: time %d ms is not from 0 to %d", unixMS, int64(MaxIDTimeMS))
	}
	if low > MaxIDLow {
		return 0, fmt.Errorf("submission id: low bits %d are greater than %d", low, MaxIDLow)
	}
	return SubmissionID(unixMS<<lowBits | int64(low)), nil
}

// ParseSubmissionID parses the decimal text of an id, as in a path. It returns an error if the text is not a number from
// 0 to 2^63-1.
func ParseSubmissionID(text string) (SubmissionID, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("submission id %q is not a number from 0 to 2^63-1", shortened(text))
	}
	return SubmissionID(n), nil
}

// UnixMS returns the time of the id in ms since 1970.
func (id SubmissionID) UnixMS() int64 { return int64(id) >> lowBits }

// Low returns the low 22 bits.
func (id SubmissionID) Low() uint32 { return uint32(id) & MaxIDLow }

func (id SubmissionID) String() string { return strconv.FormatInt(int64(id), 10) }
