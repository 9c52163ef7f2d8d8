package opsqueue

// ConfigOf returns the configuration that the flags and variables of the original stand for. It has no log.
func ConfigOf(f Flags, e Environment) Config {
	return Config{
		ReservationExpiration: f.ReservationExpiration, HeartbeatInterval: f.HeartbeatInterval,
		MaxMissableHeartbeats: f.MaxMissableHeartbeats, MaxChunkRetries: f.MaxChunkRetries,
		MaxSubmissionAge: f.MaxSubmissionAge, MaxSubmissionsReturned: f.MaxSubmissionsReturned,
		Names: &ConnectionNames{Colours: e.DebugConnections},
	}
}
