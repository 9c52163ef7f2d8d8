// Package enginetest cleans up after a container engine that a test has started.
package enginetest
