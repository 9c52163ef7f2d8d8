module github.com/daybookq/daybook/mdns

go 1.26.0

require (
	github.com/hashicorp/mdns v1.0.7
	github.com/miekg/dns v1.1.72
	golang.org/x/net v0.60.0
)

require (
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/tools v0.50.0 // indirect
)
