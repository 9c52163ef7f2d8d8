package registry

import (
	"fmt"
	"math"
	"time"

	"github.com/daybookq/daybook/job"
)

// Bounds of the data that a runner reports.
const (
	MaxInstanceBytes  = 64
	maxNameBytes      = 128
	maxVersionBytes   = 64
	maxAddresses      = 16
	maxAddressBytes   = 256
	maxKinds          = 16
	maxNames          = 100 // types, or clients
	maxLabels         = 32
	maxLabelBytes     = 64
	maxLabelTextBytes = 256
	maxSlots          = 1_000_000
	maxFigure         = 1 << 53 // whole numbers up to here are exact in JSON
	// MaxInfoBytes bounds all texts of one runner together, because the registry keeps the texts of MaxAlive runners.
	MaxInfoBytes = 4 << 10
)

// Bounds of the time between two heartbeats. At the lower bound, ten thousand runners send ten thousand requests a
// second.
const (
	DefaultHeartbeat = 15 * time.Second
	MinHeartbeat     = time.Second
	MaxHeartbeat     = time.Hour
)

// Info is the data that a runner reports in a heartbeat. Only Instance is required.
type Info struct {
	Instance  string            `json:"instance" required:"true" schema:"Instance"`
	Name      string            `json:"name" maxLength:"128" doc:"a name for people"`
	Addresses []string          `json:"addresses" maxItems:"16" minLength:"1" maxLength:"256"`
	Kinds     []string          `json:"kinds" maxItems:"16" schema:"Name" doc:"kinds of handlers that it runs"`
	Types     []string          `json:"types" maxItems:"100" schema:"Name" doc:"types of jobs that it claims; none means all"`
	Clients   []string          `json:"clients" maxItems:"100" schema:"Name" doc:"clients whose jobs it claims; none means all"`
	Slots     int64             `json:"slots" minimum:"0" maximum:"1000000" doc:"how much it runs at a time"`
	Labels    map[string]string `json:"labels" maxProperties:"32" names:"^(?s:.{1,64})$" maxLength:"256"`
	Version   string            `json:"version" maxLength:"64" doc:"the version of its program"`
	Stats     Stats             `json:"stats"`
}

// Stats are the figures of a runner at its last heartbeat.
type Stats struct {
	CPU     float64 `json:"cpu" minimum:"0" maximum:"1000000" doc:"how many cores it uses; 0.5 is half of a core"`
	Memory  int64   `json:"memory" minimum:"0" maximum:"9007199254740992" doc:"bytes"`
	Running int64   `json:"running" minimum:"0" maximum:"9007199254740992" doc:"how many jobs it runs"`
}

// FieldError describes an invalid field of an Info.
type FieldError struct{ Field, Text string }

func (e *FieldError) Error() string { return e.Text }

// Check returns a *FieldError for the first invalid field, or nil.
func (i *Info) Check() error {
	var c checker
	c.fail("instance", CheckInstance(i.Instance))
	c.text("name", i.Name, 0, maxNameBytes)
	c.list("addresses", i.Addresses, maxAddresses, func(field, text string) error { return job.CheckText(field, text, 1, maxAddressBytes) })
	c.list("kinds", i.Kinds, maxKinds, job.CheckName)
	c.list("types", i.Types, maxNames, job.CheckName)
	c.list("clients", i.Clients, maxNames, job.CheckName)
	c.figure("slots", i.Slots, maxSlots)
	c.labels(i.Labels)
	c.text("version", i.Version, 0, maxVersionBytes)
	if !(i.Stats.CPU >= 0 && i.Stats.CPU <= maxSlots) || math.IsInf(i.Stats.CPU, 0) {
		c.fail("stats.cpu", fmt.Errorf("stats.cpu must be 0 to %d, not %v", maxSlots, i.Stats.CPU))
	}
	c.figure("stats.memory", i.Stats.Memory, maxFigure)
	c.figure("stats.running", i.Stats.Running, maxFigure)
	if n := i.bytes(); c.wrong == nil && n > MaxInfoBytes {
		c.fail("", fmt.Errorf("the texts of the runner take %d bytes together; the maximum is %d", n, MaxInfoBytes))
	}
	if c.wrong == nil {
		return nil
	}
	return c.wrong
}

// CheckInstance returns an error for an invalid instance, or nil.
func CheckInstance(instance string) error {
	return job.CheckText("instance", instance, 1, MaxInstanceBytes)
}

// bytes returns the length of all texts.
func (i *Info) bytes() int {
	n := len(i.Instance) + len(i.Name) + len(i.Version)
	for _, list := range [][]string{i.Addresses, i.Kinds, i.Types, i.Clients} {
		for _, text := range list {
			n += len(text)
		}
	}
	for name, text := range i.Labels {
		n += len(name) + len(text)
	}
	return n
}

// checker remembers the first error.
type checker struct{ wrong *FieldError }

func (c *checker) fail(field string, err error) {
	if c.wrong == nil && err != nil {
		c.wrong = &FieldError{field, err.Error()}
	}
}

func (c *checker) text(field, text string, lo, hi int) {
	c.fail(field, job.CheckText(field, text, lo, hi))
}

func (c *checker) figure(field string, n, most int64) {
	c.fail(field, job.CheckRange(field, n, 0, most))
}

func (c *checker) list(field string, list []string, most int, check func(field, text string) error) {
	if len(list) > most {
		c.fail(field, fmt.Errorf("%s has %d entries; the maximum is %d", field, len(list), most))
		return
	}
	for _, text := range list {
		c.fail(field, check(field, text))
	}
}

func (c *checker) labels(labels map[string]string) {
	if len(labels) > maxLabels {
		c.fail("labels", fmt.Errorf("labels has %d entries; the maximum is %d", len(labels), maxLabels))
		return
	}
	for name, text := range labels {
		c.text("labels", name, 1, maxLabelBytes)
		c.text("labels", text, 0, maxLabelTextBytes)
	}
}
