package wire

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// appendKey begins an entry of an object. The first call begins the object, too.
func appendKey(b []byte, key string) []byte {
	if last := b[len(b)-1]; last != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, key...)
	return append(b, '"', ':')
}

// appendJSONText appends a string. It replaces invalid UTF-8 by U+FFFD.
func appendJSONText(b []byte, text string) []byte {
	b, _ = jsontext.AppendQuote(b, text) // its only error reports that it replaced bytes
	return b
}

func appendJSONNullable(b []byte, text *string) []byte {
	if text == nil {
		return append(b, "null"...)
	}
	return appendJSONText(b, *text)
}

// timeLayout always has nine decimal digits, like the original's times.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

func appendJSONTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, timeLayout)
	return append(b, '"')
}

func appendJSONMetadata(b []byte, m Metadata) []byte {
	b = append(b, '{')
	for i, p := range m {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSONText(b, p.Key)
		b = append(b, ':')
		b = strconv.AppendInt(b, p.Value, 10)
	}
	return append(b, '}')
}

func appendField(b []byte, key string, n int64) []byte {
	return strconv.AppendInt(appendKey(b, key), n, 10)
}
