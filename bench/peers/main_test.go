package main

import (
	"io"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/internal/testkit"
)

func TestFlags(t *testing.T) {
	o, err := parse([]string{"-short"}, io.Discard)
	testkit.Holds(t, err == nil && o.rounds == 1 && o.turn < time.Second, "-short sets", o, err)
	for _, args := range [][]string{{"-rounds", "0"}, {"-turn", "0s"}, {"redis"}, {"-nothing"}} {
		_, err := parse(args, io.Discard)
		testkit.Holds(t, err != nil, args, "is accepted")
	}
}

func TestChoose(t *testing.T) {
	name := func(b measure.Block) string { return b.Name }
	chosen, err := choose("drain-bulk, create-one", measure.Blocks(), name)
	testkit.Holds(t, err == nil && len(chosen) == 2 && chosen[1].Name == "create-one", "chosen are", chosen, err)
	testkit.Fails(choose("nothing", measure.Blocks(), name))(t, "drain-bulk")
}
