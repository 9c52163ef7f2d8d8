// Package manifest parses the manifests of WASI guests, in Serval's format: TOML with these keys. Only binary is
// required.
//
//	name = "serval-facts"
//	namespace = "com.example"
//	version = "1.0.0"
//	binary = "sha256:…"
//	description = "Prints a fact about servals"
//	required_extensions = ["as-fib"]
//	required_permissions = ["http:example.com", "extension:as-fib"]
//
// Not for: the rules of handlers (package handler), running guests (package wasi).
package manifest
