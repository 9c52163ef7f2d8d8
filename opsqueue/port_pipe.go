package opsqueue

import (
	"encoding/binary"
	"fmt"
	"os"
)

// PortPipe reports the port of the server to the process that started it, through a file descriptor that this process
// inherited (--report-bound-port-pipe). The other process reads two bytes, the port in big-endian order, and then the end.
// If it reads the end at once, the start failed. A nil *PortPipe reports nothing.
type PortPipe struct {
	file *os.File // nil: closed
}

// NewPortPipe takes over a file descriptor. It returns nil if the descriptor is negative, and an error if it is not open.
func NewPortPipe(descriptor int) (*PortPipe, error) {
	if descriptor < 0 {
		return nil, nil
	}
	file := os.NewFile(uintptr(descriptor), "report-bound-port-pipe")
	if file == nil {
		return nil, fmt.Errorf("report port: file descriptor %d is not valid", descriptor)
	}
	if _, err := file.Stat(); err != nil {
		return nil, fmt.Errorf("report port: file descriptor %d is not open: %w", descriptor, err)
	}
	return &PortPipe{file}, nil
}

// Report writes the port and closes the descriptor. The server must listen already, because the other process connects as
// soon as it has read the port.
func (p *PortPipe) Report(port uint16) error {
	if p == nil || p.file == nil {
		return nil
	}
	_, err := p.file.Write(binary.BigEndian.AppendUint16(nil, port))
	if closed := p.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("report port %d: %w", port, err)
	}
	return nil
}

// Close closes the descriptor without writing, if Report was not called. Every start that fails must call it.
func (p *PortPipe) Close() error {
	if p == nil || p.file == nil {
		return nil
	}
	file := p.file
	p.file = nil
	return file.Close()
}
