module github.com/daybookq/daybook

go 1.26

require (
	github.com/cockroachdb/pebble/v2 v2.1.7
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3
	github.com/labstack/echo/v4 v4.16.0
	github.com/prometheus/client_golang v1.25.0
	github.com/rs/zerolog v1.35.1
	github.com/tidwall/btree v1.8.2
	github.com/tidwall/wal v1.2.1
	golang.org/x/sys v0.49.0
)
