// Package openapi describes the operations of an HTTP API in OpenAPI 3.1. It derives schemas and parameters from Go types
// and their tags, so that the types that decode requests and encode answers also describe them.
//
// These tags of a field describe its value. In a list or a map, they describe the elements, except those that name items
// or properties:
//
//	doc                             a description
//	schema                          the name of a schema that is defined by hand, such as Name
//	type                            the same for the whole value
//	items                           the same for the items of a value that is decoded later, and is a list
//	describe                        no for a field that another type describes
//	minimum, maximum                bounds of a number
//	minLength, maxLength, pattern   bounds of a text
//	enum                            the possible values, separated by commas
//	minItems, maxItems              bounds of a list
//	maxProperties                   bound of a map
//	nullable                        true if null is possible, and false for a pointer that is never null; other pointers are nullable
//	required                        true if a request must have the field
//
// A field of an answer is required unless its JSON tag has omitzero. A field of a request is required only with the tag.
package openapi
