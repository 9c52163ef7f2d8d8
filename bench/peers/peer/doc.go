// Package peer drives the systems that Daybook is compared with, each through the fastest usage that its documentation
// describes. Their settings make them write to disk before they answer, as far as they have such settings.
//
// A peer whose server is not installed is reported as missing, with the reason.
//
// # Files
//
//	peer.go           the list of drivers; fills a queue
//	redis_server.go   a Redis server, for redis.go, rueidis.go and asynq.go
//	resp.go           Redis's protocol
//	redis.go          Redis Streams, pipelined
//	rueidis.go        Redis Streams through a client library
//	beanstalkd.go     beanstalkd
//	postgres.go       a PostgreSQL server
//	river.go          River on PostgreSQL
//	nats.go           NATS JetStream
//	asynq.go          asynq on Redis
//	queued.go         queued
//	faktory.go        Faktory, which is missing
//	echo.go           an HTTP handler that does nothing
//	echo_stream.go    the same for streams; package daybook drives it
//	count.go          the jobs that a worker has done
//	versions.go       the versions of client libraries
package peer
