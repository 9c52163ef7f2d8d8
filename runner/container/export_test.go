package container

// GuestImage and EngineOf are for the tests that run a whole runner, which this package must not import.
const GuestImage = guestImage

// EngineOf returns the address of a real engine with the guest's image, or why there is none.
func EngineOf(name string) (host string, err error) {
	e, err := realEngines[name]()
	if err != nil {
		return "", err
	}
	return e.host, nil
}
