// Package rates bounds how fast keys are used.
//
// A key can have rates (job.Rates). Each rate of a second is a bucket that holds what the key may use in a second. A request
// is carried out if the bucket is not empty, however much the request takes; the bucket may then owe up to an hour, during
// which further requests are refused. So a request need not be split to fit into a second, and the rate holds over time.
//
// Requests without which work would be lost are never refused: completions, releases, tickles, heartbeats and logs of runs. Jobs
// that completions create are not counted.
//
// The buckets are in memory, only of keys that have rates and use them. Each node of a cluster counts for itself, with its part
// of each rate.
package rates
