// Package journal keeps the ordered, durable record of every command.
package journal
