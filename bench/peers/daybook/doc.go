// Package daybook drives a Daybook server for the comparison, with a plain net/http client, with the Go client and its
// Worker, with streams, and with Python's standard library. To add a client, add a file and a line in Drivers.
//
// # Files
//
//	daybook.go    the server, and the drivers
//	http.go       net/http and the JSON API
//	runs.go       net/http and claims in runs
//	goclient.go   package client: calls and Worker
//	stream.go     WebSockets, in JSON and in runs
//	echo.go       WebSockets and a server that does nothing
//	python.go     starts load.py
//	load.py       a load that needs only Python
package daybook
