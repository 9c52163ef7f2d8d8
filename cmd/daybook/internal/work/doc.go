// Package work reads the settings of `daybook work` that are no flags: the tables of its configuration file, and the
// limits of containers. It also loads a new script, and says which jobs a runner leaves.
package work
