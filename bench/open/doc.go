// Command open measures latencies at fixed rates of arrivals, against the real server binary: for each work it finds the
// peak with a closed loop, and then sends calls at 25, 50, 75 and 95 % of the peak, each time to a server that has just
// started. `make bench SET=open` runs it.
//
// During each run it watches the disk and the processors: how long it takes to append to and fsync a plain file on the
// same disk, every 25 ms, and how late a thread wakes up that sleeps for 5 ms. So a stall of the server can be compared
// with the state of the machine at the same time.
//
// bench/peers/latency draws the plot from the JSON.
package main
