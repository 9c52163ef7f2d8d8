// Package peer drives the systems that Daybook is compared with, each through the fastest usage that its documentation
// describes. Their settings make them write to disk before they answer, as far as they have such settings.
//
// A peer whose server is not installed is reported as missing, with the reason.
package peer
