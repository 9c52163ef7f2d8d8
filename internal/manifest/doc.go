// Package manifest reads the manifests of WASI guests, as Serval has them: TOML with these keys. Only binary is required.
//
//	name = "serval-facts"
//	namespace = "com.example"
//	version = "1.0.0"
//	binary = "sha256:…"
//	description = "Prints a fact about servals"
//	required_extensions = ["as-fib"]
//	required_permissions = ["http:example.com", "extension:as-fib"]
//
// The file: manifest.go.
//
// Not for: what a handler may have (package handler), running guests (package wasi).
package manifest
