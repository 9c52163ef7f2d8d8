module github.com/daybookq/daybook/client

go 1.26.0

require (
	github.com/bmatcuk/doublestar/v4 v4.10.4
	github.com/daybookq/daybook/job v0.0.0
	github.com/daybookq/daybook/mdns v0.0.0
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3
)

require (
	github.com/coder/websocket v1.8.15
	github.com/hashicorp/mdns v1.0.7 // indirect
	github.com/miekg/dns v1.1.72 // indirect
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/tools v0.50.0 // indirect
)
