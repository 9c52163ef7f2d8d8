package terminal

// ended takes the exit code of the process.
var ended = make(chan int)

// End ends the process with an exit code, without waiting for anything that still runs. It does not return.
func End(code int) {
	ended <- code
	select {}
}

// UntilEnded runs the command line, and returns the exit code of the process: of run, or of End if a signal or a failure
// of the disk ends the process before that.
func UntilEnded(run func() int) (code int) {
	go func() { End(run()) }()
	return <-ended
}
