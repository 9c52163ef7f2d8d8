package job

import "fmt"

// Rates bound how fast a key is used. 0 means without a bound. The server counts them in memory, at each node of a cluster its
// part.
type Rates struct {
	Creates      int64 // jobs a second that its requests create
	Claims       int64 // jobs a second that its claims get
	Reads        int64 // requests a second that only read
	Bytes        int64 // of request bodies a second
	Streams      int64 // open at the same time
	ParkedClaims int64 // claims that wait for jobs at the same time
}

// RateNames are the names of the rates, in documents and on the command line.
var RateNames = [...]string{"creates", "claims", "reads", "bytes", "streams", "parked_claims"}

// each returns the values in the order of RateNames.
func (r *Rates) each() [len(RateNames)]*int64 {
	return [...]*int64{&r.Creates, &r.Claims, &r.Reads, &r.Bytes, &r.Streams, &r.ParkedClaims}
}

// Named returns the rate with a name, or nil if there is none.
func (r *Rates) Named(name string) *int64 {
	all := r.each()
	for i := range RateNames {
		if RateNames[i] == name {
			return all[i]
		}
	}
	return nil
}

// Equal reports whether two keys have the same rates. Nil means without any.
func (r *Rates) Equal(other *Rates) bool {
	if r == nil || other == nil {
		return r == other
	}
	return *r == *other
}

// Check returns an error unless each rate is in its bounds, and at least one is given.
func (r *Rates) Check() error {
	given := false
	for i, v := range r.each() {
		lowest := int64(1)
		if v == &r.Bytes {
			lowest = MinBytesRate
		}
		if *v == 0 {
			continue
		}
		if err := CheckRange("rates."+RateNames[i], *v, lowest, MaxRate); err != nil {
			return err
		}
		given = true
	}
	if !given {
		return fmt.Errorf("rates has no rate; leave it out for none")
	}
	return nil
}
