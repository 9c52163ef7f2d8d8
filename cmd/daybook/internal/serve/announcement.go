package serve

import (
	"log/slog"
	"net"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/mdns"
)

// The values of --mdns.
const (
	mdnsAuto = "auto"
	mdnsOn   = "on"
	mdnsOff  = "off"
)

// announceOnNetwork announces the server by multicast DNS until end is called, if --mdns requires it. A server that
// listens on loopback cannot be announced, since no other machine can connect to it. With auto a failure is only a
// warning, since the server works without the announcement, and the network may become available later.
func (f *Flags) announceOnNetwork(address *net.TCPAddr, id string, log zerolog.Logger) (end func(), err error) {
	none := func() {}
	switch {
	case f.mdns == mdnsOff, f.mdns == mdnsAuto && !config.IsExposed(address):
		return none, nil
	}
	a, err := mdns.Announce(mdns.Server{
		ID: id, Port: address.Port, Path: "/", Version: f.build.Version, TLS: f.speaksTLS(), Addr: address.AddrPort().Addr(), Interfaces: f.mdnsOn, Wait: f.mdns == mdnsAuto,
		Logger: slog.New(zerolog.NewSlogHandler(log)),
	})
	if err != nil {
		return none, err
	}
	return func() {
		if err := a.Close(); err != nil {
			log.Warn().Err(err).Msg("cannot end the announcement on the local network")
		}
	}, nil
}
