package opsqueue_test

import (
	"bytes"
	"encoding/json"
)

// sortedFields sorts the fields of each object in a JSON text, and keeps numbers unchanged.
func sortedFields(text string) string {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return "not JSON: " + text
	}
	sorted, err := json.Marshal(value)
	if err != nil {
		return "not JSON: " + text
	}
	return string(sorted)
}
