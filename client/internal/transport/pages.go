package transport

import (
	"context"
	"iter"
	"net/url"
)

// Pages yields the elements of a list page by page. read returns the elements of a page, and the beginning of the next
// page.
func Pages[T any](ctx context.Context, c *Conn, r Request, read func(a Answer) (list []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		r := r // the caller may iterate more than once
		for {
			a, err := c.Do(ctx, r)
			var list []T
			var next string
			if err == nil {
				list, next, err = read(a)
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, one := range list {
				if !yield(one, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			query := url.Values{"after": {next}}
			for name, values := range r.Query {
				if name != "after" {
					query[name] = values
				}
			}
			r.Query = query
		}
	}
}
