// Package daybook drives a Daybook server for the comparison, by a plain net/http client, by the Go client with its
// Worker, by streams, and by Python's standard library. A further client is one more file and one more line in Drivers.
//
// # Files
//
//	daybook.go    the server, and the drivers
//	http.go       net/http and the JSON API
//	runs.go       net/http and claims in runs
//	goclient.go   package client: calls and Worker
//	stream.go     WebSockets, in JSON and in runs
//	echo.go       WebSockets and a server that does nothing
//	python.go     starting load.py
//	load.py       a load that needs nothing but Python
package daybook
