package transport

import (
	"context"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// New makes a request that is repeated when its answer is lost.
func New(method, path string) Request {
	return Request{Method: method, Path: path, Repeat: Repeatable}
}

// With returns the request with a JSON body. If the body cannot be encoded, Do returns the reason.
func (r Request) With(body any) Request {
	of, err := Post(r.Path, body, r.Repeat)
	r.Body, r.ContentType = of.Body, of.ContentType
	if r.Err == nil {
		r.Err = err
	}
	return r
}

// Ask sends a request as Do does, and decodes its answer.
func Ask[T any](ctx context.Context, c *Conn, r Request) (doc T, err error) {
	a, err := c.Do(ctx, r)
	if err == nil {
		err = Decode(a, &doc)
	}
	return doc, err
}

// Tell sends a request as Do does, and ignores its answer.
func (c *Conn) Tell(ctx context.Context, r Request) error {
	_, err := c.Do(ctx, r)
	return err
}

// List yields the elements of a list, page by page, as Pages does. They are in a field of each page.
func List[T any](ctx context.Context, c *Conn, r Request, field string) iter.Seq2[T, error] {
	return Pages(ctx, c, r, func(a Answer) (list []T, next string, err error) {
		var page map[string]jsontext.Value
		if err := Decode(a, &page); err != nil {
			return nil, "", err
		}
		for name, to := range map[string]any{field: &list, "next": &next} {
			if text := page[name]; text != nil {
				if err := Decode(Answer{Body: text, Once: a.Once}, to); err != nil {
					return nil, "", err
				}
			}
		}
		return list, next, nil
	})
}
