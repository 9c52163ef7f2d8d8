package api

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/daybookq/daybook/job"
)

// readQuery calls take with each parameter of a query, in the order of their names. One that is there twice, or that take does not know, is
// refused: a misspelt filter would otherwise list everything.
func readQuery(rawQuery string, take func(key, value string) (known bool, err error)) error {
	if rawQuery == "" {
		return nil
	}
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return badRequest("", "the query cannot be read: "+shortened(err.Error()))
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		list := values[key]
		if len(list) > 1 {
			return badRequest(shortened(key), fmt.Sprintf("%s is there twice", shortened(key)))
		}
		known, err := take(key, list[0])
		if err != nil {
			return err
		}
		if !known {
			return badRequest(shortened(key), fmt.Sprintf("parameter %s is not known here", shortened(key)))
		}
	}
	return nil
}

// pageLimit reads how many things a page may have.
func pageLimit(key, value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > job.MaxPage || strconv.Itoa(n) != value {
		return 0, badRequest(key, fmt.Sprintf("%s must be 1 to %d, not %q", key, job.MaxPage, shortened(value)))
	}
	return n, nil
}

// queryTime reads a time, unix ms.
func queryTime(key, value string, least int64) (int64, error) {
	n, err := wholeNumber(key, value)
	if err != nil {
		return 0, err
	}
	return *n, badField(key, job.CheckRange(key, *n, least, job.MaxTimeMs))
}
