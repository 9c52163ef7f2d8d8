// Package check compares the rows of a store with each other and reports every broken invariant.
package check
