// Package config finds the value of each setting of a command: its flag, its environment variable, a configuration file
// or its default, in this order. The flags are the definition: a setting has the name and the type of its flag, so no
// second table can differ. The package also has the flags of several commands: durations, numbers of bytes, and the
// addresses of servers, which may be contexts that a user has stored.
//
// Contract: no output has the password of an address.
//
// Not for: the meaning of settings, which their commands check.
package config
