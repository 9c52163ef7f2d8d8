// Command open measures latencies at fixed rates of arrivals, against the real server binary: for each work it finds the
// peak with a closed loop, and then sends calls at 25, 50, 75 and 95 % of it, each at a server that has just started.
// `make bench-open` runs it.
//
// Beside each run it watches the disk and the processors: how long an append and an fsync of a plain file on the same
// disk take, every 25 ms, and how late a thread wakes up that sleeps for 5 ms. So a stall of the server can be compared
// with what the machine did at the same time.
//
// # Files
//
//	main.go      flags, the works and rates
//	measure.go   one run at one rate
//	watch.go     what the disk and the processors did meanwhile
//	report.go    JSON, and the tables of docs/explanation/performance.md
//
// The plot is drawn by bench/peers/latency, from the JSON.
package main
