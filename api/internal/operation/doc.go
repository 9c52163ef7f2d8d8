// Package operation makes handlers of typed functions, whose input has the parameters and the body of a request, and whose
// output has the headers and the body of the answer. The tags of their fields are the rules by which a request is checked, and
// describe the operation in the OpenAPI document; see package openapi.
//
// A request has:
//
//	ID    job.ID `path:"id"`                           // or query, or header
//	Limit int    `query:"limit" minimum:"1" default:"100"`
//	Meta  map[string]string `query:"meta."`            // all parameters whose names have this prefix
//	Files []string `query:"pattern*"`                  // can be given several times; only described
//	Body  T                                            // a JSON object; without the field, the body must be empty or {}
//
// A header with the tag read:"elsewhere" is only described, and a parameter with the tag list:"commas" is a list.
//
// An answer has:
//
//	Status   int                                       // without the field, the only status of the operation
//	Seq      uint64 `header:"Daybook-Seq"`             // is left out if it is zero
//	Body     T                                         // without the field, the answer has no body
//	Basis    T                                         // makes a tagged answer; the entity tag is a digest of it
//
// Answers that are no JSON, or that are sent in pieces, are written by the function itself; see Written. The routes that are
// called for each job also read their requests themselves, because reflection and the additional copy would cost as much as
// the rest of the request; see Described.
package operation
