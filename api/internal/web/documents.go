package web

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"
)

// Every document is a struct in the file of its handler. The JSON library encodes it in the order of its fields. A nil
// pointer is null. Documents of jobs, ids of jobs and results of outcomes are encoded by hand: one answer can have
// hundreds of them, and the library takes 4 to 9 times as long.

// DocumentOptions make the encoding deterministic, which entity tags require. Texts are checked when they arrive. If a
// text has bytes that are not UTF-8 anyway, the document shows U+FFFD for them.
var DocumentOptions = json.JoinOptions(json.Deterministic(true), jsontext.AllowInvalidUTF8(true))

// EncodeDocument returns the text of a document with a newline after it.
func EncodeDocument(document any) ([]byte, error) {
	text, err := json.Marshal(document, DocumentOptions)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", document, err)
	}
	return append(text, '\n'), nil
}

// EncodeHead returns the text of a document without its closing brace. The caller appends a list that is encoded by
// hand.
func EncodeHead(head any) ([]byte, error) {
	text, err := json.Marshal(head, DocumentOptions)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", head, err)
	}
	return text[:len(text)-1], nil
}

// AnswerDocument writes a document as the whole answer.
func AnswerDocument(c echo.Context, status int, document any) error {
	text, err := EncodeDocument(document)
	if err != nil {
		return err
	}
	return Answer(c, status, MIMEJSON, text)
}

// EncodePage encodes a page of documents, and resizes the share to its text, which can be long.
func EncodePage(ctx context.Context, held *Share, page any) ([]byte, error) {
	text, err := EncodeDocument(page)
	if err != nil {
		return nil, err
	}
	return text, held.Resize(ctx, int64(cap(text)))
}

// OrNull returns a pointer to v, or nil, which a document shows as null, if v is the zero value.
func OrNull[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
}
