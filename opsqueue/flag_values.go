package opsqueue

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The texts of these errors are those of Rust's standard library and of clap.
var (
	errEmptyNumber = errors.New("cannot parse integer from empty string")
	errDigit       = errors.New("invalid digit found in string")
	errTooLarge    = errors.New("number too large to fit in target type")
)

// setUnsigned reads a number from least to most, which may begin with a plus.
func setUnsigned[T uint16 | uint32 | uint64 | int64](to *T, text string, least, most uint64) error {
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "+"), 10, 64)
	if err != nil {
		return numberError(text, err)
	}
	if n < least || n > most {
		return fmt.Errorf("%d is not in %d..=%d", n, least, most)
	}
	*to = T(n)
	return nil
}

// setDescriptor reads a number of 32 bits with sign.
func setDescriptor(to *int, text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return numberError(text, err)
	}
	if n < -1<<31 || n > 1<<31-1 {
		return fmt.Errorf("%d is not in -2147483648..=2147483647", n)
	}
	*to = int(n)
	return nil
}

func numberError(text string, err error) error {
	switch {
	case text == "":
		return errEmptyNumber
	case errors.Is(err, strconv.ErrRange):
		return errTooLarge
	}
	return errDigit
}

func setDuration(to *time.Duration, text string) (err error) {
	*to, err = parseDuration(text)
	return err
}

// setPositive refuses a duration of 0, with which the original starts and then fails at the first consumer.
func setPositive(to *time.Duration, text string) error {
	if err := setDuration(to, text); err != nil {
		return err
	}
	if *to == 0 {
		return errors.New("it must be longer than 0")
	}
	return nil
}
