package opsqueue_test

import (
	"bytes"
	"encoding/json"
)

// sortedFields returns a JSON text with the fields of each object in order, and numbers as they were.
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
