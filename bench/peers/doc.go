// Command peers measures Daybook and other queues on one machine: `make bench SET=peers`. docs/explanation/performance.md
// describes how to run it, the columns and the results.
//
// It is a separate module, so that the libraries of the peers never reach Daybook's modules. go.work does not use it.
//
// Folder measure has the works, the turns and the figures; daybook and peer have the drivers; process starts and ends
// servers; report writes tables and JSON; plot draws the picture.
package main
