package container

// GuestImage and EngineOf are for external tests, which run a whole runner. This package must not import it.
const GuestImage = guestImage

// EngineOf returns the address of a real engine that has the guest's image. It returns an error if there is none.
func EngineOf(name string) (host string, err error) {
	e, err := realEngines[name]()
	if err != nil {
		return "", err
	}
	return e.host, nil
}
