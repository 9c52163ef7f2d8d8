package job

import "hash/fnv"

// Seed returns the number that decides the random choices of a journal's commands. journal is the journal's UUID.
func Seed(journal string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(journal))
	return h.Sum64()
}

// RandomOf returns the random number of a decision: splitmix64's finalizer over each part (Steele, Lea, Flood: Fast
// Splittable Pseudorandom Number Generators, 2014). seq names the command. batch and line name the job that the command
// decides about; a draw among jobs has its number instead of the batch, and math.MaxUint32.
func RandomOf(seed, seq, batch uint64, line uint32) uint64 {
	x := seed
	for _, part := range [...]uint64{seq, batch, uint64(line)} {
		x += part + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}
